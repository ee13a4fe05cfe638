"""The extraction stage: one pass of a frozen backbone over every image of a data set, into a feature store.

After an interruption it continues with the images that are in no committed shard. Few or small images are done in this
process; when the first ones show that the rest would take long, Ray Data takes over.
"""

import functools
import itertools
import logging
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from vse import registry
from vse.cluster.runtime import Cluster, in_trial, running_ray
from vse.cluster.runtime import Config as RayConfig
from vse.config import fingerprint, knob
from vse.data.containers import file_of
from vse.data.images import MISSING
from vse.data.places import below
from vse.data.reading import notice
from vse.data.records import Image, Records
from vse.display.progress import Progress
from vse.features.arrays import ReadyMade, import_arrays
from vse.features.backbone import code_of
from vse.features.decoding import Decoded, decode
from vse.features.forward import Forward, ShardBuffer, shard_rows
from vse.features.region_features import RegionFeatures
from vse.features.rejects import RejectCounter, located
from vse.features.shards import Output, Receipt, read_receipts
from vse.features.store import REJECTS, FeatureStore, StoredFeatures, commit
from vse.registry import ComponentConfig
from vse.stages.describe import left_out_images, source_question
from vse.stages.disk_room import check_room
from vse.stages.feature_origin import begun_by, image_samples, missing_images_are_there, refuse_other_images
from vse.stages.region_maps import photographs_and_maps
from vse.stages.tuning import check_network
from vse.storage import user_files as named_files
from vse.storage.folder import Folder
from vse.training.config import RunConfig, regions_from_maps
from vse.workspace.layout import Workspace, dataset_name

log = logging.getLogger(__name__)

_AHEAD = 3  # decoded batches waiting for the network
_PROBE = 16  # images that say how long the others will take


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractionConfig:
    """How features are extracted, never what they are: nothing here enters a fingerprint."""

    workers: int | None = knob(None, "forward processes; 0: this process; none: chosen by the expected time", low=0)
    batch: int | None = knob(None, "images per forward pass; none: 256 on a GPU, 32 on a CPU", low=1)
    patience: float = knob(60.0, "seconds this process works alone before it asks Ray for workers", low=0)
    max_rejected: float = knob(0.05, "share of images that may be unreadable before the job fails", low=0, high=1)


def extract_features(
    config: RunConfig,
    workspace: Workspace,
    records: Records,
    outputs: tuple[str, ...],
    ray: RayConfig | None = None,
) -> FeatureStore:
    """Stage 2: frozen features of every image, in features/<dataset>/<fingerprint>.

    A store with further outputs is used too. ray: settings of Ray, if it is needed.
    """
    records, outputs = extracted(config, records, outputs)
    digits = workspace.external.answer([*_features_question(config), *sorted(outputs)])
    if digits is not None:
        store = FeatureStore.find(workspace.features(dataset_name(records), digits))
        if store is not None:
            return store
    source, store = registry.build("source", config.data), kept_features(config, workspace, records, outputs)
    if store is None:
        check_features(config, records, outputs, workspace)
    if store is None or _can_be_completed(store, records, source.image_root):
        names = sorted(store.outputs if store else outputs)
        folder, cluster = features_folder(config, workspace, records, names), functools.partial(running_ray, ray)
        backbone, root, keys = config.features.backbone, source.image_root, source.image_keys
        precision = config.features.precision
        store = extract(records, backbone, names, folder, root=root, keys=keys, precision=precision, cluster=cluster)
    elif line := of_other_code(store, config.features.backbone):
        log.warning("%s", line)
    if note := left_out_images(records, store.rejects.values()):
        notice(f"{note}; each is listed in {store.folder.address(REJECTS)}")
    for some in (outputs, *((name,) for name in outputs)):
        workspace.external.keep([*_features_question(config), *sorted(some)], store.folder.name)
    return store


def _can_be_completed(store: FeatureStore, records: Records, root: str) -> bool:
    """Whether images that were missing when the features were made are there now."""
    return MISSING in store.rejects.values() and missing_images_are_there(store, records, root)


