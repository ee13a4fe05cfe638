"""The files of `kuberay/`: KubeRay's fields and our lint, each rule shown able to fail."""

import json
import shlex
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.levels import slow_but
from tests.unit.preflight.test_broken_files import GONE, changed, steps_to
from tests.unit.write_job_keys import declared
from vse.cli import command
from vse.cli.main import job_of
from vse.cluster import ray_private
from vse.cluster.capacity import planned
from vse.preflight.kuberay import check_kuberay_file, is_kuberay, kuberay_problems, schema_errors

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "kuberay").glob("*.yaml"))
JOBS = [file for file in FILES if file.stem != "cluster"]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()


def read(name: str) -> dict[str, Any]:
    """A file without its anchors, of which every use would change with the others."""
    return json.loads(json.dumps(yaml.safe_load((ROOT / "kuberay" / name).read_text())))


@pytest.fixture
def cluster() -> dict[str, Any]:
    return read("cluster.yaml")


def found(config: dict[str, Any], constraints: str = CONSTRAINTS) -> list[str]:
    return list(kuberay_problems(config, metadata.version("ray"), constraints))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_files_are_content(file: Path) -> None:
    checks = check_kuberay_file(yaml.safe_load(file.read_text()), str(file))
    assert {check.state for check in checks} == {"ok"}, checks
    assert is_kuberay(yaml.safe_load(file.read_text()))


