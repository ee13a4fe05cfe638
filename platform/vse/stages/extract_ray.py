"""Extraction over a cluster with Ray Data: decode in CPU tasks, the network in a pool of actors, shards in CPU tasks.

Every shard is committed by the task that makes it; only counts and rejects return to the driver. A task that Ray
repeats writes the same shard again, and the next run continues what a dead driver leaves (`extract`).
"""

import math
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import ray.data

from vse.cluster.capacity import Capacity, living
from vse.cluster.gpu_faults import is_assigned_gpu_missing
from vse.cluster.placement import capacity
from vse.cluster.ray_data import ACTOR_CPUS, TASK_CPUS, data_work, dataset_of
from vse.data.records import Image
from vse.errors import InputError
from vse.features.decoding import decode
from vse.features.shards import write_shard
from vse.features.transforms import Transform
from vse.registry import ComponentConfig
from vse.storage.folder import Folder

DECODE_ROWS = 32
# A node takes minutes to start and costs until it has been idle for some, so it must have more work than that.
WORTH_A_GPU, WORTH_A_CORE = 10_000, 1_000  # images


@dataclass(frozen=True, slots=True)
class Pool:
    """Numbers of actors: at least `least`, `first` at the start, at most `most`; `gpu`: whether each has a GPU."""

    least: int
    first: int
    most: int
    gpu: bool


def pool_of(now: Capacity, could: Capacity, num_images: int, workers: int | None) -> Pool:
    """One actor for each GPU, else for each core but one; on nodes yet to start, as many as the images are worth.

    Ray Data never requests actors beyond the nodes that are up. Actors that make the autoscaler add nodes are therefore
    started at the beginning and stay.

    Args:
        now: The nodes that are up. With an autoscaler, only the head at first.
        could: The nodes that the cluster can have.
        num_images: To extract.
        workers: Number of actors; None: chosen here.

    Raises:
        InputError: The cluster can never hold an actor.
    """
    up, there = now.total(), could.total()
    cores = max(up["CPU"], there["CPU"])
    if cores < ACTOR_CPUS + TASK_CPUS:
        raise InputError(f"extraction needs a core of the Ray cluster, which has {cores:g}; use workers=0")
    gpu = max(up["GPU"], there["GPU"]) >= 1
    here = int(up["GPU"]) if gpu else max(1, int(up["CPU"]) - 1)
    ever = max(here, could.room(0, 1) if gpu else int(there["CPU"]) - could.nodes)
    worth = math.ceil(num_images / (WORTH_A_GPU if gpu else WORTH_A_CORE))
    wanted = workers or max(here, min(ever, worth))
    first = min(wanted, ever)
    return Pool(first if first > here else 1, first, wanted, gpu)


class _Extractor:
    """The actor. Rejected images pass through with zeros in place of pixels.

    Raises:
        InputError: Ray assigned a GPU, but torch finds none. The other actors would wait for one on a CPU.
    """

    def __init__(self, backbone: ComponentConfig, outputs: tuple[str, ...], batch: int | None, precision: str) -> None:
        import vse.features.backbones  # noqa: F401  (a fresh process has to register the components)
        from vse.features.forward import Forward  # here, because torch is slow to import and only actors need it

        if is_assigned_gpu_missing():
            raise InputError(f"extraction: torch finds no GPU on {platform.node()}, on which Ray assigned one")
        self.forward = Forward(backbone, outputs, batch, precision)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"image": batch["image"], "reason": batch["reason"], **self.forward(batch["pixels"])}


def _decode(batch: dict[str, np.ndarray], root: str, transform: Transform) -> dict[str, np.ndarray]:
    ids = [str(i) for i in batch["image"]]
    decoded = decode(ids, [str(u) for u in batch["uri"]], root, transform)
    reasons, position = dict(decoded.rejects), {image: row for row, image in enumerate(decoded.ids)}
    pixels = np.zeros((len(ids), *decoded.pixels.shape[1:]), np.uint8)
    for row, image in enumerate(ids):
        if image in position:
            pixels[row] = decoded.pixels[position[image]]
    return {"image": batch["image"], "reason": np.array([reasons.get(i, "") for i in ids], object), "pixels": pixels}