def extracted(config: RunConfig, records: Records, outputs: tuple[str, ...]) -> tuple[Records, tuple[str, ...]]:
    """The images that the backbone sees, and its outputs: of photographs if regions are pooled from their maps."""
    return photographs_and_maps(config, records, outputs) if regions_from_maps(config) else (records, outputs)


def kept_features(
    config: RunConfig, workspace: Workspace, records: Records, outputs: tuple[str, ...]
) -> FeatureStore | None:
    """The committed store of these outputs, and perhaps of others; None if features are still to be made.

    Raises InputError if it was made of other image files.
    """
    records, outputs = extracted(config, records, outputs)
    backbone = config.features.backbone
    others = sorted(set(registry.build("backbone", backbone).shapes()) - set(outputs))
    for more in itertools.chain.from_iterable(itertools.combinations(others, n) for n in range(len(others) + 1)):
        store = FeatureStore.find(features_folder(config, workspace, records, (*outputs, *more)))
        if store is not None:
            if store.manifest["made_by"].get("images"):
                refuse_other_images(store, registry.build("source", config.data).image_root)
            return store
    return None


def features_folder(config: RunConfig, workspace: Workspace, records: Records, outputs: Iterable[str]) -> Folder:
    root = registry.build("source", config.data).image_root
    features = config.features
    digits = features_fingerprint(records, features.backbone, sorted(outputs), root, features.precision)
    return workspace.features(dataset_name(records), digits)


def _features_question(config: RunConfig) -> list[object]:
    backbone, precision = config.features.backbone, config.features.precision
    return ["features", *source_question(config), registry.name_of("backbone", backbone), backbone, precision]


def stored_features(
    config: RunConfig, workspace: Workspace, records: Records, outputs: tuple[str, ...], ray: RayConfig | None = None
) -> StoredFeatures:
    """The features of `extract_features` for training; extracted again if a file is damaged."""
    make = functools.partial(extract_features, config, workspace, records, outputs, ray)
    store, cache = make(), str(workspace.cache().local())
    pooled, with_geometry = regions_from_maps(config), getattr(config.data, "geometry", False)
    if pooled or with_geometry:
        return RegionFeatures(store, cache, make, pooled=pooled, with_geometry=with_geometry)
    return StoredFeatures(store, cache, make)


def features_identity(config: RunConfig, workspace: Workspace, records: Records, output: str) -> str:
    """What a run's features are, whichever store holds them and whatever else is in it."""
    records, (output,) = extracted(config, records, (output,))

    def look() -> str:
        root = registry.build("source", config.data).image_root
        return features_fingerprint(records, config.features.backbone, (output,), root, config.features.precision)

    return workspace.external.ask(["identity", *_features_question(config), output], look)


def features_fingerprint(
    records: Records,
    backbone_config: ComponentConfig,
    outputs: Sequence[str],
    root: str = "",
    precision: str = "float32",
) -> str:
    """The name of the store's folder: eight digits over the records, the backbone with its weights, and the outputs.

    Args:
        records: whose images have features.
        backbone_config: of the backbone.
        outputs: names of its outputs.
        root: folder of the images.
        precision: of the backbone; single precision adds nothing to the name.
    """
    backbone: Any = registry.build("backbone", backbone_config)
    identity = backbone.files_identity(records, root) if isinstance(backbone, ReadyMade) else backbone.identity()
    further = [] if precision == "float32" else [precision]
    return fingerprint([records.content_fingerprint, identity, sorted(outputs), *further])


