"""The describe stage: the records of a source, stored in the workspace, and log lines about them."""

import functools
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Set

from vse import registry
from vse.config import fingerprint
from vse.data.frames import other_shapes
from vse.data.records import Records
from vse.data.regions import split_uri
from vse.data.source import rejects
from vse.errors import InputError, by_reason
from vse.storage.damage import remove_damaged
from vse.storage.folder import MANIFEST, Folder
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)

_FOLDS = 5  # that messages suggest
_SOURCES = 2  # whose records a job on several runs keeps: what they were trained on, and what they are measured on


def describe(config: RunConfig, workspace: Workspace) -> Records:
    """Stage 1: the records of the configured source, kept in datasets/<name>. What it omits is logged once.

    A job's driver asks the source; processes that were told which records it gave read these.
    """
    question = ["records", *source_question(config)]
    name = workspace.external.answer(question)
    if name is not None:
        return _kept(workspace.described(name))
    source = registry.build("source", config.data)
    records = source.describe()
    folder = workspace.dataset(records)
    workspace.external.keep(question, folder.name)
    if folder.read_manifest() is None:
        with folder.locked():
            remove_damaged(folder)
            records.save(folder)
        if line := left_out(records):
            log.info("%s; each is listed in %s under source.rejects", line, folder.address(MANIFEST))
        if records.sizes and (line := other_shapes(records, source.image_root)):
            log.warning("%s", line)
    return records


def read_once(workspace: Workspace) -> Callable[[RunConfig], Records]:
    """`describe` for a job on several runs, which reads the records of a source once for runs that share it."""
    kept = dict[str, Records]()

    def read(config: RunConfig) -> Records:
        question = fingerprint(source_question(config))
        if question not in kept:
            while len(kept) >= _SOURCES:
                del kept[next(iter(kept))]
            kept[question] = describe(config, workspace)
        return kept[question]

    return read


def source_question(config: RunConfig) -> list[object]:
    return [registry.name_of("source", config.data), config.data]


@functools.lru_cache(maxsize=2)
def _kept(folder: Folder) -> Records:
    """Records by the name of their folder, which has their fingerprint: trials of one process share them."""
    return Records.load(folder)


def without(records: Records, rejected: Set[str]) -> Records:
    """The records without some images, their regions, and the captions of both."""
    if not rejected:
        return records
    images = tuple(image for image in records.images if not {image.id, split_uri(image.id)[0]} & rejected)
    return records.of_images(images, {**records.source, "rejected": sorted(rejected)})


def trainable(records: Records, splits: Iterable[str] = ()) -> Records:
    """The records. Raises InputError if they have nothing to train or to validate on, or lack one of `splits`."""
    there = records.split_names
    for split in ("train", "val"):
        if split not in there:
            fold = _fold_for_validation(records) if split == "val" else ""
            left = _left_out(records)
            raise InputError(
                f"{records.name}: no split {split!r}; it has {', '.join(there)}; training needs train and val: "
                f"assign some images to that split{fold}" + (f"; it {left}" if left else "")
            )
    for split in splits:
        records.split(split)
    return records


def _fold_for_validation(records: Records) -> str:
    """Advice on `data.folds` for a data set without validation images."""
    count = sum(image.split in ("train", "val") for image in records.images)
    if count >= _FOLDS:
        return f", or let data.folds={_FOLDS} take a fifth of train and val for validation"
    return f"; data.folds={_FOLDS} would need at least {_FOLDS} images of train and val, and there are only {count}"


def sizes(records: Records) -> str:
    """How many images and captions each split of a data set has."""
    images, captions = Counter(i.split for i in records.images), Counter[str]()
    split = {image.id: image.split for image in records.images}
    captions.update(split[caption.image] for caption in records.captions)
    parts = (f"{name} {images[name]} images with {captions[name]} captions" for name in records.split_names)
    return f"data set {records.name}: {'; '.join(parts)}"


def of_data(records: Records) -> Iterator[str]:
    """Lines of a dry run on a data set, and on what it has not checked."""
    yield sizes(records)
    if line := left_out(records):
        yield line
    yield "not checked: contents of image files, downloads, other machines"


def left_out(records: Records) -> str:
    """How many images and captions the source left out, and why; empty if none."""
    left = _left_out(records)
    return f"data set {records.name!r}: {left}" if left else ""


def _left_out(records: Records) -> str:
    reasons = [reject.reason for reject in rejects(records)]
    what = "image or caption" if len(reasons) == 1 else "images or captions"
    return f"left out {len(reasons)} {what} ({by_reason(reasons)})" if reasons else ""


def left_out_images(records: Records, reasons: Collection[str]) -> str:
    """How many images have no features, and why; empty if all have some."""
    what = f"data set {records.name!r}: left out {len(reasons)} of {len(records.images)} images"
    return f"{what} ({by_reason(reasons)})" if reasons else ""
