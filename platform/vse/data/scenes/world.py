"""Nouns, attributes and relations of scenes, the co-occurrences of the biased splits, and the words of both wordings.

The order of every table is part of the data set: `REVISION` counts changes that alter a picture or a caption.
"""

from dataclasses import dataclass, field, replace
from itertools import combinations

REVISION = 1

SPLITS = ("train", "val", "test", "shifted", "pretrain")

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 40, 40),
    "orange": (245, 130, 32),
    "yellow": (250, 215, 50),
    "green": (44, 150, 66),
    "blue": (38, 84, 200),
    "purple": (132, 50, 168),
    "pink": (250, 140, 190),
    "brown": (128, 78, 38),
    "white": (250, 250, 250),
    "gray": (140, 140, 146),
    "black": (34, 34, 38),
}
SIZES = ("small", "medium", "large")
PATTERNS = ("plain", "striped", "spotted", "checkered")
# Seventeen attributes; a medium thing is not called anything.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "colour": tuple(COLOURS),
    "size": ("small", "large"),
    "pattern": PATTERNS,
}

# Relations that a pair of things is drawn in, and relations that follow from positions alone.
CONTACTS = ("on", "in", "under", "behind", "front", "next")
POSITIONS = ("left", "right", "above", "below")
RELATIONS = CONTACTS + POSITIONS


@dataclass(frozen=True, slots=True)
class Noun:
    """One kind of thing: width and height of its drawing per unit of size, and what others can be to it.

    `top` is where a thing on it rests and `rim` where the opening of a container is, in shares of its height;
    `shelter` says that something can be drawn under it; `high` that the biased splits put it in the upper half.
    """

    name: str
    theme: str
    colours: tuple[str, str, str]
    width: float = 1.0
    height: float = 1.0
    plural: str = ""
    top: float | None = None
    rim: float | None = None
    shelter: bool = False
    high: bool = False
    index: int = field(default=0, compare=False)

    @property
    def plural_form(self) -> str:
        return self.plural or f"{self.name}s"

    @property
    def usual_patterns(self) -> tuple[str, ...]:
        """The two patterns of the biased splits; over the six nouns of a theme every pattern is usual for three."""
        return tuple(combinations(PATTERNS, 2))[self.index % 6]

    @property
    def usual_contacts(self) -> tuple[str, ...]:
        """The two contacts in which the biased splits show this noun as the subject."""
        place, theme = self.index % 6, self.index // 6
        return CONTACTS[place], CONTACTS[(place + 1 + theme % 5) % 6]