def put(path: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    steps = tuple(int(step) if step.isdigit() else step.replace("~1", "/") for step in path.split("/"))

    def change(config: dict[str, Any]) -> dict[str, Any]:
        return changed(config, steps, value)

    return change


HEAD, GPU, SPOT = "spec/headGroupSpec", "spec/workerGroupSpecs/0", "spec/workerGroupSpecs/1"
RAY = "template/spec/containers/0"
GKE = "cloud.google.com/gke-spot"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("spec/rayVersion", "2.59.0"), "rayVersion: 2.59.0, but the release in use is 2.60.0"),
        (put("spec/enableInTreeAutoscaling", GONE), "enableInTreeAutoscaling: not true"),
        (put("spec/autoscalerOptions/version", "v1"), "autoscalerOptions.version: not v2"),
        (put("spec/autoscalerOptions/idleTimeoutSeconds", GONE), "autoscalerOptions.idleTimeoutSeconds: missing"),
        (put("spec/authOptions", GONE), "authOptions.mode: not token"),
        (put(f"{HEAD}/rayStartParams/num-cpus", "4"), 'head: num-cpus is 4, not "0"'),
        (put(f"{HEAD}/rayStartParams/num-gpus", "1"), "head: must offer no GPU"),
        (put(f"{HEAD}/{RAY}/resources/limits/nvidia.com~1gpu", "1"), "head: must offer no GPU"),
        (put("spec/autoscalerOptions/volumeMounts", GONE), "autoscalerOptions.volumeMounts: /tmp/ray of the head"),
        (put(f"{HEAD}/labels", {"vse.lifecycle": "spot"}), "head: must not be on a spot node"),
        (put(f"{HEAD}/template/spec/nodeSelector", {"vse.lifecycle": "spot"}), "head: must not be on a spot node"),
        (put(f"{HEAD}/template/spec/tolerations", [{"key": GKE}]), "head: must not be on a spot node"),
        (put(f"{HEAD}/template/spec/nodeSelector", GONE), "head: neither nodeSelector nor affinity"),
        (put(f"{HEAD}/template/metadata", GONE), "head: the annotation karpenter.sh/do-not-disrupt"),
        (put(f"{HEAD}/{RAY}/env/4", {"name": "MLFLOW_TRACKING_URI"}), "head: MLFLOW_TRACKING_URI is not set"),
        (put(f"{HEAD}/serviceType", "LoadBalancer"), "head: serviceType LoadBalancer opens the head"),
        (put(f"{HEAD}/enableIngress", True), "head: enableIngress opens the dashboard"),
        (put(f"{GPU}/labels", GONE), "gpu: needs the label vse.lifecycle: spot or on-demand"),
        (put(f"{GPU}/maxReplicas", 0), "gpu: maxReplicas is missing or 0"),
        (put(f"{GPU}/minReplicas", 1), "gpu: minReplicas is 1, not 0"),
        (put(f"{GPU}/{RAY}/resources/limits/nvidia.com~1gpu", "0.5"), "gpu: nvidia.com/gpu is 0.5, not a whole number"),
        (put(f"{GPU}/{RAY}/resources/requests/nvidia.com~1gpu", GONE), "gpu: requests and limits of nvidia.com/gpu"),
        (put(f"{GPU}/template/spec/tolerations", []), "gpu: does not tolerate the taint nvidia.com/gpu"),
        (put(f"{GPU}/template/spec/nodeSelector", GONE), "gpu: neither nodeSelector nor affinity"),
        (put(f"{SPOT}/template/spec/tolerations/1", GONE), "gpu-spot: tolerates no taint of spot nodes"),
        (
            put(f"{GPU}/template/spec/nodeSelector", {GKE: "true"}),
            "gpu: is labelled on-demand, but tolerates or selects",
        ),
        (put(f"{SPOT}/labels/vse.lifecycle", "on-demand"), "gpu-spot: is labelled on-demand, but tolerates"),
        (put("spec/workerGroupSpecs/0", GONE), "no GPU group is labelled vse.lifecycle: on-demand, for Train ranks"),
        (put("spec/workerGroupSpecs/1", GONE), "no GPU group is labelled vse.lifecycle: spot, for trials"),
        (put(f"{GPU}/{RAY}/image", "registry.example.com/vse:0.1.9"), "images: head and workers differ"),
        (put(f"{GPU}/{RAY}/image", "registry.example.com/vse:latest"), "gpu, container ray-worker: image"),
        (put(f"{GPU}/{RAY}/image", "registry.example.com:5000/vse"), "gpu, container ray-worker: image"),
        (put(f"{GPU}/template/spec/restartPolicy", "Always"), "gpu: restartPolicy must be Never"),
        (put(f"{GPU}/template/spec/securityContext", GONE), "gpu: securityContext.runAsNonRoot is not true"),
        (put(f"{SPOT}/template/spec/terminationGracePeriodSeconds", GONE), "gpu-spot: terminationGracePeriodSeconds"),
        (put(f"{SPOT}/{RAY}/lifecycle", GONE), "gpu-spot: lifecycle.preStop is missing"),
        (put(f"{GPU}/{RAY}/env/0/value", "/data"), "gpu: VSE_WORKSPACE is not on S3"),
        (put(f"{GPU}/{RAY}/env/3/value", "8"), "gpu: OMP_NUM_THREADS is not 1"),
        (put(f"{GPU}/{RAY}/volumeMounts/1", GONE), "gpu: VSE_CACHE is no mounted volume"),
        (
            put(f"{GPU}/{RAY}/env/4", GONE),
            "gpu: VSE_CACHE_GIB is not set, but the pod is evicted when its volume cache",
        ),
        (put(f"{GPU}/{RAY}/env/4/value", "100"), "gpu: VSE_CACHE_GIB is 100, but the pod is evicted"),
        (put(f"{GPU}/{RAY}/env/4/value", "80 GiB"), "gpu: VSE_CACHE_GIB is 80 GiB, but the pod is evicted"),
        (put(f"{GPU}/template/spec/volumes/1/emptyDir/sizeLimit", "60G"), "gpu: VSE_CACHE_GIB is 80, but the pod"),
        (put(f"{GPU}/template/spec/volumes/1", GONE), "gpu: mounts cache, which is not one of its volumes"),
        (put(f"{GPU}/template/spec/containers/1", GONE), "gpu: logs stay in the pod"),
        (put(f"{GPU}/{RAY}/resources/limits/memory", GONE), "container ray-worker: resources.limits.memory is missing"),
        (put(f"{GPU}/{RAY}/resources/requests", GONE), "container ray-worker: resources.requests.cpu is missing"),
        (
            put(f"{HEAD}/{RAY}/env/1", {"name": "AWS_SECRET_ACCESS_KEY", "value": "x"}),
            "head, container ray-head: AWS_SECRET_ACCESS_KEY is written into the file; put it into a Secret",
        ),
        (put(f"{GPU}/{RAY}/args", ["AKIAABCDEFGHIJKLMNOP"]), "container ray-worker: a secret is written into the file"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else None,
)
def test_the_lint_can_fail(cluster: dict[str, Any], change: Callable[..., Any], words: str) -> None:
    lines = found(change(cluster))
    assert any(words in line for line in lines), lines
    assert found(cluster) == []


EXAMPLES = [  # selector and toleration of spot nodes, by cloud
    ({GKE: "true"}, {"key": GKE, "operator": "Equal", "value": "true", "effect": "NoSchedule"}),
    ({"eks.amazonaws.com/capacityType": "SPOT"}, None),
    ({"karpenter.sh/capacity-type": "spot"}, None),
]


@pytest.mark.parametrize(("selector", "toleration"), EXAMPLES, ids=["GKE", "EKS", "Karpenter"])
def test_labels_and_taints_of_a_cloud_may_be_used(
    cluster: dict[str, Any], selector: dict[str, str], toleration: dict[str, str] | None
) -> None:
    page = (ROOT / "docs" / "operations" / "kubernetes.md").read_text()
    assert all(f"`{key}`" in page for key in selector)
    for group in cluster["spec"]["workerGroupSpecs"][1:]:
        pod = group["template"]["spec"]
        pod["nodeSelector"] = selector
        pod["tolerations"] = [each for each in pod["tolerations"] if each["key"] != "vse.lifecycle"]
        pod["tolerations"] += [toleration] if toleration else []
    assert found(cluster) == []


