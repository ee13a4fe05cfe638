"""The words of both wordings: how a meaning is said, and what a word means."""

from vse.data.scenes.world import ATTRIBUTES, NOUNS

WORDINGS = ("plain", "second")

# Ways to say a word, by wording; what is not listed is said by its own name.
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
# Postures: (third person, plural, participle). They say nothing more than the relation that they go with. "Stands" is
# said as "is standing" only: parsers take "a robot stands" for a noun of two words.
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
# Single words stand for their phrase where a replacement has cut it ("is next a box").
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

# Openings that add nothing to what is said; longer ones before their own beginnings.
PRESENTATIONS: dict[str, tuple[str, ...]] = {"plain": ("there is",), "second": ("we see", "you can see", "here is")}
LEAD_INS: tuple[tuple[str, ...], ...] = (
    ("there", "is"),
    ("there", "are"),
    ("we", "see"),
    ("you", "can", "see"),
    ("here", "is"),
    ("here", "are"),
)
