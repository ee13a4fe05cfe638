"""Other data than a run's own, as `measure.on` names them: how they are read, and whose words attack them."""

import logging
import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, replace

from vse import registry
from vse.config import override
from vse.data.places import AddressError, below
from vse.data.records import Records
from vse.data.source import recognise, source_of
from vse.errors import InputError
from vse.features.arrays import ReadyMade
from vse.stages.measuring.options import AdversaryWords, SharedOptions
from vse.storage.user_files import is_remote
from vse.training.config import RunConfig

log = logging.getLogger(__name__)


def keys_of(options: SharedOptions) -> dict[str, str]:
    """What `measure.on` and the keys below it say, by their names below it; the path is `path`."""
    return {key: value for key, _, value in (item.partition("=") for item in options.on)}


def on_other_data(config: RunConfig, options: SharedOptions) -> RunConfig:
    """A run's configuration with the data that it is measured on, its own or what `measure.on` names.

    Raises:
        InputError: nothing is recognised there, a key is none of its source, or the run cannot read it.
    """
    keys = keys_of(options)
    if not keys:
        return config
    path, name = keys.pop("path", ""), keys.pop("source", "")
    data = config.data
    try:
        if name:
            registry.component("source", name, "data")
        if path:
            name, there = recognise(path, name)
            keys = there | keys
        if name:
            data = registry.component("source", name, "data").Config()
        other = override(replace(config, data=data), {f"data.{key}": value for key, value in keys.items()})
    except InputError as error:
        raise rename_keys(error, data, keys) from None
    precomputed = isinstance(registry.build("backbone", config.features.backbone), ReadyMade)
    if not source_of(other.data).has_images and not precomputed:
        raise InputError("measure.on: holds features and no images, but this run extracts its features from images")
    return other


def seen_in_training(
    own: RunConfig, config: RunConfig, records: Records, describe: Callable[[RunConfig], Records]
) -> frozenset[str]:
    """Ids of the images on which a run was trained. Images of other data, as another fold, are known by their files.

    Args:
        own: The run's configuration.
        config: The same with the data that are measured.
        records: These data.
        describe: Gives the records of a configuration's data.
    """
    if config is own:
        return frozenset(image.id for image in records.images if image.split == "train")
    try:
        root, own_root = (registry.build("source", each.data).image_root for each in (config, own))
        trained_on = describe(own).split("train").images if root and own_root else ()
    except InputError:  # the run's own files are no longer where they were
        return frozenset()
    files = {_file_of(image.uri, own_root) for image in trained_on}
    return frozenset(image.id for image in records.images if files and _file_of(image.uri, root) in files)


def warn_of_training_images(seen: Collection[str], records: Records, splits: Sequence[str]) -> None:
    """Log a line for each measured split with training images of the run.

    Args:
        seen: Ids of these images.
        records: The data that are measured.
        splits: Those that are measured.
    """
    for split in dict.fromkeys(splits):
        images = records.split(split).images
        if number := sum(image.id in seen for image in images):
            log.warning(
                "measure.on: %d of %d images of split %s are training images of the run; scores of these say little "
                "about new images",
                number,
                len(images),
                split,
            )


def _file_of(uri: str, root: str) -> str:
    """The same text for every address of a file below a folder."""
    try:
        place = below(root, uri)
    except AddressError:
        return uri
    return place if is_remote(place) else os.path.realpath(place)


def rename_keys(error: InputError, data: registry.ComponentConfig, keys: dict[str, str]) -> InputError:
    """An error about keys of a data set with the names that they have below `measure.on`.

    Args:
        error: Names keys as `data.KEY`.
        data: Configuration of the data set, whose keys are renamed.
        keys: What the user set below `measure.on`; these keys are renamed too.
    """
    names = "|".join(map(re.escape, {*(spec.name for spec in fields(data)), *keys}))
    text = re.sub(rf"(?<![\w/.-])data\.({names})\b", r"measure.on.\1", str(error))
    text = re.sub(r"(?<![\w/.-])data=(?=\w)", "measure.on.source=", text)
    return InputError(text if text.startswith("measure.on") else f"measure.on: {text}")


def adversary_words(options: SharedOptions) -> AdversaryWords:
    """Which words attack the data that are measured.

    On other data than the run's they are counted by shares, and none is held out: nothing was trained against them.
    """
    words = options.adversaries
    if not options.on:
        return words
    return replace(
        words,
        pools=replace(words.pools, minimum=None, held_out=False),
        contrast=replace(words.contrast, minimum=None, held_out=False),
    )


def words_of(records: Records, split: str, options: SharedOptions) -> str:
    """The split whose captions give the words that attack a split: of other data without a training split, itself.

    Args:
        records: The data that are measured.
        split: Name of the attacked split.
        options: Says whether these are other data than the run's.
    """
    return split if options.on and "train" not in records.split_names else "train"
