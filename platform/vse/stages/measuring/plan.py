"""What measuring runs will take: runs, splits, adversaries and tasks, before anything is encoded."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from vse import registry
from vse.adversaries.attacks import contrast_classes
from vse.config import fingerprint, to_dict
from vse.data.records import Records, Split
from vse.errors import InputError
from vse.evaluation import tasks
from vse.evaluation.protocol import Protocol, complete_images
from vse.evaluation.task import Scope, Task
from vse.evaluation.tasks.attacks import UNIVSE
from vse.evaluation.tasks.contrast import VSEC
from vse.stages import pipeline
from vse.stages.attack import Adversaries, attack_split, contrast_split, nonempty_attacks, without_any
from vse.stages.measuring.checks import attacked_by, check_measure
from vse.stages.measuring.members import Member, Members
from vse.stages.measuring.options import SharedOptions, Size, label_of, protocol_of, size_of
from vse.stages.measuring.other_data import adversary_words, words_of
from vse.stages.measuring.word_sources import source_digits
from vse.stages.parse import parse_dataset
from vse.stages.trained import device_of
from vse.storage.folder import Folder
from vse.training.config import RunConfig
from vse.training.inputs import Material
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)

REVISION = 7  # of what tasks have in common; 7: intervals, and adversaries of the measurement

PARSES, BOXES, TRAINING = "parses", "boxes", "training captions"  # among fingerprints, next to names of splits
READS: dict[str, Callable[[Task], bool]] = {
    PARSES: lambda task: task.parsed,
    BOXES: lambda task: task.reads_boxes,
    TRAINING: lambda task: task.reads_training,
}
"""Whether a task takes queries or truths from them."""

Kind = tuple[str, str]
"""A kind of adversaries and a kind of words."""


@dataclass(frozen=True, eq=False)
class MeasurePlan:
    """A measurement before anything is encoded.

    Args:
        members: The runs.
        tasks: What to measure, by name.
        missing: As in `CheckedRequest`.
        parts: The splits.
        adversaries: By split, kind and words, as each run reads them.
        options: How to measure.
        protocols: Which images and captions of each split are measured.
        sizes: How much is measured of each split.
        device: Where to compute.
        runs: Addresses of the runs.
        training_images: Returns the ids of the images on which a run was trained.
    """

    members: Members
    tasks: dict[str, Task]
    missing: dict[str, str]
    parts: tuple[Split, ...]
    adversaries: Mapping[str, Mapping[Kind, tuple[Adversaries, ...]]]
    options: SharedOptions
    protocols: Mapping[str, Protocol]
    sizes: dict[str, Size]
    device: torch.device
    runs: tuple[str, ...]
    training_images: Callable[[], frozenset[str]]

    def digits(self, name: str) -> str:
        """Fingerprint of everything that determines the numbers of a task, used in the names of their files."""
        task = self.tasks[name]
        key = [name, task.revision, REVISION, task.config, task.content()]
        # a GPU's numbers are the same but for the last bits
        key.append({spec: value for spec, value in shared_options(self.options).items() if spec != "device"})
        key += [[each.trained.weights, dict(each.material.fingerprints)] for each in self.members.each]
        if self.options.selection.images:
            key.append({split: protocol.chosen for split, protocol in self.protocols.items()})
        if task.parsed:
            key += [[each.material.parses and each.material.parses.fingerprint] for each in self.members.each]
        if task.word_sources:
            key.append([source_digits(source, self.members.workspace, of) for of, source in task.word_sources])
        for split, kinds in self._of(task).items():
            key += [[split, *kind, *(one.fingerprint for one in sets)] for kind, sets in kinds.items()]
        return fingerprint(key)

    def warn_of_unattacked(self) -> None:
        """A line for every split and kind of words in which attacks find nothing to change, and have no numbers."""
        for split, kinds in self.adversaries.items():
            for (kind, words), (first, *_) in kinds.items():
                if names := [f"contrast_{each}" if kind == VSEC else each for each in without_any(first)]:
                    none = f"no {' and no '.join(names)} adversaries ({words} words)"
                    log.warning("split %s has %s: their metrics are missing", split, none)

    @property
    def fingerprints(self) -> dict[str, str]:
        """What runs must have in common for their outcomes to be compared: fingerprints of the images and captions of
        every split, of the texts that attack it by kind, and of what else tasks take queries or truths from."""
        return self._prints_of(self.tasks.values())

    def fingerprints_of(self, name: str) -> dict[str, str]:
        """Those that the outcomes of a task depend on."""
        return self._prints_of([self.tasks[name]])

    def met(self, name: str) -> dict[str, dict[str, str]]:
        """By label of a task's numbers, fingerprints of what they are of: images and captions, adversaries by kind, and
        what else candidates depend on. Numbers stand in one table only if they agree in all that both have."""
        task, prints = self.tasks[name], self.fingerprints_of(name)
        more = {"content": fingerprint([task.content(), None if task.config_in_names else task.config])}
        more |= {key: digits for key, digits in prints.items() if key in READS}
        if task.scope is Scope.DATA:
            return {label_of(task, "", self.options): {"records": self.members.records.fingerprint, **more}}
        return {
            label_of(task, part.name, self.options): {
                **{key: digits for key, digits in prints.items() if key.split("/")[0] == part.name},
                "protocol": fingerprint(self.protocols[part.name]),
                **more,
            }
            for part in self.parts
        }

    def _of(self, task: Task) -> dict[str, dict[Kind, tuple[Adversaries, ...]]]:
        return {
            split: {kind: sets for kind, sets in kinds.items() if kind in task.adversaries}
            for split, kinds in self.adversaries.items()
        }

    @property
    def _parses(self) -> str:
        """A fingerprint of the parses of all members; runs with one parser have one."""
        parses = (each.material.parses for each in self.members.each)
        return fingerprint(sorted({each.fingerprint for each in parses if each is not None}))

    def _prints_of(self, tasks: Collection[Task]) -> dict[str, str]:
        """Fingerprints of the splits, of the adversaries that some tasks read, and of what else they read."""
        made = {PARSES: lambda: self._parses, BOXES: lambda: self._boxes, TRAINING: lambda: self._training}
        prints = {name: made[name]() for name, reads in READS.items() if any(map(reads, tasks))}
        kinds = {kind for task in tasks for kind in task.adversaries}
        for (part, *kind), digits in self._splits.items():
            if not kind or tuple(kind) in kinds:
                prints["/".join((part, *kind))] = digits
        return prints

    @cached_property
    def _boxes(self) -> str:
        return fingerprint(self.members.records.boxes)

    @cached_property
    def _training(self) -> str:
        """A fingerprint of the training captions."""
        records = self.members.records
        train = records.split("train").captions if "train" in records.split_names else ()
        return fingerprint([[each.image, each.text] for each in train])

    @cached_property
    def _splits(self) -> dict[tuple[str, ...], str]:
        """Fingerprints of every measured split, as (its name,), and of each kind of its adversaries."""
        prints = dict[tuple[str, ...], str]()
        for part in self.parts:
            rows = [[i.id, i.uri] for i in part.images], [[c.id, c.image, c.text] for c in part.captions]
            prints[part.name,] = fingerprint(rows)
            for kind, (first, *_) in self.adversaries[part.name].items():
                captions = {name: of.tolist() for name, of in first.caption.items()}
                prints[part.name, *kind] = fingerprint([first.texts, captions])
        return prints


def plan_measure(
    runs: Sequence[Folder],
    workspace: Workspace,
    names: Collection[str],
    options: SharedOptions,
    describe: Callable[[RunConfig], Records] | None = None,
) -> MeasurePlan:
    """What measuring runs will take, with earlier stages and adversaries made if they are missing.

    Args:
        runs: Folders of trained runs. Of several, the scores are averaged.
        workspace: Where stages keep what they make.
        names: Of the tasks; a mapping has the tasks too, made by another process.
        options: How to measure.
        describe: Gives the records of a configuration; None: `pipeline.describe`.

    Raises:
        InputError: A run has no checkpoint, the data set no such split, or none of the tasks can measure.
    """
    describe = describe or (lambda config: pipeline.describe(config, workspace))
    request = check_measure(runs, workspace, names, options, describe)
    for line in attacked_by(request, options):
        log.info("%s", line)
    alpha = options.alpha
    members = Members(
        tuple(
            Member(
                run.name,
                trained,
                _material(trained.config, config, workspace, request.parsed, records),
                config,
                {"alpha": alpha} if alpha is not None and "alpha" in trained.family.inference_parameters else {},
                options.drop_components,
                options.drop_seed,
            )
            for run, trained, config, records in zip(
                runs, request.loaded, request.configs, request.records, strict=True
            )
        ),
        workspace,
    )
    parts = tuple(members.split(split) for split in dict.fromkeys(options.splits))  # refused before any is encoded
    kinds = dict.fromkeys(kind for task in request.tasks.values() for kind in task.adversaries)
    sources = [
        _counted(member, records, workspace) if request.attacked else member.material
        for member, records in zip(members.each, request.records, strict=True)
    ]
    protocols = {part.name: _protocol(members, sources, part, options) for part in parts}
    return MeasurePlan(
        members=members,
        tasks={name: request.tasks[name] for name in tasks.names() if name in request.tasks},
        missing=request.missing,
        parts=parts,
        adversaries={part.name: _adversaries(members, sources, part.name, kinds, options) for part in parts},
        options=options,
        protocols=protocols,
        sizes=dict(size_of(part, protocols[part.name]) for part in parts),
        device=device_of(options.device, "measure.device"),
        runs=tuple(run.uri for run in runs),
        training_images=lambda: request.training_images,
    )


def _protocol(members: Members, sources: Sequence[Material], part: Split, options: SharedOptions) -> Protocol:
    """The protocol that measures a split, with the images of `options.selection`.

    Raises InputError if fewer images qualify.
    """
    protocol, wanted = protocol_of(part.name, options), options.selection
    if not wanted.images:
        return protocol
    kind = (VSEC, wanted.words)
    adversaries = _adversaries(members, sources, part.name, {kind: None}, options)
    if kind not in adversaries:
        raise InputError("measure.selection.words=disjoint: training adversaries used all words; use all or shared")
    (fold,) = protocol.select(part.caption_to_image, len(part.images))
    by_class = {name: adversaries[kind][0].caption.get(name, fold.captions[:0]) for name in contrast_classes()}
    inside = {
        name: np.searchsorted(fold.captions, rows[np.isin(rows, fold.captions)]) for name, rows in by_class.items()
    }
    complete = fold.images[complete_images(fold.caption_to_image, inside, wanted.least)]
    if len(complete) < wanted.images:
        raise InputError(
            f"measure.selection.images={wanted.images}: {len(complete)} of {len(fold.images)} images of split "
            f"{part.name} qualify, because each caption needs {wanted.least} adversaries of each class "
            f"({', '.join(by_class)}; {wanted.words} words); select fewer images, or lower measure.selection.least"
        )
    return replace(protocol, chosen=tuple(complete[: wanted.images].tolist()))


def shared_options(options: SharedOptions) -> dict[str, Any]:
    """The options that all tasks share."""
    return {key: value for key, value in to_dict(options).items() if key not in tasks.names()}


def _material(own: RunConfig, config: RunConfig, workspace: Workspace, parsed: bool, records: Records) -> Material:
    """Output of the earlier stages for `records`: the run's own data, or the other data of `config`."""
    if config is own:
        return pipeline.prepare(own, workspace, parsed=parsed, records=records)
    material = pipeline.prepare(own, workspace)
    return pipeline.prepare_transfer(config, workspace, material, parsed=parsed, records=records)