def test_a_cache_without_a_limit_of_its_volume_needs_none(cluster: dict[str, Any]) -> None:
    for group in (cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        pod["volumes"][1]["emptyDir"] = {}
        pod["containers"][0]["env"] = [each for each in pod["containers"][0]["env"] if each["name"] != "VSE_CACHE_GIB"]
    assert found(cluster) == []


def test_the_pin_of_constraints_is_held(cluster: dict[str, Any]) -> None:
    assert found(cluster, CONSTRAINTS.replace("ray==2.60.0", "ray==2.59.0")) == [
        "constraints.txt: does not pin ray==2.60.0"
    ]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (put(f"{GPU}/maxReplica", 4), "spec.workerGroupSpecs[0]: no field maxReplica; did you mean maxReplicas?"),
        (put(f"{GPU}/maxReplicas", GONE), "spec.workerGroupSpecs[0]: 'maxReplicas' is a required property"),
        (put(f"{GPU}/maxReplicas", "4"), "spec.workerGroupSpecs[0].maxReplicas: '4' is not of type 'integer'"),
        (put(f"{HEAD}/rayStartParams/num-cpus", 0), "spec.headGroupSpec.rayStartParams.num-cpus: 0 is not of type"),
        (put(f"{GPU}/{RAY}/resource", {}), "template.spec.containers[0]: no field resource; did you mean resources?"),
        (put(f"{GPU}/{RAY}/resources/limits/memory", "24GB"), "resources.limits.memory: '24GB' does not match"),
        (put("spec/autoscalerOptions/version", 2), "spec.autoscalerOptions.version: 2 is not one of ['v1', 'v2']"),
        (put("metadata/name", "Vse"), "metadata.name: 'Vse' does not match"),
        (put("apiVersion", "ray.io/v2"), "apiVersion: 'ray.io/v1' was expected"),
        (put("kind", "RayServe"), "kind: expected RayCluster or RayJob, got RayServe"),
    ],
)
def test_fields_are_those_of_kuberay(cluster: dict[str, Any], change: Callable[..., Any], line: str) -> None:
    (only,) = schema_errors(change(cluster))
    assert line in only


@pytest.mark.seconds
@pytest.mark.parametrize("file", ["cluster.yaml", "train.yaml"])
@pytest.mark.parametrize("value", slow_but([GONE, None, 5, {"x": [None]}], GONE), ids=str)
def test_any_file_gets_lines(file: str, value: Any) -> None:
    data = read(file)
    if "workerGroupSpecs" in data["spec"]:  # other groups and containers are like the first
        del data["spec"]["workerGroupSpecs"][1:]
        for group in (data["spec"]["headGroupSpec"], data["spec"]["workerGroupSpecs"][0]):
            del group["template"]["spec"]["containers"][1:]
    for steps in steps_to(data):
        config = changed(data, steps, value)
        assert all("\n" not in line for line in found(config)), steps
        if len(steps) < 3:
            assert all("\n" not in line for line in schema_errors(config)), steps


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("spec/clusterSelector", {}), "clusterSelector: names no cluster"),
        (put("spec/backoffLimit", 2), "backoffLimit: KubeRay refuses it next to clusterSelector"),
        (put("spec/shutdownAfterJobFinishes", True), "shutdownAfterJobFinishes: does not apply"),
        (put("spec/entrypoint", "vse tarin"), "entrypoint: expected a command such as `vse train`, got vse tarin"),
        (put("spec/entrypoint", "vse train 'x"), "entrypoint: No closing quotation"),
        (put("spec/entrypoint", GONE), "entrypoint: expected a command such as `vse train`, got nothing"),
    ],
)
def test_the_lint_of_jobs_can_fail(change: Callable[..., Any], words: str) -> None:
    assert [line for line in found(change(read("train.yaml"))) if words in line]


@pytest.mark.parametrize("file", JOBS, ids=lambda file: file.stem)
def test_jobs_name_the_cluster_and_are_understood(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    spec = yaml.safe_load(file.read_text())["spec"]
    assert spec["clusterSelector"] == {"ray.io/cluster": read("cluster.yaml")["metadata"]["name"]}
    name, rest = job_of(shlex.split(spec["entrypoint"])[1:])
    options = {key: value for key, value in declared()[name].items() if key != "plan"}
    argv = [*rest, "--dry-run", "--workspace", str(tmp_path)]
    status = command.main(name, lambda request: "", **options, argv=argv)
    error = capsys.readouterr().err
    if "RUN" in rest[0]:  # for the operator to replace
        assert (status, error) == (2, f"evaluate: run=RUN: no such run; the workspace {tmp_path} has none\n")
    else:
        assert (status, error) == (0, "")


def test_rays_autoscaler_plans_what_the_file_says(cluster: dict[str, Any]) -> None:
    """A job may ask for what the groups can grow to, by their labels, although no worker is up."""
    cluster["metadata"]["namespace"] = "default"
    most = planned(ray_private.plan_of_ray_cluster(cluster))
    assert most.total() == {"CPU": 4 * 7 + 8 * 7 + 2 * 15, "GPU": 12}
    assert most.total({"vse.lifecycle": "on-demand"}) == {"CPU": 28, "GPU": 4}
    assert most.room(7, 1) == 12
