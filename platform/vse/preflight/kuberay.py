"""A RayCluster or RayJob for KubeRay against its published fields, and against rules like those of a cluster file.

Needs no network and no Kubernetes.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from vse.cluster import ray_private
from vse.cluster.capacity import planned
from vse.cluster.runtime import LIFECYCLE
from vse.errors import did_you_mean, first_line
from vse.preflight.checks import Check
from vse.preflight.cluster_file import SECRET, part
from vse.storage.files import local_path

GROUP = "ray.io/"  # begins the apiVersion of KubeRay's resources
VERSION = "1.7.0"  # of KubeRay, whose fields kuberay.json lists
GPU = "nvidia.com/gpu"
_KINDS = ("RayCluster", "RayJob")
_PINNED = re.compile(r"@sha256:[0-9a-f]{64}$|:(?!latest$)[\w][\w.-]*$")
_GKE_SPOT = "cloud.google.com/gke-spot"
_SPOT_NODES = (  # labels of spot nodes
    (LIFECYCLE, "spot"),
    (_GKE_SPOT, "true"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("karpenter.sh/capacity-type", "spot"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)
_WITHOUT_TAINT = ("eks.amazonaws.com/capacityType", "karpenter.sh/capacity-type")  # spot nodes there have none
_UNDISTURBED = "karpenter.sh/do-not-disrupt"
_SESSIONS = "/tmp/ray"
_UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SECRET_NAME = re.compile(r"SECRET|PASSWORD|TOKEN|ACCESS_KEY", re.IGNORECASE)


def is_kuberay(config: Mapping[str, Any]) -> bool:
    """Whether a file describes a resource of KubeRay, by its apiVersion."""
    return str(config.get("apiVersion", "")).startswith(GROUP)


def check_kuberay_file(config: Mapping[str, Any], path: str) -> list[Check]:
    """Fields, then lint. `constraints.txt` is looked for next to the file and in the folder above."""
    ray_version = metadata.version("ray")
    errors = list(schema_errors(config))
    folder = local_path(path).resolve().parent
    files = [parent / "constraints.txt" for parent in (folder, folder.parent)]
    pins = next((file.read_text(encoding="utf-8") for file in files if file.is_file()), "")
    lint = [Check("lint", path, "problem", text) for text in kuberay_problems(config, ray_version, pins)]
    is_job = config.get("kind") == "RayJob"
    about = "cluster, command" if is_job else "pins, images, GPUs, lifecycles, resources, secrets"
    return [
        *([Check("fields of KubeRay", path, "problem", text) for text in errors]
          or [Check("fields of KubeRay", path, "ok", f"KubeRay {VERSION}")]),
        *_scaled(config, path),
        *(lint or [Check("lint", path, "ok", about)]),
    ]  # fmt: skip


def _scaled(config: Mapping[str, Any], path: str) -> Iterator[Check]:
    """Whether Ray's autoscaler understands the groups of a RayCluster, and how far it may grow."""
    if config.get("kind") != "RayCluster":
        return
    resource = {**config, "metadata": {"namespace": "default", **part(config, "metadata")}}
    try:
        most = planned(ray_private.plan_of_ray_cluster(resource)).total()
    except Exception as error:  # whatever it makes of nonsense
        yield Check("autoscaler of Ray", path, "problem", first_line(error))
        return
    yield Check("autoscaler of Ray", path, "ok", f"up to {most['CPU']:g} CPUs and {most['GPU']:g} GPUs")


def schema_errors(config: Mapping[str, Any]) -> Iterator[str]:
    """One line per field that KubeRay does not have, that has another type, or that is missing."""
    from jsonschema import Draft202012Validator

    kind = config.get("kind")
    if kind not in _KINDS:
        yield f"kind: expected {' or '.join(_KINDS)}, got {kind}"
        return
    schema = json.loads(Path(__file__).with_name("kuberay.json").read_text(encoding="utf-8"))
    plain = json.loads(json.dumps(config, default=str, skipkeys=True))
    for error in Draft202012Validator({**schema, "$ref": f"#/$defs/{kind}"}).iter_errors(plain):
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)[1:]
        if error.validator == "additionalProperties" and isinstance(error.instance, dict):
            names = list(error.schema["properties"])
            for name in error.instance.keys() - set(names):
                meant = did_you_mean(name, names)
                yield f"{where or 'file'}: no field {name}{'; ' if meant else ''}{meant}"
        else:
            yield f"{where or 'file'}: {' '.join(error.message.split())}"