def extract(
    records: Records,
    backbone_config: ComponentConfig,
    outputs: Sequence[str],
    folder: Folder,
    *,
    root: str = "",
    keys: Sequence[str] = (),
    options: ExtractionConfig | None = None,
    precision: str = "float32",
    cluster: Cluster = running_ray,
) -> FeatureStore:
    """The store with `outputs` of every image in `folder`, made under its lock as far as it is missing.

    Images that a complete store lacks are tried again if files that were missing are there now.

    Args:
        records: whose images get features.
        backbone_config: of the backbone.
        outputs: names of its outputs.
        folder: of the store.
        root: folder of the images (`source.image_root`).
        keys: the keys of the images' location (`source.image_keys`).
        options: how to extract.
        precision: of the backbone.
        cluster: returns a running Ray when it is needed.

    Raises:
        InputError: for impossible requests, before any work.
        TooManyRejects: more than `options.max_rejected` of the images cannot be read; what is committed stays.
    """
    options = options or ExtractionConfig()
    backbone: Any = registry.build("backbone", backbone_config)
    backbone.check(outputs)
    with folder.locked():
        store = FeatureStore.find(folder)
        if store is not None:
            refuse_other_images(store, root)
            if not _can_be_completed(store, records, root):
                if line := of_other_code(store, backbone_config):
                    log.warning("%s", line)
                return _with(store, outputs)
            log.info("%s: images that were missing are there now; extracting what was left out", records.name)
            options = replace(options, max_rejected=1.0)  # what is still left out has been accepted before
        if isinstance(backbone, ReadyMade):
            backbone.check_rows(outputs, records, root)
            return _with(import_arrays(records, backbone.config, folder, root, options.max_rejected), outputs)
        folder.check_writable()
        shapes = {name: backbone.shapes()[name] for name in outputs}
        work = _Work(records, backbone_config, shapes, folder, root, keys, options, precision, backbone.transform)
        todo = images_to_extract(records, folder)
        if (code := begun_by(folder, code_of(backbone), len(todo) == len(records.images))) != code_of(backbone):
            log.warning("%s", _edited(backbone, folder))
        if todo:
            todo = located(records, todo, folder, root, keys, options.max_rejected)
            _run(work, todo, cluster)
        made_by = {"backbone": backbone.identity(), "records": records.content_fingerprint, "code": code}
        made_by |= {"precision": precision, "images": image_samples(records.images, todo, root)}
        specs = {name: Output(shape) for name, shape in shapes.items()}
        ids = [image.id for image in records.images]
        return commit(folder, ids, specs, made_by)


def of_other_code(store: FeatureStore, backbone_config: ComponentConfig) -> str:
    """A warning if the backbone's code has changed since these features were extracted, otherwise "".

    `identity` covers settings and weights, not edits of the code."""
    backbone, before = registry.build("backbone", backbone_config), store.manifest["made_by"].get("code")
    return _edited(backbone, store.folder) if before not in (None, code_of(backbone)) else ""


def _edited(backbone: Any, folder: Folder) -> str:
    file = type(backbone).__module__.replace(".", "/") + ".py"
    return f"warning: features were made with other code of {file}; to make them again, remove {folder}"


def _with(store: FeatureStore, outputs: Sequence[str]) -> FeatureStore:
    for name in outputs:
        store.output(name)
    return store


def images_to_extract(records: Records, folder: Folder) -> list[Image]:
    """Images without committed features. Rejected ones are tried again: their files may have been repaired.

    They are sorted by split, so that a reader of one split reads few shards of the others. Checksums are skipped on S3,
    since they would read the whole store back; readers verify shards (`FeatureStore`).
    """
    receipts = read_receipts(folder, checksums=folder.is_local)
    done = {image for receipt in receipts for image in receipt.ids}
    return sorted((image for image in records.images if image.id not in done), key=lambda image: image.split)


@dataclass(slots=True)
class _Work:
    """The inputs of an extraction, in this process or on Ray."""

    records: Records
    backbone: ComponentConfig
    shapes: dict[str, tuple[int, ...]]
    folder: Folder
    root: str
    keys: Sequence[str]
    options: ExtractionConfig
    precision: str
    transform: Any

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(self.shapes)

    def address(self, image: str) -> str:
        """The address from which the image with this id is read."""
        return below(self.root, file_of(next(each.uri for each in self.records.images if each.id == image))[0])

    @property
    def shard_rows(self) -> int:
        return shard_rows(sum(Output(shape).row_bytes for shape in self.shapes.values()))