def _counted(member: Member, records: Records, workspace: Workspace) -> Material:
    """A member's material with the data in which words of adversaries are counted: all captions that its source can
    train on, whatever images the member was trained on and its backbone can read."""
    data = registry.build("source", member.config.data).with_all_captions()
    if data == member.config.data:
        return replace(member.material, words_records=records)
    config = replace(member.config, data=data)
    every = pipeline.describe(config, workspace)
    return replace(member.material, words_records=every, words_parses=parse_dataset(config, workspace, every))


def _adversaries(
    members: Members, sources: Sequence[Material], split: str, kinds: Mapping[Kind, None], options: SharedOptions
) -> dict[Kind, tuple[Adversaries, ...]]:
    """The adversaries of the images that the protocol takes, made if they are missing; `sources` as `_counted`."""
    images = protocol_of(split, options).num_images
    words_options = adversary_words(options)
    held_out = [words_options.held_out_of(member.config.text) for member in members.each]
    disjoint = {kind: all(each) for kind, each in zip((UNIVSE, VSEC), zip(*held_out, strict=True), strict=True)}
    result = dict[Kind, tuple[Adversaries, ...]]()
    for kind, words in kinds:
        if words == "disjoint" and not disjoint[kind]:
            continue  # training negatives had them all

        def make(member: Member, material: Material, kind: str = kind, words: str = words) -> Adversaries:
            text = replace(member.config.text, contrast=words_options.rules, min_count=words_options.min_count)
            config, from_split = replace(member.config, text=text), words_of(material.records, split, options)
            material = replace(material, words=words_options.pools, words_split=from_split)
            generate = attack_split if kind == UNIVSE else contrast_split
            return generate(config, members.workspace, material, split, words, images=images)

        result[kind, words] = tuple(map(nonempty_attacks, members.attackers(make, sources)))
    return result