def kuberay_problems(config: Mapping[str, Any], ray_version: str, constraints: str) -> Iterator[str]:
    """One line per problem of a RayCluster or RayJob.

    Args:
        config: of the file.
        ray_version: the release of Ray that images should have.
        constraints: content of `constraints.txt`, from which the image is built.
    """
    spec = part(config, "spec")
    if config.get("kind") == "RayJob":
        yield from _job(spec)
        spec = part(spec, "rayClusterSpec")
        if not spec:
            return
    yield from _cluster(spec, ray_version, constraints)
    groups = [("head", part(spec, "headGroupSpec"))]
    workers = _mappings(spec, "workerGroupSpecs")
    groups += [(str(group.get("groupName")), group) for group in workers]
    yield from _head(groups[0][1])
    for name, group in groups[1:]:
        yield from _worker(name, group)
    for name, group in groups:
        yield from _pod(name, part(part(group, "template"), "spec"))
    markets = [part(group, "labels").get(LIFECYCLE) for group in workers if _gpus(group)]
    for market, why in (("on-demand", "Train ranks"), ("spot", "trials and extraction")):
        if market not in markets:
            yield f"workerGroupSpecs: no GPU group is labelled {LIFECYCLE}: {market}, for {why}"
    images = {str(_ray_container(group).get("image")) for _, group in groups}
    if len(images) > 1:
        yield f"images: head and workers differ ({', '.join(sorted(images))}); all need the same Ray and package"


