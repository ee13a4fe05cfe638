"""Trained runs that are measured as one: each reads captions and images in its own way, all of them the same ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from vse.data.records import Split
from vse.errors import InputError
from vse.evaluation.attacks import UnencodedSet, unknown_word_rate
from vse.evaluation.codes import Codes
from vse.evaluation.dropped_parses import DroppedParses
from vse.evaluation.ensemble import Ensemble, joined
from vse.models.family import Encoded
from vse.stages.attack import Adversaries
from vse.stages.trained import Trained, encode_split, unencoded_adversaries
from vse.training.config import RunConfig
from vse.training.inputs import Material, Parses


@dataclass(frozen=True, eq=False)
class Member:
    """A trained run with what earlier stages made for it; `settings` of its family that are not as configured.

    config: of the run, with the data that it is measured on.
    drop, drop_seed: share of parsed attributes and relations that it is not told of, and which (`DroppedParses`).
    """

    name: str
    trained: Trained
    material: Material
    config: RunConfig
    settings: Mapping[str, Any]
    drop: float = 0.0
    drop_seed: int = 0

    def read(self, parses: Parses) -> Parses:
        """Parses as the run reads them at test: without a share `drop` of their attributes and relations."""
        return DroppedParses(parses, self.drop, self.drop_seed) if self.drop else parses

    def encode(self, split: str, images: int | None = None) -> Codes:
        """Every image and caption of a split, or its first so many images and all of their captions."""
        parses = self.material.parses
        read = replace(self.material, parses=None if parses is None else self.read(parses))
        return encode_split(self.trained, read, split, images)

    def attacks(self, found: Adversaries) -> dict[str, UnencodedSet]:
        """Every adversary, by attack, to be encoded when it is met."""
        return unencoded_adversaries(self.trained, replace(found, parses=self.read(found.parses)), self.material)


@dataclass(frozen=True, eq=False)
class Members:
    """One run or more. What is encoded for them is to be scored by `model`, which tells `scored` of its pairs."""

    each: tuple[Member, ...]
    scored: Callable[[int], object] | None = None

    @cached_property
    def model(self) -> Ensemble:
        """The mean of the members' scores; of one member, its scores."""
        families, settings = zip(*((member.trained.family, member.settings) for member in self.each), strict=True)
        return Ensemble(families, settings, self.scored)

    @property
    def names(self) -> str:
        """As the user named them."""
        return ",".join(member.name for member in self.each)

    def split(self, name: str) -> Split:
        """A split of the data that the members share. Raises InputError where they differ in an image or a caption."""
        first, *others = (member.material.records.split(name) for member in self.each)
        for member, other in zip(self.each[1:], others, strict=True):
            if found := difference(first, other):
                raise InputError(
                    f"run={self.names}: split {name} is not the same for {self.each[0].name} and {member.name}: "
                    f"{found}; an ensemble needs runs on the same data"
                )
        return first

    def encode(self, split: str, images: int | None = None) -> Codes:
        """Every image and caption of a split, or of its first so many images, as each member encodes them."""
        codes = [member.encode(split, images) for member in self.each]
        return Codes(
            joined([one.images for one in codes]), joined([one.captions for one in codes]), codes[0].caption_to_image
        )

    def attackers(self, make: Callable[[Member], Adversaries]) -> tuple[Adversaries, ...]:
        """The adversaries that `make` finds for each member: the same texts, as each reads them.

        Raises InputError where members are attacked by different texts: those that train with other word pools, or
        read captions with another parser.
        """
        made = [make(member) for member in self.each]
        for member, other in zip(self.each[1:], made[1:], strict=True):
            if other.texts != made[0].texts or any(
                (made[0].caption[k] != other.caption[k]).any() for k in other.caption
            ):
                raise InputError(
                    f"run={self.names}: {self.each[0].name} and {member.name} are attacked by different captions "
                    "(their text.pools, text.contrast, text.parser or training captions differ); leave "
                    "measure.attacks and measure.contrast empty"
                )
        return tuple(made)

    def attacks(self, made: Sequence[Adversaries]) -> dict[str, UnencodedSet]:
        """Every adversary, by attack, to be encoded by each member when it is met; `made` as `attackers` gives them."""
        sets = [member.attacks(found) for member, found in zip(self.each, made, strict=True)]

        def together(attack: str) -> UnencodedSet:
            def encode(rows: np.ndarray) -> Encoded:
                return joined([one[attack].encode(rows) for one in sets])

            return replace(sets[0][attack], encode=encode)

        return {attack: together(attack) for attack in sets[0]}

    def unknown_words(self, texts: Iterable[str]) -> float:
        """Share of tokens, in percent, that a vocabulary does not hold; the mean over the members' vocabularies."""
        listed = list(texts)
        rates = [unknown_word_rate(listed, member.trained.vocabulary.ids.keys()) for member in self.each]
        return sum(rates) / len(rates)


def difference(one: Split, other: Split) -> str:
    """The first difference of two splits in words; empty where images, captions and their order are the same."""
    for what, first, second in (("image", one.images, other.images), ("caption", one.captions, other.captions)):
        if len(first) != len(second):
            return f"{len(first)} and {len(second)} {what}s"
        for number, (a, b) in enumerate(zip(first, second, strict=True), 1):
            if a != b:
                return f"{what} {number} is {_named(a)} and {_named(b)}"
    return ""


def _named(item: Any) -> str:
    text = getattr(item, "text", None)
    return f"{item.id!r} ({text if text is not None else item.uri})"
