"""The describe stage: the records of a source, stored in the workspace, and log lines about them."""

import functools
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Set

from vse import registry
from vse.data.records import Records
from vse.data.regions import split_uri
from vse.data.source import rejects
from vse.errors import InputError, by_reason
from vse.storage.damage import remove_damaged
from vse.storage.folder import MANIFEST, Folder
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)


def describe(config: RunConfig, workspace: Workspace) -> Records:
    """Stage 1: the records of the configured source, kept in datasets/<name>. What it omits is logged once.

    A job's driver asks the source; processes that were told which records it gave read these.
    """
    question = ["records", *source_question(config)]
    name = workspace.external.answer(question)
    if name is not None:
        return _kept(workspace.described(name))
    records = registry.build("source", config.data).describe()
    folder = workspace.dataset(records)
    workspace.external.keep(question, folder.name)
    if folder.read_manifest() is None:
        with folder.locked():
            remove_damaged(folder)
            records.save(folder)
        if line := left_out(records):
            log.info("%s; each is listed in %s under source.rejects", line, folder.address(MANIFEST))
    return records


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
            fold = ", or let data.folds=5 take a fifth of train and val for validation" if split == "val" else ""
            reasons = counted(reject.reason for reject in rejects(records))
            raise InputError(
                f"{records.name}: no split {split!r}; it has {', '.join(there)}; training needs train and val: "
                f"assign some images to that split{fold}" + (f"; of what it lists, {reasons}" if reasons else "")
            )
    for split in splits:
        records.split(split)
    return records


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
    reasons = counted(reject.reason for reject in rejects(records))
    return f"{records.name}: {reasons}" if reasons else ""


def counted(reasons: Iterable[str]) -> str:
    """How many were left out, with the most frequent reasons; empty if none."""
    listed = list(reasons)
    return f"{len(listed)} left out ({by_reason(listed)})" if listed else ""