def _mappings(of: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = of.get(key)
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _ray_container(group: Mapping[str, Any]) -> Mapping[str, Any]:
    """KubeRay starts Ray in the first container."""
    return next(iter(_mappings(part(part(group, "template"), "spec"), "containers")), {})


def _gpus(group: Mapping[str, Any]) -> Any:
    return part(part(_ray_container(group), "resources"), "limits").get(GPU)


def _environment(container: Mapping[str, Any]) -> dict[str, Any]:
    return {str(each.get("name")): each.get("value") for each in _mappings(container, "env")}


def _cluster(spec: Mapping[str, Any], ray_version: str, constraints: str) -> Iterator[str]:
    if spec.get("rayVersion") != ray_version:
        yield f"rayVersion: {spec.get('rayVersion')}, but the release in use is {ray_version}"
    if f"ray=={ray_version}" not in constraints.splitlines():
        yield f"constraints.txt: does not pin ray=={ray_version}"
    if spec.get("enableInTreeAutoscaling") is not True:
        yield "enableInTreeAutoscaling: not true, so workers neither start nor leave with demand"
    if part(spec, "autoscalerOptions").get("version") != "v2":
        yield "autoscalerOptions.version: not v2, the only autoscaler that places work by labels"
    if not part(spec, "autoscalerOptions").get("idleTimeoutSeconds"):
        yield "autoscalerOptions.idleTimeoutSeconds: missing, so a worker leaves after one idle minute"
    if _SESSIONS not in [each.get("mountPath") for each in _mappings(part(spec, "autoscalerOptions"), "volumeMounts")]:
        yield f"autoscalerOptions.volumeMounts: {_SESSIONS} of the head is missing, so its monitor.log is not copied"
    if part(spec, "authOptions").get("mode") != "token":
        yield "authOptions.mode: not token, so any process that reaches the head can run code"


def _head(head: Mapping[str, Any]) -> Iterator[str]:
    params, container = part(head, "rayStartParams"), _ray_container(head)
    cpus = part(head, "resources").get("CPU", params.get("num-cpus"))
    if cpus != "0":
        yield f'head: num-cpus is {cpus}, not "0"; tasks would compete with the jobs\' drivers for its memory'
    if _gpus(head) or params.get("num-gpus", "0") != "0":
        yield "head: must offer no GPU"
    template = part(head, "template")
    pod = part(template, "spec")
    if part(head, "labels").get(LIFECYCLE) == "spot" or _selects_spot(pod) or _tolerates_spot(pod):
        yield "head: must not be on a spot node"
    if not part(pod, "nodeSelector") and not part(pod, "affinity"):
        yield "head: neither nodeSelector nor affinity, so it may start on a spot node"
    if part(part(template, "metadata"), "annotations").get(_UNDISTURBED) != "true":
        yield f'head: the annotation {_UNDISTURBED}: "true" is missing, so Karpenter may move the pod, which ends jobs'
    environment = _environment(container)
    if not str(environment.get("MLFLOW_TRACKING_URI")).startswith("http"):
        yield "head: MLFLOW_TRACKING_URI is not set to an address, so jobs would not find the server"
    yield from _open_ports(head)


def _open_ports(head: Mapping[str, Any]) -> Iterator[str]:
    if head.get("serviceType", "ClusterIP") != "ClusterIP":
        yield f"head: serviceType {head.get('serviceType')} opens the head to others; use ClusterIP and port-forward"
    if head.get("enableIngress"):
        yield "head: enableIngress opens the dashboard to others; use kubectl port-forward"


def _selects_spot(pod: Mapping[str, Any]) -> bool:
    selector = part(pod, "nodeSelector")
    return any(selector.get(key) == value for key, value in _SPOT_NODES)


def _tolerates_spot(pod: Mapping[str, Any]) -> bool:
    tolerations = _mappings(pod, "tolerations")
    return any(str(each.get("value")).lower() == "spot" or each.get("key") == _GKE_SPOT for each in tolerations)


def _worker(name: str, group: Mapping[str, Any]) -> Iterator[str]:
    pod, market = part(part(group, "template"), "spec"), part(group, "labels").get(LIFECYCLE)
    if market not in ("spot", "on-demand"):
        yield f"{name}: needs the label {LIFECYCLE}: spot or on-demand"
    if not isinstance(group.get("maxReplicas"), int) or group["maxReplicas"] < 1:
        yield f"{name}: maxReplicas is missing or 0, so no worker of the group can start, or nothing bounds the bill"
    if group.get("minReplicas") != 0:
        yield f"{name}: minReplicas is {group.get('minReplicas')}, not 0, so nodes cost without work"
    tolerations = _mappings(pod, "tolerations")
    gpus = _gpus(group)
    if gpus is not None:
        if not re.fullmatch(r"[1-9]\d*", str(gpus)):
            yield f"{name}: {GPU} is {gpus}, not a whole number"
        if GPU not in [each.get("key") for each in tolerations]:
            yield f"{name}: does not tolerate the taint {GPU} that GPU nodes usually have"
        if part(part(_ray_container(group), "resources"), "requests").get(GPU) != gpus:
            yield f"{name}: requests and limits of {GPU} differ, which Kubernetes refuses"
    if not part(pod, "nodeSelector") and not part(pod, "affinity"):
        yield f"{name}: neither nodeSelector nor affinity, so it may start on any node"
    without_taint = any(key in part(pod, "nodeSelector") for key in _WITHOUT_TAINT)
    if market == "spot" and not without_taint and all(each.get("key") == GPU for each in tolerations):
        yield f"{name}: tolerates no taint of spot nodes, such as {LIFECYCLE} or {_GKE_SPOT}"
    if market == "on-demand" and (_tolerates_spot(pod) or _selects_spot(pod)):
        yield f"{name}: is labelled on-demand, but tolerates or selects spot nodes"


def _pod(name: str, pod: Mapping[str, Any]) -> Iterator[str]:
    containers = _mappings(pod, "containers")
    ray = next(iter(containers), {})
    if pod.get("restartPolicy", "Never") != "Never":
        yield f"{name}: restartPolicy must be Never or unset for the autoscaler's version 2"
    if part(pod, "securityContext").get("runAsNonRoot") is not True:
        yield f"{name}: securityContext.runAsNonRoot is not true"
    if not pod.get("terminationGracePeriodSeconds"):
        yield f"{name}: terminationGracePeriodSeconds is missing, in which logs are copied when a node is taken"
    if not part(part(ray, "lifecycle"), "preStop"):
        yield f"{name}: lifecycle.preStop is missing; without `ray stop` the head learns late that the node is gone"
    environment, mounts = _environment(ray), _mappings(ray, "volumeMounts")
    if not str(environment.get("VSE_WORKSPACE")).startswith("s3://"):
        yield f"{name}: VSE_WORKSPACE is not on S3, and pods share no folder"
    if environment.get("OMP_NUM_THREADS") != "1":
        yield f"{name}: OMP_NUM_THREADS is not 1, though Ray starts a task for every core"
    if environment.get("VSE_CACHE") not in [mount.get("mountPath") for mount in mounts]:
        yield f"{name}: VSE_CACHE is no mounted volume, so copies of S3's files would fill the container's own disk"
    yield from _cache_limit(name, pod, environment, mounts)
    volumes = [volume.get("name") for volume in _mappings(pod, "volumes")]
    for mount in mounts:
        if mount.get("name") not in volumes:
            yield f"{name}: mounts {mount.get('name')}, which is not one of its volumes"
    if not any("vse.cluster.node_logs" in str(container.get("command")) for container in containers):
        yield f"{name}: logs stay in the pod, and are lost with it; add a container that runs vse.cluster.node_logs"
    for container in containers:
        yield from _container(f"{name}, container {container.get('name')}", container)


def _cache_limit(
    name: str, pod: Mapping[str, Any], environment: Mapping[str, Any], mounts: list[Mapping[str, Any]]
) -> Iterator[str]:
    """Whether copies of S3's files stay below the size at which Kubernetes evicts the pod."""
    names = [mount.get("name") for mount in mounts if mount.get("mountPath") == environment.get("VSE_CACHE")]
    for volume in _mappings(pod, "volumes"):
        size = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]*)", str(part(volume, "emptyDir").get("sizeLimit")))
        if volume.get("name") not in names or not size or size[2] not in _UNITS:
            continue
        text = str(environment.get("VSE_CACHE_GIB"))
        limit = float(text) * 2**30 if re.fullmatch(r"\d+(?:\.\d+)?", text) else float("inf")
        if limit >= float(size[1]) * _UNITS[size[2]]:
            yield (
                f"{name}: VSE_CACHE_GIB is {environment.get('VSE_CACHE_GIB', 'not set')}, but the pod is evicted when "
                f"its volume {volume.get('name')} holds more than {size[0]}; set fewer GiB"
            )


