"""What can be known before any stage runs, and is checked then: by the stages themselves and by dry runs."""

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from vse import registry
from vse.data.precomp import Precomp
from vse.data.records import Records
from vse.data.sources import rejects
from vse.errors import InputError, by_reason
from vse.features.arrays import ReadyMade
from vse.storage import user_files as named_files
from vse.storage.placeholders import refuse_placeholder
from vse.text.lexicon.compact import knowledge
from vse.text.parser import SHIPPED, Parser, shared_parser
from vse.text.word_vector_files import check_head, split_path
from vse.training.compatibility import adversaries_wanted, family_inputs
from vse.training.config import RunConfig
from vse.training.given_vectors import OWN_CAPTIONS
from vse.workspace.layout import Workspace

_GIB = 1 << 30


def check(config: RunConfig, *, parsed: bool = False, contrast: bool = False) -> None:
    """What can be told of a configuration before any data are read.

    Args:
        config: of the run.
        parsed: whether captions are parsed though the family reads no components, as attacks do.
        contrast: whether VSE-C's adversaries are made though the objective does not train against them.

    Raises:
        InputError: the family reads what is not configured, or the parser, the lexicon, or a file of word vectors,
            weights or concreteness is missing or is no such thing.
    """
    inputs = family_inputs(config)
    if inputs.sentence:
        _refuse_without_sentences(config)
    trained_against = adversaries_wanted(config) is not None
    if config.text.word_vectors not in ("", OWN_CAPTIONS):
        split_path(config.text.word_vectors)
        if not named_files.is_remote(config.text.word_vectors):
            check_head(config.text.word_vectors)
    weights = getattr(config.features.backbone, "weights", "")
    refuse_placeholder(weights, f"features.backbone.weights={weights}")
    ready = isinstance(registry.build("backbone", config.features.backbone), ReadyMade)
    if isinstance(config.data, Precomp.Config) and not ready:
        raise InputError("data=precomp: brings features and no images to make them of; add features.backbone=arrays")
    if inputs.components or parsed or contrast or trained_against:
        check_parser(config)
    if contrast or trained_against:
        rules = config.text.contrast
        knowledge(rules.lexicon, rules.concreteness, rules.concrete_share)


def check_parser(config: RunConfig) -> None:
    """Raises InputError where the configured parser is not there, or cannot parse."""
    assert isinstance(config.text.parser, Parser.Config)
    if config.text.parser.pipeline != SHIPPED:
        shared_parser(config.text.parser)


def check_features(config: RunConfig, records: Records, outputs: Sequence[str], workspace: Workspace) -> None:
    """What can be told of an extraction before the first image is read.

    Raises:
        InputError: the backbone lacks an output, its file of weights does not fit, ready-made arrays have other rows
            than are wanted, or the disk of the workspace has no room for the features.
    """
    backbone = registry.build("backbone", config.features.backbone)
    backbone.check(outputs)
    check_rows(config, records, outputs)
    weights = getattr(config.features.backbone, "weights", "")
    if weights and not named_files.is_remote(weights) and named_files.is_file(weights):
        backbone.load(outputs)
    shapes = backbone.shapes()
    row = sum(2 * math.prod(shapes[name]) for name in outputs if name in shapes)  # bytes, as half floats
    _check_room(workspace, row * len(records.images), f"features of {len(records.images)} images")


def _check_room(workspace: Workspace, wanted: int, what: str) -> None:
    if not workspace.root.is_local:
        return
    place = workspace.root.local()
    while not place.exists():
        place = place.parent
    disk = os.statvfs(place)
    free = disk.f_bavail * disk.f_frsize
    kept = sum(file.stat().st_size for file in Path(place, "features").rglob("*.parquet")) if wanted > free else 0
    if disk.f_blocks and wanted - kept > free:  # file systems over a network may not say
        raise InputError(
            f"--workspace {workspace.root}: {what} take about {wanted / _GIB:.1f} GiB, and its disk has "
            f"{free / _GIB:.1f} GiB free; make room, or name a workspace on another disk"
        )


def check_rows(config: RunConfig, records: Records, outputs: Sequence[str]) -> None:
    """Raises InputError where ready-made arrays have vectors and tokens are wanted, or the other way round."""
    backbone = registry.build("backbone", config.features.backbone)
    if isinstance(backbone, ReadyMade):
        backbone.check_rows(outputs, records, registry.build("source", config.data).image_root)


def sizes(records: Records) -> str:
    """How many images and captions each split of a data set has."""
    images, captions = Counter(i.split for i in records.images), Counter[str]()
    split = {image.id: image.split for image in records.images}
    captions.update(split[caption.image] for caption in records.captions)
    parts = (f"{name} {images[name]} images with {captions[name]} captions" for name in records.split_names)
    return f"data set {records.name}: {'; '.join(parts)}"


def of_data(records: Records) -> Iterator[str]:
    """What a dry run says of a data set, and what it has not looked at."""
    yield sizes(records)
    if told := left_out(records):
        yield told
    yield "not checked: image files, downloads, other machines"


def left_out(records: Records) -> str:
    """How many images and captions the source left out, and why; empty where none."""
    told = counted(reject.reason for reject in rejects(records))
    return f"{records.name}: {told}" if told else ""


def counted(reasons: Iterable[str]) -> str:
    """How many were left out, with the most frequent reasons; empty where none."""
    listed = list(reasons)
    return f"{len(listed)} left out ({by_reason(listed)})" if listed else ""


def trainable(records: Records, splits: Iterable[str] = ()) -> Records:
    """The records. Raises InputError where they have nothing to train or to validate on, or lack one of `splits`."""
    there = records.split_names
    for split in ("train", "val"):
        if split not in there:
            fold = ", or let data.folds=5 take a fifth of train and val for validation" if split == "val" else ""
            told = counted(reject.reason for reject in rejects(records))
            raise InputError(
                f"{records.name}: no split {split!r}; it has {', '.join(there)}; training needs train and val: "
                f"assign some images to that split{fold}" + (f"; of what it lists, {told}" if told else "")
            )
    for split in splits:
        records.split(split)
    return records


def _refuse_without_sentences(config: RunConfig) -> None:
    if registry.name_of("sentence", config.text.sentence) == "none":
        raise InputError("text.sentence=none: this family reads vectors of captions; use mean, gmm or hglmm")
    if not config.text.word_vectors:
        raise InputError("text.word_vectors: vectors of captions are made of word vectors; name a file, or `captions`")
