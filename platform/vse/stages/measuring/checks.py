"""What can be known of a measurement before features, parses or adversaries are made, by jobs and their dry runs."""

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from vse import registry
from vse.data.records import Records
from vse.data.source import source_of
from vse.display.counts import count
from vse.errors import InputError
from vse.evaluation.protocol import TooFewImagesError
from vse.evaluation.task import Subject, Task
from vse.evaluation.tasks import check_names
from vse.evaluation.tasks.contrast import VSEC
from vse.stages.extract import check_features, kept_features
from vse.stages.measuring.options import SharedOptions, Size, protocol_of, size_of
from vse.stages.measuring.other_data import (
    adversary_words,
    keys_of,
    on_other_data,
    rename_keys,
    seen_in_training,
    warn_of_training_images,
    words_of,
)
from vse.stages.measuring.word_sources import source_digits
from vse.stages.pipeline import check
from vse.stages.trained import Trained, device_of, load_run
from vse.storage.folder import Folder
from vse.training.config import RunConfig, family_inputs, regions_from_maps
from vse.workspace.layout import Workspace


@dataclass(frozen=True, eq=False)
class CheckedRequest:
    """A measurement that was checked.

    Args:
        loaded: The runs.
        configs: Their configurations with the data that they are measured on.
        records: These data.
        sizes: How much is measured of each split.
        tasks: Those that measure, by name.
        missing: What the runs or the data lack of what other tasks need, by the name of the task.
        selected: Whether images are selected by their adversaries, so that `sizes` are those of all of them.
        describe: Gives the records of a configuration's data.
    """

    loaded: tuple[Trained, ...]
    configs: tuple[RunConfig, ...]
    records: tuple[Records, ...]
    sizes: dict[str, Size]
    tasks: dict[str, Task]
    missing: dict[str, str]
    selected: bool
    describe: Callable[[RunConfig], Records]

    @property
    def attacked(self) -> bool:
        """Whether a task or a selection asks for adversaries, which are made of parsed captions."""
        return self.selected or any(task.adversaries for task in self.tasks.values())

    @property
    def parsed(self) -> bool:
        """Whether captions are parsed for a task, whatever the family reads."""
        return self.attacked or any(task.parsed for task in self.tasks.values())

    @cached_property
    def training_images(self) -> frozenset[str]:
        """Ids of the images on which a run was trained."""
        runs = zip(self.loaded, self.configs, self.records, strict=True)
        seen = (seen_in_training(run.config, config, records, self.describe) for run, config, records in runs)
        return frozenset().union(*seen)


def check_measure(
    runs: Sequence[Folder],
    workspace: Workspace,
    tasks: Collection[str],
    options: SharedOptions,
    describe: Callable[[RunConfig], Records],
) -> CheckedRequest:
    """Look at everything that a measurement reads but features, parses and pictures.

    Args:
        runs: folders of trained runs.
        workspace: where stages keep what they make.
        tasks: names of what to measure; a mapping has the tasks too, made by another process.
        options: how to measure.
        describe: gives the records of a configuration's data.

    Raises:
        InputError: a run, file, split, protocol, parser or lexicon is missing or does not go with the others, or the
            runs can be measured by none of the tasks.
    """
    check_names(tasks)
    device_of(options.device, "measure.device")
    changes = {"model.components": options.components} if options.components else {}
    loaded = tuple(load_run(run, changes) for run in runs)
    has_alpha = any("alpha" in trained.family.inference_parameters for trained in loaded)
    if options.alpha is not None and not has_alpha:
        names = ", ".join(run.name for run in runs)
        raise InputError(f"measure.alpha={options.alpha:g}: the family of {names} has no alpha; leave it out")
    source = source_of(loaded[0].config.data)
    configs = tuple(on_other_data(trained.config, options) for trained in loaded)
    records = tuple(_described(config, options, describe) for config in configs)
    made = isinstance(tasks, Mapping)
    requested = dict(tasks) if made else {name: options.task(name) for name in dict.fromkeys(tasks)}
    _check_lists(requested, options, records[0])
    sizes = dict[str, Size]()
    for config, described in zip(configs, records, strict=True):
        for split in dict.fromkeys(options.splits):
            name, size = size_in(config, described, split, options)
            sizes.setdefault(name, size)
    subject = Subject(
        grid=lambda: _one_view(configs[0]),
        pictures=lambda: _transform(configs[0]) is not None,
        families=tuple(trained.family for trained in loaded),
        source=source_of(configs[0].data) if options.on else source,
        records=records[0],
        own_data=not options.on,
        splits=options.splits,
    )
    missing = {name: needs for name, task in requested.items() if (needs := task.missing(subject))}
    kept = {name: task for name, task in requested.items() if name not in missing}
    if not kept:
        raise InputError("; ".join(f"tasks={name}: n/a: needs {needs}" for name, needs in missing.items()))
    for task in kept.values():
        task.check(records[0])
        for key, source in task.word_sources:
            source_digits(source, workspace, key)
    request = CheckedRequest(loaded, configs, records, sizes, kept, missing, options.selection.images > 0, describe)
    if options.on and not workspace.external.given:
        warn_of_training_images(request.training_images, records[0], options.splits)
    for trained, config, described in zip(loaded, configs, records, strict=True):
        _check_stages(trained, config, described, workspace, request, options)
    return request


