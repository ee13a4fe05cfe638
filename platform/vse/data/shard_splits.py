"""Splits of a data set in shards: files by keys or by words in their names, or else single images by a hash."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from vse.config import knob
from vse.data.reading import SPLITS, SplitNames, drawn_split
from vse.data.source import SourceConfig
from vse.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardsConfig(SourceConfig):
    """Keys of sources that read shards."""

    train: str = knob("", "shards of the training split, such as train-*.tar; default: by words in their names")
    val: str = knob("", "shards of the validation split; default: by words in their names, such as dev or validation")
    test: str = knob("", "shards of the test split; default: by words in their names")
    val_share: float = knob(0.1, "share of the images for validation, if no key or name gives splits", low=0, high=1)
    test_share: float = knob(0.1, "share of the images for the test, if no key or name gives splits", low=0, high=1)
    seed: int = knob(0, "which images go to these splits", low=0)

    def dealt(self, image: str) -> str:
        """The split of an image. Raises InputError if the shares leave no training images."""
        if self.val_share + self.test_share >= 1:
            raise InputError(
                f"data.val_share={self.val_share:g}, data.test_share={self.test_share:g}: must leave images to train on"
            )
        return drawn_split(image, self.seed, self.val_share, self.test_share)


def splits_of_shards(root: str, shards: Sequence[str], config: ShardsConfig) -> dict[str, str]:
    """The split of each shard that is read; empty for all if neither keys nor names say one.

    Args:
        root: folder of the shards, for messages.
        shards: paths below it.
        config: whose keys `train`, `val` and `test` name shards or patterns of them.

    Raises:
        InputError: a key names no shard, two keys name one, or only some names have a split.
    """
    named = {split: pattern for split in SPLITS if (pattern := getattr(config, split))}
    if named:
        return dict(_named(root, shards, named))
    names = SplitNames(root)
    splits = {file: _split_in_name(file, names, root) for file in shards}
    unnamed = [file for file, split in splits.items() if not split]
    if unnamed and len(unnamed) < len(shards):
        other = next(file for file, split in splits.items() if split)
        raise InputError(
            f"data.root={root}: the name {other} has a split and {unnamed[0]} has none; name the shards of each split "
            "with data.train, data.val and data.test, as in data.train=train-*.tar"
        )
    return splits


def _named(root: str, shards: Sequence[str], named: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    splits = dict[str, str]()
    for split, pattern in named.items():
        files = [file for file in shards if file == pattern or fnmatch(file, pattern)]
        if not files:
            raise InputError(f"data.{split}={pattern}: no such shard in {root}; it has {', '.join(shards)[:200]}")
        for file in files:
            if splits.setdefault(file, split) != split:
                raise InputError(f"data.{splits[file]}, data.{split}: both name {file}; a shard has one split")
    for file in shards:
        if file in splits:
            yield file, splits[file]


def _split_in_name(file: str, names: SplitNames, root: str) -> str:
    """The split that words of a path mean, such as `coco-val-0001.tar` or `train/0.tar`; empty if none."""
    meanings = {names.meaning(word) for word in re.split(r"[^A-Za-z]+", file.rpartition(".")[0])} - {""}
    if len(meanings) > 1:
        splits = ", ".join(sorted(meanings))
        raise InputError(
            f"data.root={root}: the name {file} has the splits {splits}; name its split with data.train=..."
        )
    return next(iter(meanings), "")
