"""Words that make poor contrastive captions, from `lists.toml`."""

from dataclasses import dataclass
from functools import cached_property

from vse.adversaries.word_lists import Words, read_lists


@dataclass(frozen=True, kw_only=True)
class ContrastLists:
    """Lists that the generators of contrastive captions read. The file says what they are."""

    ambient: Words
    mass: Words
    counted_too: Words
    places: Words
    plural_only: Words
    poor: Words
    visible: Words
    personal: Words
    enclosures: Words
    enclosed: Words
    singular_pronouns: Words
    plural_pronouns: Words
    uncounted: Words
    symmetric: Words
    slopes: Words
    waters: Words
    terrain: Words
    tethers: Words
    worn: Words
    ridden: Words
    colors: Words
    not_after: Words
    phrasal: Words
    particles: Words
    overhead: Words
    beside: Words
    devices: Words

    @cached_property
    def dress(self) -> Words:
        """Clothes and colours: "a man in orange"."""
        return self.worn | self.colors | {"orange"}


LISTS = read_lists(ContrastLists, __file__)
