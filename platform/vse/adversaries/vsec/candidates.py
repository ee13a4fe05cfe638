"""All candidates of the captions of an image, as slots."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from vse.adversaries.vsec.mentions import ImageMentions, Relatedness
from vse.adversaries.vsec.nouns import noun_slots
from vse.adversaries.vsec.numerals import numeral_slots
from vse.adversaries.vsec.prepositions import preposition_slots
from vse.adversaries.vsec.reading import Reading
from vse.adversaries.vsec.rules import Rules
from vse.adversaries.vsec.shuffle import shuffle_slots
from vse.adversaries.vsec.slots import Phrases, Slot
from vse.adversaries.vsec.words import Contrast
from vse.text.lexicon.compact import Knowledge
from vse.text.parsed_caption import ParsedCaption

MAKERS: dict[str, Callable[[Reading], Iterator[Slot]]] = {
    "noun": noun_slots,
    "numeral": numeral_slots,
    "shuffle": shuffle_slots,
    "preposition": preposition_slots,
}


@dataclass(frozen=True, eq=False)
class Generator:
    """Makes the slots of captions from some words under some rules."""

    words: Contrast
    knowledge: Knowledge
    rules: Rules

    @cached_property
    def related(self) -> Relatedness:
        """Which words mean too nearly the same, remembered for every noun met."""
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
            for slot in MAKERS[paradigm](reading):
                changed = slot if slot.last > slot.first else replace(slot, allowed=slot.allowed & 1)
                if changed.allowed:
                    yield changed


def by_image(captions: Iterable[ParsedCaption]) -> Iterator[list[ParsedCaption]]:
    """Captions that come grouped by image, image by image."""
    group: list[ParsedCaption] = []
    for caption in captions:
        if group and caption.image != group[0].image:
            yield group
            group = []
        group.append(caption)
    if group:
        yield group