def _write(batch: dict[str, np.ndarray], outputs: tuple[str, ...], folder: Folder) -> dict[str, Any]:
    ids, reasons = [str(i) for i in batch["image"]], [str(r) for r in batch["reason"]]
    good = [row for row, reason in enumerate(reasons) if not reason]
    rejects = [(image, reason) for image, reason in zip(ids, reasons, strict=True) if reason]
    rows = {name: np.ascontiguousarray(batch[name][good], dtype=np.float16) for name in outputs}
    receipt = write_shard(folder, [ids[row] for row in good], rows, rejects)
    images, why = [i for i, _ in receipt.rejects], [r for _, r in receipt.rejects]
    return {"num_images": [len(receipt.ids)], "rejected": [images], "reasons": [why]}


def extract_with_ray(
    todo: Sequence[Image],
    backbone: ComponentConfig,
    outputs: tuple[str, ...],
    folder: Folder,
    root: str,
    *,
    transform: Transform,
    shard_rows: int,
    workers: int | None,
    batch: int | None,
    precision: str = "float32",
) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Extract images over the cluster, in shards that are committed as they are done. Ray must be running.

    Args:
        todo: Images to extract.
        backbone: Configuration of the backbone; each actor builds its own network.
        outputs: Names of the features that are stored.
        folder: Of the store.
        root: Folder or s3:// address that paths of images are relative to.
        transform: Turns a decoded image into the pixels that the network reads.
        shard_rows: Images of a shard, rounded down to a multiple of the images that an actor gets at once.
        workers: Forward actors; None: as `pool_of` chooses.
        batch: Images in a forward pass; None: chosen by device.
        precision: Number type of the network. Features are stored in half precision.

    Yields:
        For each committed shard, the number of its images, and (image, reason) of each image that was rejected.

    Raises:
        InputError: The cluster can never hold an actor, or torch finds no GPU on a node with an actor's GPU.
        PlacementError: No node came.
    """
    decode_task: Any = _decode  # Ray's annotations do not allow functions with further arguments
    write_task: Any = _write
    pool = pool_of(living(ray.nodes()), capacity(), len(todo), workers)
    forward_rows = batch or (256 if pool.gpu else DECODE_ROWS)
    # Ray gathers whole blocks of these and then cuts them: any other size would leave a remainder each time
    shard_rows = max(1, shard_rows // forward_rows) * forward_rows
    actors = ray.data.ActorPoolStrategy(min_size=pool.least, initial_size=pool.first, max_size=pool.most)

    with data_work("extraction", **({"gpu": pool.most} if pool.gpu else {})):
        uris = pa.table({"image": [i.id for i in todo], "uri": [i.uri for i in todo]})
        blocks = [uris.slice(start, DECODE_ROWS) for start in range(0, len(todo), DECODE_ROWS)]
        shards = (
            dataset_of(blocks)
            .map_batches(
                decode_task, fn_kwargs={"root": root, "transform": transform}, batch_size=None, num_cpus=TASK_CPUS
            )
            .map_batches(
                _Extractor,
                fn_constructor_kwargs={
                    "backbone": backbone,
                    "outputs": outputs,
                    "batch": batch,
                    "precision": precision,
                },
                batch_size=forward_rows,
                compute=actors,
                num_gpus=1 if pool.gpu else None,
                num_cpus=None if pool.gpu else ACTOR_CPUS,
            )
            .map_batches(
                write_task,
                fn_kwargs={"outputs": outputs, "folder": folder},
                batch_size=shard_rows,
                num_cpus=TASK_CPUS,
            )
        )
        for row in shards.iter_rows():
            yield (
                int(row["num_images"]),
                [(str(i), str(r)) for i, r in zip(row["rejected"], row["reasons"], strict=True)],
            )