_TABLE = (
    Noun("table", "kitchen", ("brown", "white", "gray"), 1.0, 0.85, top=0.0, shelter=True),
    Noun("cup", "kitchen", ("white", "red", "blue"), 1.0, 0.95, rim=0.06),
    Noun("bowl", "kitchen", ("blue", "white", "green"), 1.1, 0.65, rim=0.08),
    Noun("bottle", "kitchen", ("green", "brown", "blue"), 0.55, 1.15),
    Noun("cake", "kitchen", ("pink", "brown", "yellow"), 1.05, 0.85, top=0.2),
    Noun("apple", "kitchen", ("red", "green", "yellow"), 0.95, 1.0),
    Noun("chair", "room", ("brown", "black", "red"), 0.8, 1.15, top=0.56),
    Noun("lamp", "room", ("yellow", "orange", "white"), 0.85, 1.1, high=True),
    Noun("book", "room", ("blue", "red", "brown"), 0.85, 1.0, top=0.0),
    Noun("clock", "room", ("gray", "black", "orange"), 1.0, 1.05, high=True),
    Noun("vase", "room", ("purple", "white", "blue"), 0.8, 1.1, rim=0.04),
    Noun("candle", "room", ("white", "purple", "red"), 0.7, 1.15),
    Noun("car", "street", ("red", "blue", "black"), 1.25, 0.75, top=0.04),
    Noun("truck", "street", ("orange", "gray", "green"), 1.3, 0.85, top=0.04),
    Noun("house", "street", ("white", "yellow", "brown"), 1.0, 1.0),
    Noun("tree", "street", ("green", "orange", "brown"), 0.95, 1.2, shelter=True),
    Noun("sign", "street", ("yellow", "red", "gray"), 0.8, 1.15, high=True),
    Noun("flag", "street", ("blue", "green", "pink"), 0.95, 1.1, high=True),
    Noun("bucket", "yard", ("gray", "blue", "orange"), 0.9, 1.0, rim=0.3),
    Noun("flower", "yard", ("pink", "yellow", "purple"), 0.85, 1.15),
    Noun("mushroom", "yard", ("brown", "red", "white"), 1.0, 0.95),
    Noun("cat", "yard", ("black", "gray", "orange"), 0.95, 1.1),
    Noun("rabbit", "yard", ("white", "brown", "gray"), 0.75, 1.2),
    Noun("bird", "yard", ("blue", "black", "yellow"), 1.15, 0.95, high=True),
    Noun("boat", "sea", ("white", "red", "brown"), 1.1, 1.1),
    Noun("fish", "sea", ("orange", "blue", "gray"), 1.25, 0.75, plural="fish"),
    Noun("umbrella", "sea", ("purple", "red", "black"), 1.15, 1.1, shelter=True, high=True),
    Noun("hat", "sea", ("black", "pink", "yellow"), 1.2, 0.75),
    Noun("kite", "sea", ("green", "orange", "purple"), 0.85, 1.2, high=True),
    Noun("ball", "sea", ("red", "yellow", "blue"), 1.0, 1.0),
    Noun("box", "play", ("brown", "green", "white"), 1.1, 0.95, plural="boxes", rim=0.3),
    Noun("drum", "play", ("red", "purple", "yellow"), 1.05, 0.85, top=0.06),
    Noun("guitar", "play", ("brown", "orange", "black"), 0.65, 1.25),
    Noun("balloon", "play", ("pink", "purple", "green"), 0.75, 1.2, high=True),
    Noun("rocket", "play", ("white", "gray", "pink"), 0.75, 1.25, high=True),
    Noun("robot", "play", ("gray", "green", "black"), 0.85, 1.15),
)
NOUNS: dict[str, Noun] = {noun.name: replace(noun, index=k) for k, noun in enumerate(_TABLE)}
THEMES: dict[str, tuple[str, ...]] = {
    theme: tuple(n.name for n in _TABLE if n.theme == theme) for theme in dict.fromkeys(n.theme for n in _TABLE)
}
HOSTS: dict[str, tuple[str, ...]] = {
    "on": tuple(n.name for n in _TABLE if n.top is not None),
    "in": tuple(n.name for n in _TABLE if n.rim is not None),
    "under": tuple(n.name for n in _TABLE if n.shelter),
}


WORDINGS = ("plain", "second")