def _run(work: _Work, todo: list[Image], cluster: Cluster) -> None:
    """Load the weights first, so that weights that do not fit are one line, before any Ray process or progress bar."""
    workers, forward = 0 if in_trial() else work.options.workers, None
    if not workers:
        forward = Forward(work.backbone, work.outputs, work.options.batch, work.precision)
    elif named_files.is_file(getattr(work.backbone, "weights", "")):
        registry.build("backbone", work.backbone).load(work.outputs)
    with Progress("features", total=len(todo), unit="images") as bar:
        total = len(work.records.images)
        limit, done = work.options.max_rejected, total - len(todo)
        counter = RejectCounter(bar, total, limit, work.folder, work.address, keys=work.keys, done=done)
        if forward is not None and workers is None and len(todo) > _PROBE:
            start = time.monotonic()
            _in_process(work, todo[:_PROBE], counter, forward)
            todo = todo[_PROBE:]
            if (time.monotonic() - start) / _PROBE * len(todo) > work.options.patience:
                forward = None
        if forward is None:
            _with_ray(work, todo, counter, cluster)
        else:
            _in_process(work, todo, counter, forward)


def _with_ray(work: _Work, todo: list[Image], counter: RejectCounter, cluster: Cluster) -> None:
    with cluster():
        from vse.stages.extract_ray import extract_with_ray  # Ray reads its settings when it is imported

        for num_images, rejects in extract_with_ray(
            todo,
            work.backbone,
            work.outputs,
            work.folder,
            work.root,
            transform=work.transform,
            shard_rows=work.shard_rows,
            workers=work.options.workers,
            batch=work.options.batch,
            precision=work.precision,
        ):
            counter.committed(num_images, rejects)


def _in_process(work: _Work, todo: Sequence[Image], counter: RejectCounter, forward: Forward) -> None:
    """Decoding runs one thread ahead of the network; decoders and convolutions both release the interpreter lock."""
    buffer = ShardBuffer(work.folder, work.shard_rows)

    def note(receipt: Receipt | None) -> None:
        if receipt is not None:
            counter.committed(len(receipt.ids), receipt.rejects)

    for decoded in _decoded_ahead(work, todo, forward.batch):
        note(buffer.add(decoded.ids, forward(decoded.pixels), decoded.rejects))
    note(buffer.flush())


def _decoded_ahead(work: _Work, todo: Sequence[Image], size: int) -> Iterator[Decoded]:
    batches = (todo[start : start + size] for start in range(0, len(todo), size))
    with ThreadPoolExecutor(1, "decode") as pool:

        def submit(images: Sequence[Image]) -> Future[Decoded]:
            return pool.submit(decode, [i.id for i in images], [i.uri for i in images], work.root, work.transform)

        waiting = [submit(images) for images in islice(batches, _AHEAD)]
        try:
            while waiting:
                decoded = waiting.pop(0).result()
                waiting += [submit(images) for images in islice(batches, 1)]
                yield decoded
        finally:
            for future in waiting:
                future.cancel()


def check_features(config: RunConfig, records: Records, outputs: Sequence[str], workspace: Workspace) -> None:
    """Raises InputError before the first image is read.

    The backbone lacks an output, its file of weights does not fit, its network cannot be fine-tuned as configured,
    ready-made arrays have other rows than are wanted, or the disk has no room for the features.
    """
    records, outputs = extracted(config, records, tuple(outputs))
    backbone = registry.build("backbone", config.features.backbone)
    backbone.check(outputs)
    if isinstance(backbone, ReadyMade):
        backbone.check_rows(outputs, records, registry.build("source", config.data).image_root)
    weights = getattr(config.features.backbone, "weights", "")
    local = bool(weights) and not named_files.is_remote(weights) and named_files.is_file(weights)
    if local or (config.train.finetune and weights in ("shipped", "random")):
        check_network(config, backbone.load(outputs))
    shapes = backbone.shapes()
    row = sum(2 * math.prod(shapes[name]) for name in outputs if name in shapes)  # bytes, as half floats
    check_room(workspace, row * len(records.images), f"features of {len(records.images)} images")
