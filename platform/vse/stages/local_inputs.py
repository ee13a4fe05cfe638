"""Whether the other nodes of a cluster have the local files that their part of the work reads.

They read images and weights while features are extracted, a parser that is a folder, and for adversaries in training
a lexicon and a file of concreteness. Annotations, arrays of
features and files of word vectors are read by the job's driver alone, which keeps what is in them in the workspace.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vse import registry
from vse.adversaries.vsec.rules import ChangeRules
from vse.cluster.placement import capacity, on_every_node
from vse.cluster.runtime import Config as RayConfig
from vse.cluster.runtime import cluster_address, running_ray
from vse.data.containers import file_of
from vse.data.image_files import candidate_paths
from vse.data.records import Records
from vse.errors import InputError
from vse.features.arrays import ReadyMade
from vse.features.rejects import FileSurvey
from vse.stages.describe import of_data, trainable
from vse.stages.extract import (
    ExtractionConfig,
    check_features,
    extracted,
    features_folder,
    images_to_extract,
    kept_features,
)
from vse.stages.parse import not_english, parser_of
from vse.stages.pipeline import check
from vse.storage import user_files as named_files
from vse.storage.files import local_path
from vse.text.lexicon.compact import SHIPPED
from vse.text.lexicon.wordnet import NOUN_FILES
from vse.text.vocabulary import SPECIAL
from vse.text.word_vectors import word_vectors
from vse.training.config import RunConfig, adversaries_wanted, family_inputs
from vse.training.inputs import (
    OWN_CAPTIONS,
    training_vocabulary,
    unfamiliar_words,
    vector_coverage,
    without_vectors,
)
from vse.workspace.layout import Workspace

_SPAN = 1 << 16  # bytes compared at both ends of a file
_IMAGES = 3  # compared; a folder that some node has a part of is found when its images are missing


@dataclass(frozen=True, slots=True)
class Read:
    """Something local that other nodes read: the key that names it, its path, files of it to know it by."""

    key: str
    path: str
    files: tuple[str, ...]


def records_to_train(config: RunConfig, *, parsed: bool = False, splits: Sequence[str] = ()) -> Records:
    """The records of a training that can begin, read from the configured source; nothing is kept.

    Args:
        config: of the run.
        parsed: whether captions are parsed for attacks.
        splits: further splits that are measured, in addition to train and val.

    Raises:
        InputError: as the job does before it reads an image.
    """
    check(config, parsed=parsed)
    return trainable(registry.build("source", config.data).describe(), splits)


def check_training(
    config: RunConfig, records: Records, workspace: str, ray: RayConfig, *, parsed: bool = False
) -> Iterator[str]:
    """What a dry run checks of a training and of the cluster that it is for, in lines; nothing is written.

    Args:
        config: of the run.
        records: of its source (`records_to_train`).
        workspace: its address.
        ray: what is asked of Ray.
        parsed: whether captions are parsed for attacks.

    Raises:
        InputError: as the job does before it shows the first image to the backbone.
    """
    place, outputs = Workspace.open(workspace), (family_inputs(config).image,)
    images = [*image_lines(config, place, records, outputs)]
    is_parsed = parsed or family_inputs(config).components or adversaries_wanted(config) is not None
    foreign = not_english(records, parser_of(config)) if is_parsed else ""
    warnings = (without_vectors(config), unfamiliar_words(records, training_vocabulary(config, records, None)), foreign)
    yield from filter(None, warnings)
    yield from planned_coverage(config, records)
    yield from of_data(records)
    yield from images
    yield from check_reach(config, workspace, ray)


def image_lines(
    config: RunConfig,
    workspace: Workspace,
    records: Records,
    outputs: tuple[str, ...],
    limit: float | None = None,
) -> Iterator[str]:
    """Check features that are not extracted yet. Lines of a dry run on image files that are missing, elsewhere, of an
    unreadable format, or in no row of a table.

    Args:
        config: of the run.
        workspace: where features may be.
        records: of the data.
        outputs: of the backbone.
        limit: share of the images that extraction may reject; by default the share in a training.

    Raises:
        InputError: as extraction does before it reads an image, or if it has to read more than it may reject.
    """
    kept = kept_features(config, workspace, records, outputs)
    if kept is None:
        check_features(config, records, outputs, workspace)
    if isinstance(registry.build("backbone", config.features.backbone), ReadyMade):
        return
    source = registry.build("source", config.data)
    photographs, outputs = extracted(config, records, outputs)
    survey = FileSurvey(photographs, source.image_root)
    if kept is None:
        todo = images_to_extract(photographs, features_folder(config, workspace, photographs, outputs))
        limit = ExtractionConfig().max_rejected if limit is None else limit
        survey.refuse_many(todo, limit, source.image_keys, None)
    yield from survey.lines()
    if registry.name_of("source", config.data) == "table" and not getattr(config.data, "limit", 0):
        yield from filter(None, [survey.unnamed(workspace.root.uri if workspace.root.is_local else "")])


def check_reach(
    config: RunConfig, workspace: str, ray: RayConfig, outputs: tuple[str, ...] = (), *, captions: bool = True
) -> Iterator[str]:
    """One line for each file or folder that other nodes of the job's cluster read; none without other nodes.

    Args:
        config: of the run.
        workspace: address of the workspace. With `ray.shared_workspace`, a path on its file system needs no other node
            to compare.
        ray: how to connect to the cluster.
        outputs: of extraction; by default what the family reads.
        captions: whether captions may be parsed.

    Raises:
        InputError: some node lacks a local file or folder or has another one, or no other node is up to compare.
    """
    if cluster_address(ray) is None or capacity(ray).nodes < 2:
        return
    reads = list(local_reads(config, Workspace.open(workspace), outputs, captions=captions))
    if not reads:
        return
    with running_ray(ray) as num_nodes:
        for read in reads:
            if num_nodes > 1:
                _compare(read)
                yield f"{read.key}={read.path}: alike on all {num_nodes} nodes"
            elif not (ray.shared_workspace and _beside(read, workspace)):
                raise InputError(
                    f"{read.key}={read.path}: a local path that other nodes will read, and no other node is up yet to "
                    f"check; {_instead(read)}"
                )


def local_reads(
    config: RunConfig, workspace: Workspace, outputs: tuple[str, ...] = (), *, captions: bool = True
) -> Iterator[Read]:
    """The local files and folders that nodes of a cluster read of the machine they are on. What is on S3 is not listed.

    Args:
        config: of the run.
        workspace: images and weights are listed only while it lacks features of them, or if the backbone is trained.
        outputs: of extraction; by default what the family reads.
        captions: whether a parser, a lexicon and scores of concreteness are listed.
    """
    inputs, backbone = family_inputs(config), registry.build("backbone", config.features.backbone)
    if not isinstance(backbone, ReadyMade):
        source = registry.build("source", config.data)
        records = source.describe()
        if config.train.finetune or kept_features(config, workspace, records, outputs or (inputs.image,)) is None:
            weights = getattr(config.features.backbone, "weights", "")
            if not named_files.is_remote(weights) and named_files.is_file(weights):
                yield Read("features.backbone.weights", weights, (str(local_path(weights).absolute()),))
            root = source.image_root
            if root and not named_files.is_remote(root):
                yield Read("data.root", root, tuple(_some(records, root)))
    parser = local_path(parser_of(config).pipeline).absolute()
    if captions and inputs.components and parser.is_dir():
        files = (str(path) for name in ("meta.json", "config.cfg") if (path := parser / name).is_file())
        yield Read("text.parser.pipeline", str(parser), tuple(files))
    if captions and adversaries_wanted(config) is not None:
        yield from _knowledge(config.text.contrast)


def _knowledge(rules: ChangeRules) -> Iterator[Read]:
    """What workers read to tell which candidates are theirs."""
    if rules.lexicon != SHIPPED and not named_files.is_remote(rules.lexicon):
        folder = local_path(rules.lexicon).absolute()
        yield Read("text.contrast.lexicon", str(folder), tuple(str(folder / name) for name in NOUN_FILES))
    if rules.concreteness and not named_files.is_remote(rules.concreteness):
        file = str(local_path(rules.concreteness).absolute())
        yield Read("text.contrast.concreteness", file, (file,))


def _some(records: Records, root: str) -> Iterator[str]:
    images = records.images
    for k in sorted({round(k * (len(images) - 1) / (_IMAGES - 1)) for k in range(_IMAGES)}):
        places = candidate_paths(root, file_of(images[k].uri)[0])
        written = next(places)
        if not named_files.is_remote(written):
            yield written if os.path.isfile(written) else next(filter(os.path.isfile, places), written)


def _compare(read: Read) -> None:
    here = look(read.files)
    for host, there in on_every_node(look, read.files).items():
        if there != here:
            missing = next(file for file, own, its in zip(read.files, here, there, strict=True) if own != its)
            what = f"node {host} lacks {missing} or has a different file"
            raise InputError(f"{read.key}={read.path}: {what}; {_instead(read)}")


def look(files: tuple[str, ...]) -> list[str]:
    """Sizes and digests of both ends of files on a node; empty for files that it cannot read."""
    digests = []
    for file in files:
        try:
            digests.append(named_files.digest_of_ends(file, _SPAN))
        except InputError:
            digests.append("")
    return digests


def _instead(read: Read) -> str:
    if read.key == "text.parser.pipeline":
        return "put it on every node under this path"
    return (
        "copy it to S3 and name s3://bucket/..., put it on every node under this path, or extract on this node "
        "first: jobs/extract_features.py extraction.workers=0"
    )


def _beside(read: Read, workspace: str) -> bool:
    """Whether it lies on the file system of a workspace that the user calls shared; of a folder, its files as well,
    for links may lead elsewhere."""
    there = Workspace.open(workspace).root
    if not there.is_local or not there.local().exists():
        return False
    paths = (read.path, *filter(os.path.exists, read.files))
    return {os.stat(path).st_dev for path in paths} == {os.stat(there.local()).st_dev}


def planned_coverage(config: RunConfig, records: Records) -> Iterator[str]:
    """Lines of a dry run on a file of word vectors, which is read completely unless it is on S3.

    The vocabulary is of the captions alone; a training may add lemmas of parsed components. Raises InputError if the
    file holds no word vectors, or none of these words.
    """
    file = config.text.word_vectors
    if file in ("", OWN_CAPTIONS):
        return
    if named_files.is_remote(file):
        yield f"text.word_vectors={file}: not read by a dry run, which copies no files from S3"
        return
    vocabulary = training_vocabulary(config, records, None)
    yield vector_coverage(word_vectors(file, (*SPECIAL, *vocabulary.words)), vocabulary).line(file)
