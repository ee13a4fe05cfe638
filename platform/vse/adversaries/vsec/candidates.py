"""All candidates of the captions of an image, as slots, and the rules by which they are made, ours or published."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from vse.adversaries.attacks import CONTRAST_ATTACKS, identity
from vse.adversaries.vsec.grammar import NUMBER
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.reading import ImageMentions, Reading, Relatedness
from vse.adversaries.vsec.rules import ChangeRules
from vse.adversaries.vsec.slots import Phrases, Slot
from vse.adversaries.vsec.words import Contrast
from vse.adversaries.word_lists import SHARED
from vse.config import knob
from vse.text.lexicon.compact import Knowledge
from vse.text.parsed_caption import ParsedCaption

REVISION = 4  # part of fingerprints: raise it whenever the candidates of every attack change
PARADIGMS = tuple(CONTRAST_ATTACKS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules(ChangeRules):
    """How candidates are made. Defaults are ours. `PUBLISHED` follows the paper and its code, which takes words from
    200 occurrences although the paper says more than 200.

    Our word lists hold for both. Nouns of the plural only and of places are never put in, nouns without a picture are
    abstract, `a group of` is no numeral, and phrases linked by a comma count as linked, which keeps a symmetric pair
    from being swapped.

    A run takes the one or the other by name: `text.contrast=published`.
    """

    paradigms: tuple[str, ...] = knob(PARADIGMS, "which kinds of candidates are made", choices=PARADIGMS)


PUBLISHED = Rules(
    minimum=200,
    held_out=False,
    transitive=False,
    image_wide=False,
    agreement=False,
    plain_quantities=False,
    asymmetric=False,
    sensible_prepositions=False,
    leak=True,
)
NAMED = {"ours": Rules(), "published": PUBLISHED}


def contrast_identity(rules: Rules) -> list[Any]:
    """Plain data for fingerprints: revisions and word lists of the attacks that the rules ask for."""
    return identity((CONTRAST_ATTACKS[name] for name in rules.paradigms), SHARED, LISTS, NUMBER)


@dataclass(frozen=True, eq=False)
class Generator:
    """Finds the slots of captions, the places where `words` may be swapped in under `rules`."""

    words: Contrast
    knowledge: Knowledge
    rules: Rules

    @cached_property
    def related(self) -> Relatedness:
        """Which words are too close in meaning, cached for every noun."""
        return Relatedness([entry.word for entry in self.words.nouns], self.knowledge, self.rules)

    @cached_property
    def phrases(self) -> Phrases:
        """The lists that the slots point into."""
        return self.words.phrases

    def of_image(self, captions: Sequence[ParsedCaption]) -> list[list[Slot]]:
        """Slots of each caption, given all captions of one image; slots without an alternative are left out."""
        image = ImageMentions(captions, self.related, self.rules)
        return [list(self._of_caption(Reading(c, image, self.words, self.related, self.rules))) for c in captions]

    def _of_caption(self, reading: Reading) -> Iterator[Slot]:
        for paradigm in self.rules.paradigms:
            for slot in CONTRAST_ATTACKS[paradigm].slots(reading):
                changed = slot if slot.last > slot.first else replace(slot, allowed=slot.allowed & 1)
                if changed.allowed:
                    yield changed


def by_image(captions: Iterable[ParsedCaption]) -> Iterator[list[ParsedCaption]]:
    """Captions that come grouped by image, image by image."""
    return (list(group) for _, group in groupby(captions, key=lambda caption: caption.image))
