"""The plan of a cluster on Kubernetes: read from the API server on the head, and nowhere else."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import responses
import yaml
from ray.autoscaler._private.kuberay import node_provider

from vse.cluster import capacity
from vse.cluster.capacity import launched_plan, planned

ROOT = Path(__file__).resolve().parents[3]
URL = "https://10.0.0.1:443/apis/ray.io/v1/namespaces/research/rayclusters/vse"


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The environment that KubeRay gives to the head."""
    (tmp_path / "token").write_text("account")
    monkeypatch.setattr(node_provider, "IN_CLUSTER_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(node_provider.url_from_resource, "__defaults__", ("v1", "10.0.0.1:443"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in {"NODE_TYPE_NAME": "headgroup", "CLUSTER_NAME": "vse", "CLUSTER_NAMESPACE": "research"}.items():
        monkeypatch.setenv(f"RAY_{name}", value)
    capacity._kuberay_plan.cache_clear()
    yield monkeypatch
    capacity._kuberay_plan.cache_clear()


@responses.activate
def test_the_head_reads_its_cluster_once(pod: pytest.MonkeyPatch) -> None:
    resource = yaml.safe_load((ROOT / "kuberay" / "cluster.yaml").read_text())
    resource["metadata"]["namespace"] = "research"
    matchers = [responses.matchers.header_matcher({"Authorization": "Bearer account"})]
    responses.get(URL, json=resource, match=matchers)
    plans = [launched_plan(), launched_plan()]
    assert plans[0] is not None
    assert plans[0] == plans[1]
    assert len(responses.calls) == 1
    assert planned(plans[0]).total({"vse.lifecycle": "spot"})["GPU"] == 8


@responses.activate
def test_a_worker_asks_nothing(pod: pytest.MonkeyPatch) -> None:
    pod.setenv("RAY_NODE_TYPE_NAME", "gpu-spot")
    assert launched_plan() is None
    assert len(responses.calls) == 0


@responses.activate
def test_a_head_without_permission_is_told_what_is_missing(
    pod: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    responses.get(URL, status=403)
    pod.setattr(capacity.log, "propagate", True)
    pod.setattr(capacity.log.parent, "propagate", True)
    assert launched_plan() is None
    assert "RayCluster research/vse cannot be read (403 Client Error: Forbidden" in caplog.text
    assert "enableInTreeAutoscaling" in caplog.text