# Words for a name, by wording; other names are their own word.
ATTRIBUTE_WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    "plain": {"small": ("small", "small", "little"), "large": ("large", "big", "big")},
    "second": {
        "small": ("tiny", "little"),
        "large": ("huge", "large"),
        "gray": ("grey",),
        "purple": ("violet",),
        "spotted": ("dotted",),
        "checkered": ("checked",),
        "striped": ("stripy",),
        "plain": ("solid",),
    },
}
NOUN_WORDS: dict[str, dict[str, tuple[str, str]]] = {  # singular and plural
    "plain": {},
    "second": {
        "cup": ("mug", "mugs"),
        "car": ("automobile", "automobiles"),
        "boat": ("ship", "ships"),
        "rabbit": ("bunny", "bunnies"),
        "house": ("cottage", "cottages"),
        "bucket": ("pail", "pails"),
        "hat": ("cap", "caps"),
        "flower": ("blossom", "blossoms"),
        "box": ("carton", "cartons"),
        "truck": ("lorry", "lorries"),
        "bottle": ("flask", "flasks"),
    },
}
RELATION_PHRASES: dict[str, dict[str, tuple[str, ...]]] = {
    "plain": {
        "on": ("on", "on", "on top of"),
        "in": ("in", "in", "inside"),
        "under": ("under", "under", "underneath"),
        "behind": ("behind",),
        "front": ("in front of",),
        "next": ("next to", "next to", "beside"),
        "left": ("to the left of", "to the left of", "on the left of"),
        "right": ("to the right of", "to the right of", "on the right of"),
        "above": ("above", "above", "over"),
        "below": ("below",),
    },
    "second": {
        "on": ("upon", "atop"),
        "in": ("inside", "within"),
        "under": ("underneath", "right under"),
        "behind": ("behind", "in back of"),
        "front": ("in front of",),
        "next": ("near", "close to", "alongside"),
        "left": ("left of", "on the left side of"),
        "right": ("right of", "on the right side of"),
        "above": ("over", "higher than"),
        "below": ("beneath", "lower than"),
    },
}
# Postures: (third person, plural, participle). They add nothing to the meaning of their relation. "Stands" occurs
# as "is standing" only, because parsers read "a robot stands" as a noun of two words.
POSTURES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "on": (("sits", "sit", "sitting"), ("rests", "rest", "resting"), ("stands", "stand", "standing")),
    "in": (("sits", "sit", "sitting"), ("lies", "lie", "lying")),
    "under": (("lies", "lie", "lying"), ("sits", "sit", "sitting")),
    "behind": (("stands", "stand", "standing"),),
    "front": (("stands", "stand", "standing"), ("sits", "sit", "sitting")),
    "next": (("stands", "stand", "standing"), ("sits", "sit", "sitting")),
    "left": (("stands", "stand", "standing"),),
    "right": (("stands", "stand", "standing"),),
    "above": (("hangs", "hang", "hanging"), ("floats", "float", "floating")),
    "below": (("sits", "sit", "sitting"),),
}
NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}

# From words to meaning. Both wordings, and neighbours of both that a replacement may bring in.
NOUN_OF: dict[str, str] = {}
for _noun in NOUNS.values():
    NOUN_OF[_noun.name] = NOUN_OF[_noun.plural_form] = _noun.name
for _name, _forms in NOUN_WORDS["second"].items():
    NOUN_OF.update(dict.fromkeys(_forms, _name))

ATTRIBUTE_OF: dict[str, str] = {name: name for kind in ATTRIBUTES.values() for name in kind}
for _wording in WORDINGS:
    for _name, _words in ATTRIBUTE_WORDS[_wording].items():
        ATTRIBUTE_OF.update(dict.fromkeys(_words, _name))

RELATION_OF: dict[tuple[str, ...], str] = {}
for _wording in WORDINGS:
    for _name, _phrases in RELATION_PHRASES[_wording].items():
        RELATION_OF.update({tuple(phrase.split()): _name for phrase in _phrases})
# Single words stand for their phrase if a replacement has cut it ("is next a box").
RELATION_OF |= {
    (word,): name
    for name, words in {
        "on": ("top",), "behind": ("back",), "front": ("front",), "next": ("next", "close", "by"), "left": ("left",),
        "right": ("right",), "above": ("higher",), "below": ("lower",),
    }.items()
    for word in words
}  # fmt: skip
VERBS = frozenset(form for options in POSTURES.values() for forms in options for form in forms)
NUMBER_OF = {word: number for number, word in NUMBERS.items()} | {"a": 1, "an": 1, "the": 1}

# Openings that add nothing to the meaning; longer ones come before their own beginnings.
PRESENTATIONS: dict[str, tuple[str, ...]] = {"plain": ("there is",), "second": ("we see", "you can see", "here is")}
LEAD_INS: tuple[tuple[str, ...], ...] = (
    ("there", "is"),
    ("there", "are"),
    ("we", "see"),
    ("you", "can", "see"),
    ("here", "is"),
    ("here", "are"),
)
