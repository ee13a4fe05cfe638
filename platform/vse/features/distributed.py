"""Extraction over a cluster with Ray Data: decode in CPU tasks, the network in a pool of actors, shards in CPU tasks.

Every shard is committed where it is made; only counts and rejects come back to the driver. A task that Ray repeats
writes the same shard again, and what a dead driver leaves behind is found by the next run (`extraction`).
"""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import ray.data

from vse.data.records import Image
from vse.errors import InputError
from vse.features.decoding import decode
from vse.features.shards import write_shard
from vse.features.transforms import Transform
from vse.registry import ComponentConfig
from vse.storage import Folder

DECODE_ROWS = 32
# Shares of a core that leave room on any host, even with one core: actors that fill all cores starve the tasks that
# feed them, and Ray Data then waits for ever (ray-project/ray#44687).
ACTOR_CPUS, TASK_CPUS = 0.75, 0.25


class _Extractor:
    """The actor. Rejected images pass through with zeros in place of pixels."""

    def __init__(self, backbone: ComponentConfig, outputs: tuple[str, ...], batch: int | None) -> None:
        import vse.features.backbones  # noqa: F401  (a fresh process has to register the components)
        from vse.features.forward import Forward  # here, because torch is slow to import and only actors need it

        self.forward = Forward(backbone, outputs, batch)

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


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Ray Data's bars and banners: ours counts committed images, in all surroundings."""
    with warnings.catch_warnings():
        # Ray Data fills its context field by field, its own deprecated ones among them
        warnings.filterwarnings("ignore", message=r"`use_\w+` is deprecated")
        context = ray.data.DataContext.get_current()
        before = context.enable_progress_bars, context.print_on_execution_start
        context.enable_progress_bars = context.print_on_execution_start = False
        try:
            yield
        finally:
            context.enable_progress_bars, context.print_on_execution_start = before


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
) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Yields, shard by shard as they are committed, the number of images in it and its rejects.

    Ray must be running. workers: forward actors, by default one for each GPU, else one for each core but one. Raises
    InputError where the cluster could never hold one.
    """
    cpus, gpus = (float(ray.cluster_resources().get(kind, 0)) for kind in ("CPU", "GPU"))
    if cpus < ACTOR_CPUS + TASK_CPUS:
        raise InputError(f"extraction needs a core of the Ray cluster, which has {cpus:g}; use workers=0")
    fitting = max(1, int(gpus) if gpus else int(cpus) - 1)
    most = workers or fitting
    decode_task: Any = _decode  # Ray's annotations know no function with arguments of its own
    write_task: Any = _write
    pool = ray.data.ActorPoolStrategy(min_size=1, initial_size=min(most, fitting), max_size=most)

    with _quiet():
        uris = pa.table({"image": [i.id for i in todo], "uri": [i.uri for i in todo]})
        blocks = [uris.slice(start, DECODE_ROWS) for start in range(0, len(todo), DECODE_ROWS)]
        shards = (
            ray.data.from_arrow(blocks)
            .map_batches(
                decode_task, fn_kwargs={"root": root, "transform": transform}, batch_size=None, num_cpus=TASK_CPUS
            )
            .map_batches(
                _Extractor,
                fn_constructor_kwargs={"backbone": backbone, "outputs": outputs, "batch": batch},
                batch_size=batch or (256 if gpus else DECODE_ROWS),
                compute=pool,
                num_gpus=1 if gpus else None,
                num_cpus=None if gpus else ACTOR_CPUS,
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
