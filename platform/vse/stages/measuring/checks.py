"""What can be known of a measurement before features, parses or adversaries are made, by jobs and their dry runs."""

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from vse import registry
from vse.adversaries.caption_pairs import CaptionPair, read_pairs
from vse.data.records import Records
from vse.data.source import source_of
from vse.errors import InputError
from vse.evaluation.gaussianity import KeepsCodes
from vse.evaluation.protocol import TooFewImagesError
from vse.stages.extract import check_features, kept_features
from vse.stages.measuring.caption_pairs import match_pairs
from vse.stages.measuring.options import MeasureOptions, Size, size_of
from vse.stages.measuring.other_data import keys_of, on_other_data, told, words_of
from vse.stages.pipeline import check
from vse.stages.trained import Trained, device_of, load_run
from vse.storage.folder import Folder
from vse.training.compatibility import family_inputs
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace


@dataclass(frozen=True, eq=False)
class Asked:
    """A measurement that was checked: runs with the configurations of the data that they are measured on, the records
    of these, what is measured of each split, and pairs of captions."""

    loaded: tuple[Trained, ...]
    configs: tuple[RunConfig, ...]
    records: tuple[Records, ...]
    sizes: dict[str, Size]
    pairs: tuple[CaptionPair, ...]


def check_measure(
    runs: Sequence[Folder], workspace: Workspace, options: MeasureOptions, describe: Callable[[RunConfig], Records]
) -> Asked:
    """Look at everything that a measurement reads but features, parses and pictures.

    Args:
        runs: folders of trained runs.
        workspace: where stages keep what they make.
        options: what to measure.
        describe: gives the records of a configuration's data.

    Raises:
        InputError: a run, file, split, protocol, parser or lexicon is missing or does not go with the others.
    """
    if options.gaussian and len(runs) > 1:
        raise InputError("measure.gaussian: measures the codes of one run; name a single one in run")
    if options.gaussian and options.on:
        raise InputError("measure.gaussian: is of the codes of the run's own data; leave measure.on out")
    device_of(options.device, "measure.device")
    changes = {"model.components": options.components} if options.components else {}
    loaded = tuple(load_run(run, changes) for run in runs)
    has_alpha = any("alpha" in trained.family.inference_parameters for trained in loaded)
    if options.alpha is not None and not has_alpha:
        names = ", ".join(run.name for run in runs)
        raise InputError(f"measure.alpha={options.alpha:g}: the family of {names} has no alpha; leave it out")
    if options.gaussian and not isinstance(loaded[0].family, KeepsCodes):
        raise InputError("measure.gaussian: this family has only unit vectors; jWAE has other codes")
    pairs = tuple(pair for file in options.pairs for pair in read_pairs(file))
    configs = tuple(on_other_data(trained.config, options) for trained in loaded)
    records = tuple(_described(config, options, describe) for config in configs)
    if options.true_pairs and not source_of(configs[0].data).knows_truth:
        raise InputError("measure.true_pairs: needs a source that knows what is true of its images, such as scenes")
    sizes = dict[str, Size]()
    for config, found in zip(configs, records, strict=True):
        for split in dict.fromkeys(options.splits):
            name, size = size_in(config, found, split, options)
            sizes.setdefault(name, size)
    if pairs:
        match_pairs(pairs, [(image.id, image.uri) for image in records[0].images], records[0].name, options.pairs)
    for config, found in zip(configs, records, strict=True):
        _check_stages(config, found, workspace, options)
    return Asked(loaded, configs, records, sizes, pairs)


def _described(config: RunConfig, options: MeasureOptions, describe: Callable[[RunConfig], Records]) -> Records:
    if not options.on:
        return describe(config)
    try:
        return describe(config)
    except InputError as error:
        raise told(error, config.data, keys_of(options)) from None


def _check_stages(config: RunConfig, records: Records, workspace: Workspace, options: MeasureOptions) -> None:
    check(config, parsed=bool(options.attacks), contrast=bool(options.contrast))
    outputs = (family_inputs(config).image,)
    if kept_features(config, workspace, records, outputs) is None:
        check_features(config, records, outputs, workspace)


def size_in(config: RunConfig, records: Records, split: str, options: MeasureOptions) -> tuple[str, Size]:
    """The name of what is measured of a split, and its size.

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
        return size_of(part, options)
    except TooFewImagesError as error:
        setting = registry.build("source", config.data).setting_for_more(split)
        if not setting:
            raise
        train = "" if options.on else f"train with {setting}, or "
        below = setting.replace("data.", "measure.on.", 1)
        raise TooFewImagesError(f"{error}; {train}measure with {below}") from None


def _fits(records: Records, split: str, options: MeasureOptions) -> bool:
    try:
        size_of(records.split(split), options)
    except InputError:
        return False
    return True


def foresee_measure(runs: Sequence[Folder], workspace: Workspace, options: MeasureOptions) -> Iterator[str]:
    """What a dry run says of a measurement; nothing is written. Raises InputError as `check_measure` does."""
    asked = check_measure(runs, workspace, options, lambda config: registry.build("source", config.data).describe())
    for name, size in asked.sizes.items():
        yield f"measure {name} of {asked.records[0].name}: {size.images} images with {size.captions} captions"
    yield from attacked_by(asked, options)
    if asked.pairs:
        yield f"{len(asked.pairs)} pairs of captions in {', '.join(options.pairs)}"
    yield "not checked: image files, and which adversaries the captions have"


def attacked_by(asked: Asked, options: MeasureOptions) -> Iterator[str]:
    """Whose words attack other data, a line for each split."""
    if options.on and (options.attacks or options.contrast):
        for split in dict.fromkeys(options.splits):
            words = words_of(asked.records[0], split, options)
            yield f"attacks on {split} of {asked.records[0].name} take words of its own {words} captions"
