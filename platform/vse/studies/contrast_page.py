"""A page for readers: captions, and some contrastive captions of each paradigm with their reasons."""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vse.adversaries.attacks import contrast_classes
from vse.adversaries.caption_pairs import read_pairs
from vse.adversaries.univse.editor import apply_edits
from vse.adversaries.vsec.candidates import PARADIGMS, Generator, Rules
from vse.adversaries.vsec.slots import Slot, change_of
from vse.adversaries.vsec.words import ContrastWords
from vse.errors import InputError
from vse.stages.parse import parse_texts
from vse.storage.user_files import file_name
from vse.text.components import extract
from vse.text.lexicon.compact import knowledge
from vse.text.parse import Parse
from vse.text.parsed_caption import ParsedCaption
from vse.text.parser import Parser
from vse.text.word_vector_training import read_captions


@dataclass(frozen=True)
class Page:
    """The page, and numbers of all captions: candidates a caption by paradigm and class, captions a second."""

    text: str
    headline: dict[str, float]


def read_images(path: str) -> list[tuple[str, ...]]:
    """Captions of each image: SugarCrepe's JSON by file name, other files as captions of an image each."""
    if file_name(path).suffix.lower() != ".json":
        return [(caption,) for caption in read_captions(path)]
    images: dict[str, dict[str, None]] = {}
    for pair in read_pairs(path):
        images.setdefault(pair.filename, {})[pair.caption] = None
    return [tuple(captions) for captions in images.values()]


def page_of(
    images: Sequence[tuple[str, ...]],
    rules: Rules,
    parser: Parser.Config,
    words: str,
    number: int,
    samples: int,
    seed: int,
) -> Page:
    """A page with contrastive captions of every paradigm, made from captions of some files.

    Words and frequencies come from all captions, of which some are shown.

    Args:
        images: The captions of each image; they are known to be true of the same picture.
        rules: How candidates are made.
        parser: The pipeline that parses the captions.
        words: Kind of the words to put in: `shared`, `disjoint` or `all`.
        number: Captions on the page, drawn at random; all if there are fewer.
        samples: Candidates that are shown of each paradigm and caption.
        seed: Seed of both choices.

    Returns:
        The page, with numbers over all captions.

    Raises:
        InputError: There are no captions, or none of their nouns is frequent enough.
    """
    texts = [caption for captions in images for caption in captions]
    parses = iter(parse_texts(texts, parser))
    groups = [[_parsed(text, str(k), next(parses)) for text in captions] for k, captions in enumerate(images)]
    every = [caption for group in groups for caption in group]
    if not every:
        raise InputError("captions: the files contain no captions")
    lexicon = knowledge(rules.lexicon, rules.concreteness, rules.concrete_share)
    vocabulary = ContrastWords(((c.parse, c.components) for c in every), rules, lexicon)
    generator = Generator(vocabulary.of(words), lexicon, rules)
    started = time.process_time()
    slots = [each for group in groups for each in generator.of_image(group)]
    headline = {"captions": float(len(every)), "captions_per_cpu_second": len(every) / (time.process_time() - started)}
    rng = random.Random(seed)
    lines = []
    for row in rng.sample(range(len(every)), min(number, len(every))):
        lines += _lines(every[row], slots[row], generator, samples, rng)
    return Page("\n".join(lines) + "\n", headline | _numbers(slots))


def _parsed(text: str, image: str, parse: Parse) -> ParsedCaption:
    return ParsedCaption(id=text, image=image, text=text, parse=parse, components=extract(parse))


def _lines(
    caption: ParsedCaption, slots: Sequence[Slot], generator: Generator, samples: int, rng: random.Random
) -> Iterator[str]:
    yield f"# {caption.text.strip()}"
    for paradigm in generator.rules.paradigms:
        choices = [(slot, k) for slot in slots if slot.paradigm == paradigm for k in slot.choices()]
        for slot, k in rng.sample(choices, min(samples, len(choices))):
            change = change_of(slot, k, generator.phrases, caption.text, caption.parse)
            yield f"  {paradigm:11} {apply_edits(caption.text, change.edits).strip()}"
            yield f"              {change.reason}"
    yield ""


def _numbers(slots: Sequence[Sequence[Slot]]) -> dict[str, float]:
    """Candidates a caption, and the share of captions that have one, by paradigm and class."""
    names = {**{paradigm: (paradigm,) for paradigm in PARADIGMS}, "relation": contrast_classes()["relation"]}
    counts = {
        name: [sum(len(s) for s in each if s.paradigm in kinds) for each in slots] for name, kinds in names.items()
    }
    per_caption = {f"{name}_per_caption": sum(each) / len(each) for name, each in counts.items()}
    return per_caption | {f"{name}_share": sum(map(bool, each)) / len(each) for name, each in counts.items()}
