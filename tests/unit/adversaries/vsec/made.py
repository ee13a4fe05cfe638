"""A small corpus of captions, parsed by the shipped parser, and generators over it."""

from functools import cache

from vse.adversaries.univse.editor import apply_edits
from vse.adversaries.vsec.candidates import Generator, Rules
from vse.adversaries.vsec.slots import change_of
from vse.adversaries.vsec.words import ContrastWords
from vse.data.records import Caption, Image, Records
from vse.text.components import extract
from vse.text.lexicon.compact import knowledge
from vse.text.parsed_caption import ParsedCaption
from vse.text.parser import Parser, shared_parser

_LISTED = "dog cat horse bus bench umbrella banana truck bowl kite sofa laptop clock elephant"
NOUNS = _LISTED.split()
PLACES = ("on", "in", "under", "behind", "above", "inside", "with", "without", "near", "below", "over", "at")
TEXTS = (
    *(f"A man holds a {noun} {place} a table." for noun in NOUNS for place in PLACES),
    # five times each: rarer forms are not learned
    *5 * tuple(f"Two {noun}s are near the truck." for noun in NOUNS if noun != "bus" and noun != "bench"),
    *(f"The {noun} is in front of some water." for noun in NOUNS),
    *5 * ("three buses", "four benches on a street", "five men", "seven dogs", "nine kites"),
    "some grass and snow in a field",
)  # fmt: skip


@cache
def parsed(text, id="0", image="0"):
    """A caption read by the shipped parser."""
    parse = shared_parser(Parser.Config()).parse(text)
    return ParsedCaption(id=id, image=image, text=text, parse=parse, components=extract(parse))


@cache
def contrast_words(rules):
    """Words of the corpus."""
    captions = (parsed(text) for text in TEXTS)
    return ContrastWords(((c.parse, c.components) for c in captions), rules, knowledge())


@cache
def generator(kind="all", rules=None):
    """A generator over the corpus, by default with our rules and all words."""
    rules = rules or Rules(minimum=5)
    return Generator(contrast_words(rules).of(kind), knowledge(), rules)


def slots(text, *others, rules=None, kind="all"):
    """Slots of a caption whose image has other captions too."""
    captions = [parsed(each, id=str(k)) for k, each in enumerate((text, *others))]
    return generator(kind, rules).of_image(captions)[0]


def text_of(slot, choice, phrases, text, tokens):
    """The adversarial caption of one alternative."""
    return apply_edits(text, change_of(slot, choice, phrases, text, tokens).edits)


def records(texts, captions_per_image=2):
    """Records over texts: an image for every so many captions; the first half of the images is for training."""
    num = -(-len(texts) // captions_per_image)
    images = tuple(Image(f"i{k}", f"{k}.png", "train" if 2 * k < num else "test") for k in range(num))
    rows = tuple(Caption(f"c{k}", f"i{k // captions_per_image}", text) for k, text in enumerate(texts))
    return Records("made", images, rows)


class Parses:
    """Parses of any text, as a corpus gives them."""

    fingerprint = "parses00"

    def parse(self, text):
        return parsed(text).parse

    def components(self, text):
        return parsed(text).components