def _container(where: str, container: Mapping[str, Any]) -> Iterator[str]:
    if not _PINNED.search(str(container.get("image"))):
        yield f"{where}: image {container.get('image')} needs a tag other than latest, or a digest"
    for amount in ("requests", "limits"):
        for resource in ("cpu", "memory"):
            if resource not in part(part(container, "resources"), amount):
                yield f"{where}: resources.{amount}.{resource} is missing"
    for key, value in _environment(container).items():
        if value and _SECRET_NAME.search(key):
            yield f"{where}: {key} is written into the file; put it into a Secret, and name that by secretRef"
    if SECRET.search(repr(container)):
        yield f"{where}: a secret is written into the file"


def _job(spec: Mapping[str, Any]) -> Iterator[str]:
    from vse.cli.main import job_of

    selector = part(spec, "clusterSelector")
    if not selector.get("ray.io/cluster") and not part(spec, "rayClusterSpec"):
        yield "clusterSelector: names no cluster (ray.io/cluster)"
    if selector and spec.get("backoffLimit"):
        yield "backoffLimit: KubeRay refuses it next to clusterSelector"
    if selector and spec.get("shutdownAfterJobFinishes"):
        yield "shutdownAfterJobFinishes: does not apply to a cluster that clusterSelector names"
    try:
        words = shlex.split(str(spec.get("entrypoint", "")))
    except ValueError as error:
        yield f"entrypoint: {error}"
        return
    if words[:1] != ["vse"] or not job_of(words[1:])[0]:
        yield f"entrypoint: expected a command such as `vse train`, got {' '.join(words) or 'nothing'}"
