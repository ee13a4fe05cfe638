"""What docs/operations says about Ray's launcher and autoscaler, checked against Ray."""

import json
from pathlib import Path

import pytest

from tests.cluster.test_cluster_yaml import in_a_process

CHOICE = """
import json, sys, yaml
from ray.autoscaler.v2.instance_manager.config import AutoscalingConfig
from ray.autoscaler.v2.instance_manager.subscribers.cloud_resource_monitor import CloudResourceMonitor
from ray.autoscaler.v2.scheduler import ResourceDemandScheduler, SchedulingRequest
from ray.core.generated.autoscaler_pb2 import ResourceRequest, ResourceRequestByCount
from ray.core.generated.instance_manager_pb2 import Instance, InstanceUpdateEvent
file, cloud = yaml.safe_load(open("cluster.yaml")), CloudResourceMonitor()
gpu = ResourceRequest(resources_bundle={"CPU": 1, "GPU": 1})
def chosen():
    config = AutoscalingConfig(file, skip_content_hash=True)
    reply = ResourceDemandScheduler(None).schedule(SchedulingRequest(
        disable_launch_config_check=True,
        node_type_configs=config.get_node_type_configs(),
        max_num_nodes=config.get_max_num_nodes(),
        resource_requests=[ResourceRequestByCount(request=gpu, count=1)],
        cloud_resource_availabilities=cloud.get_resource_availabilities(),
        recoverable_resource_availabilities=cloud.get_recoverable_resource_availabilities()))
    return [launch.instance_type for launch in reply.to_launch]
told = [chosen()]
cloud.notify([InstanceUpdateEvent(instance_type="gpu_spot", new_instance_status=Instance.ALLOCATION_FAILED)])
told.append(chosen())
file["available_node_types"]["gpu_spot"]["priority"] = -10
told.append(chosen())
print(json.dumps(told))
"""


@pytest.mark.process
def test_what_spot_refuses_goes_to_on_demand_nodes_by_their_priority_only() -> None:
    """As docs/operations says: Ray takes notice of nodes that never became ready, not of those that AWS refuses."""
    done = in_a_process(CHOICE)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [["gpu_spot"], ["gpu_spot"], ["gpu"]]


REPLACED = """
import copy, pathlib, sys, yaml
from ray.autoscaler._private.commands import _should_create_new_head
from ray.autoscaler._private.util import hash_launch_conf
from ray.autoscaler.tags import TAG_RAY_LAUNCH_CONFIG, TAG_RAY_USER_NODE_TYPE
key, file = pathlib.Path(sys.argv[1], "key"), yaml.safe_load(open("cluster.yaml"))
def launched(kinds):
    return hash_launch_conf(kinds["head"]["node_config"], {**file["auth"], "ssh_private_key": str(key)})
def replaced(change, content="ours"):
    kinds = copy.deepcopy(file["available_node_types"])
    change(kinds)
    key.write_text(content)
    return _should_create_new_head("i-1", launched(kinds), "head", Running)
key.write_text("ours")
began = {TAG_RAY_LAUNCH_CONFIG: launched(file["available_node_types"]), TAG_RAY_USER_NODE_TYPE: "head"}
class Running:
    node_tags = staticmethod(lambda node: began)
assert not replaced(lambda kinds: kinds["gpu"].update(max_workers=9, node_config={}))
assert replaced(lambda kinds: None, content="that of another machine")
assert replaced(lambda kinds: kinds["head"]["node_config"].update(InstanceType="m6i.2xlarge"))
"""


@pytest.mark.process
def test_what_replaces_the_head(tmp_path: Path) -> None:
    """As docs/operations says of another machine and of the head's own settings."""
    done = in_a_process(REPLACED, str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