def _check_lists(tasks: Mapping[str, Task], options: SharedOptions, records: Records) -> None:
    """Raises InputError for an empty list that leaves nothing to measure."""
    if not options.splits:
        raise InputError(f"measure.splits=: name one or more of {', '.join(records.split_names)}")
    for name, task in tasks.items():
        specs = {spec.name: spec for spec in fields(task.config)}
        for key in task.not_empty:
            if not getattr(task.config, key):
                choices = specs[key].metadata.get("choices") or ()
                expected = f" of {', '.join(choices)}" if choices else " values"
                raise InputError(f"measure.{name}.{key}=: name one or more{expected}")


def _one_view(config: RunConfig) -> bool:
    """Whether the backbone sees a picture once, by a transform of its own."""
    transform = _transform(config)
    return transform is not None and transform.num_crops == 1


def _transform(config: RunConfig) -> Any:
    """The transform of the backbone; None for ready-made features, and for regions of its maps."""
    if regions_from_maps(config):
        return None
    return getattr(registry.build("backbone", config.features.backbone), "transform", None)


def _described(config: RunConfig, options: SharedOptions, describe: Callable[[RunConfig], Records]) -> Records:
    if not options.on:
        return describe(config)
    try:
        return describe(config)
    except InputError as error:
        raise rename_keys(error, config.data, keys_of(options)) from None


def _check_stages(
    trained: Trained,
    config: RunConfig,
    records: Records,
    workspace: Workspace,
    request: CheckedRequest,
    options: SharedOptions,
) -> None:
    if workspace.external.given:
        return  # the driver has checked them, and this node may lack the files
    trained.check_backbone()
    kinds = {kind for task in request.tasks.values() for kind, _ in task.adversaries}
    rules = adversary_words(options).rules
    check(
        replace(config, text=replace(config.text, contrast=rules)),
        parsed=request.parsed,
        contrast=request.selected or VSEC in kinds,
    )
    outputs = (family_inputs(config).image,)
    if kept_features(config, workspace, records, outputs) is None:
        check_features(config, records, outputs, workspace)


def size_in(config: RunConfig, records: Records, split: str, options: SharedOptions) -> tuple[str, Size]:
    """(name of the measured part of a split, its size).

    Args:
        config: Of the run, with the data that are measured; their source names a setting in an error.
        records: These data.
        split: Name of the split.
        options: How it is measured: with which protocol, and in how many folds.

    Raises:
        InputError: the data have no such split, and the error names another; or it has too few images, and the error
            names the setting of the data that gives it more.
    """
    try:
        part = records.split(split)
    except InputError as error:
        there = [name for name in records.split_names if name != "train" and _fits(records, name, options)]
        if split == "train" or not there:
            raise
        other = (difflib.get_close_matches(split, there) or there)[0]
        raise InputError(f"{error}; measure.splits={other} measures that one") from None
    try:
        return size_of(part, protocol_of(split, options))
    except TooFewImagesError as error:
        setting = registry.build("source", config.data).setting_for_more(split)
        if not setting:
            raise
        train = "" if options.on else f"train with {setting}, or "
        below = setting.replace("data.", "measure.on.", 1)
        raise TooFewImagesError(f"{error}; {train}measure with {below}") from None


def _fits(records: Records, split: str, options: SharedOptions) -> bool:
    try:
        size_of(records.split(split), protocol_of(split, options))
    except InputError:
        return False
    return True


def foresee_measure(
    runs: Sequence[Folder], workspace: Workspace, tasks: Sequence[str], options: SharedOptions
) -> Iterator[str]:
    """Lines of a dry run on a measurement: what is measured, on how much data, and what is missing. Nothing is written.

    Args:
        runs: Folders of trained runs.
        workspace: Where stages keep what they make.
        tasks: Names of what to measure.
        options: How to measure.

    Raises:
        InputError: As for `check_measure`.
    """
    request = check_measure(
        runs, workspace, tasks, options, lambda config: registry.build("source", config.data).describe()
    )
    for name, size in request.sizes.items():
        images, captions = count(size.images, "image"), count(size.captions, "caption")
        yield f"measure {name} of {request.records[0].name}: {images} with {captions}"
    if request.selected:
        least, number = options.selection.least, options.selection.images
        yield f"selected of these: the first {number} images whose captions all have {least} adversaries of each class"
    yield f"tasks: {', '.join(request.tasks)}"
    yield from (f"{name}: n/a: needs {needs}" for name, needs in request.missing.items())
    yield from attacked_by(request, options)
    yield "not checked: image files, and which adversaries the captions have"


def attacked_by(request: CheckedRequest, options: SharedOptions) -> Iterator[str]:
    """Whose words attack other data, a line for each split."""
    if options.on and request.attacked:
        for split in dict.fromkeys(options.splits):
            words = words_of(request.records[0], split, options)
            yield f"attacks on {split} of {request.records[0].name} take words of its own {words} captions"
