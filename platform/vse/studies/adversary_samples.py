"""Samples of adversaries for people to judge, and verdicts on all adversaries if the source knows the truth.

A sample takes some images and a number of adversaries of each kind, spread over the images. Contact sheets show the
images, a listing the captions with their adversaries. Both stay in the workspace, because data sets may not be
redistributed. Verdicts contain neither image nor caption.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import PIL.Image
import PIL.ImageDraw
import PIL.ImageOps

from vse import registry
from vse.adversaries.attacks import ATTACKS
from vse.adversaries.pools import PoolConfig, build_pools
from vse.adversaries.univse.generate import Adversary, Truth, generate, unsure
from vse.adversaries.vsec.candidates import PARADIGMS, Generator, Rules, by_image
from vse.adversaries.vsec.evaluation_sets import evaluation_set
from vse.config import knob
from vse.data.images import open_image
from vse.data.records import Image, Records
from vse.data.source import source_of
from vse.errors import InputError
from vse.stages.contrast import contrast_words
from vse.stages.describe import describe, trainable
from vse.stages.parse import parse_dataset
from vse.studies.adversary_verdicts import Share, Verdict, item_hash, without_caption
from vse.text.corpus import Language
from vse.text.lexicon.compact import knowledge
from vse.text.parsed_caption import ParsedCaption
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

_COLUMNS = 3  # of a sheet
_CELL = 430  # pixels of an image with its number

KINDS = (*PARADIGMS, *(f"univse {attack}" for attack in ATTACKS))


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleOptions:
    """Keys of `jobs/judge_adversaries.py`."""

    splits: tuple[str, ...] = knob(("val", "test"), "splits whose images are shown; words come from the training split")
    sample: str = knob("first", "name of the draw; another name draws other images and adversaries")
    images: int = knob(50, "images on the sheets", low=1)
    number: int = knob(100, "adversaries of each kind", low=1)
    per_sheet: int = knob(6, "images on one sheet", low=1)
    verdicts: str = knob("", "file of verdicts to count instead of drawing", reads="file")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An adversary with its caption. `kind` is one of `KINDS`."""

    kind: str
    image: str
    caption: str
    adversary: Adversary

    @property
    def text(self) -> str:
        """The adversary as a sentence."""
        return self.adversary.text(self.caption)

    def verdict(self, sample: str) -> Verdict:
        """A blank verdict."""
        item = item_hash(self.image, self.caption)
        return Verdict(
            sample=sample, paradigm=self.kind, item=item, edits=without_caption(self.adversary.edits, self.caption)
        )


def generated(
    records: Records, language: Language, split: str, seed: int, is_true: Truth | None = None
) -> Iterator[Candidate]:
    """Every adversary of a split: VSE-C's evaluation set, then UniVSE's attacks with all words.

    Args:
        records: The data set.
        language: Parses of its captions.
        split: The split; words come from the training split.
        seed: Seed of the evaluation set and the attacks.
        is_true: Drops adversaries that are true of their image; None keeps all.
    """
    captions = [
        ParsedCaption(
            id=c.id, image=c.image, text=c.text, parse=language.parse(c.text), components=language.components(c.text)
        )
        for c in records.split(split).captions
    ]
    rules = Rules()
    words = contrast_words(records, language, rules).of("all")
    generator = Generator(words, knowledge(rules.lexicon, rules.concreteness, rules.concrete_share), rules)
    training = ((language.parse(c.text), language.components(c.text)) for c in records.split("train").captions)
    pools = build_pools(training, PoolConfig(held_out=False))
    contrast = evaluation_set(by_image(captions), generator, seed=seed, split=split, is_true=is_true)
    univse = generate(captions, pools, seed=seed, split=split, is_true=is_true)
    kinds = chain(
        ((adversary.attack, adversary) for adversary in contrast if adversary.attack in PARADIGMS),
        ((f"univse {adversary.attack}", adversary) for adversary in univse),
    )
    by_id = {c.id: c for c in captions}
    for kind, adversary in kinds:
        caption = by_id[adversary.caption_id]
        yield Candidate(kind, caption.image, caption.text, adversary)


def drawn(config: RunConfig, workspace: Workspace, options: SampleOptions) -> tuple[list[Image], list[Candidate]]:
    """Draw the images and adversaries of a sample; data are described and captions parsed if they are not yet.

    Args:
        config: The data set, the parser and the rules of adversaries.
        workspace: Where stages keep their results.
        options: Which splits, how many images and adversaries, and the name of the draw.

    Returns:
        Images in the order of the sheets, and up to `options.number` adversaries of each kind, all of these images.

    Raises:
        InputError: The splits have no images.
    """
    records = describe(config, workspace)
    every = [image for name in options.splits for image in records.split(name).images]
    language = parse_dataset(config, workspace, records)
    images = sorted(every, key=lambda image: _key(options.sample, image.id))[: options.images]
    if not images:
        raise InputError("images: no image is left to draw from")
    wanted = {image.id for image in images}
    seed = int.from_bytes(_key(options.sample)[:4], "big")
    candidates = [s for name in options.splits for s in generated(records, language, name, seed) if s.image in wanted]
    return images, [s for kind in KINDS for s in _spread([s for s in candidates if s.kind == kind], options)]


def _spread(candidates: Sequence[Candidate], options: SampleOptions) -> list[Candidate]:
    """Up to `number` of them: one per image in turn, and for each image from its captions in turn."""
    turns: dict[str, list[Candidate]] = defaultdict(list)
    for shown in sorted(candidates, key=lambda s: _key(options.sample, s.kind, s.caption, s.text)):
        turns[shown.image].append(shown)
    rounds: list[tuple[int, bytes, Candidate]] = []
    for image, here in turns.items():
        order = sorted(range(len(here)), key=lambda k: (sum(s.caption == here[k].caption for s in here[:k]), k))
        rounds += [(turn, _key(options.sample, image), here[k]) for turn, k in enumerate(order)]
    return [shown for _, _, shown in sorted(rounds, key=lambda r: r[:2])[: options.number]]


def _key(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()


def listing(images: Sequence[Image], shown: Sequence[Candidate]) -> str:
    """Captions with their adversaries, in the order of the sheets and numbered in the order of the verdicts."""
    lines = []
    for number, image in enumerate(images):
        here = [(k, s) for k, s in enumerate(shown) if s.image == image.id]
        lines.append(f"image {number} ({image.id})")
        for caption in dict.fromkeys(s.caption for _, s in here):
            lines.append(f"  {caption}")
            lines += [f"    {k:4} {s.kind:<16} {s.text}" for k, s in here if s.caption == caption]
    return "\n".join(lines) + "\n"


def sheets(config: RunConfig, images: Sequence[Image], per_sheet: int) -> Iterator[PIL.Image.Image]:
    """The contact sheets: images in a grid, each under its position in `images`, by which the listing names it.

    Args:
        config: Its data source knows where the image files are.
        images: In the order of `drawn`.
        per_sheet: Images on one sheet; the last sheet may have fewer.
    """
    root = registry.build("source", config.data).image_root
    for first in range(0, len(images), per_sheet):
        here = images[first : first + per_sheet]
        sheet = PIL.Image.new("RGB", (_COLUMNS * _CELL, -(-len(here) // _COLUMNS) * _CELL), "white")
        for k, image in enumerate(here):
            place = (k % _COLUMNS * _CELL, k // _COLUMNS * _CELL)
            photo = PIL.ImageOps.contain(open_image(image.uri, root).convert("RGB"), (_CELL - 10, _CELL - 30))
            sheet.paste(photo, (place[0], place[1] + 20))
            PIL.ImageDraw.Draw(sheet).text((place[0] + 4, place[1] + 4), f"image {first + k}", fill="black")
        yield sheet


@dataclass(frozen=True, slots=True)
class Truths:
    """Shares of the adversaries of a kind that are false, true, or not understood by a source that knows the truth."""

    kind: str
    false: Share
    true: Share
    unread: Share


def judged_by_source(config: RunConfig, workspace: Workspace, options: SampleOptions) -> list[Truths] | None:
    """Judge all adversaries of the splits by a data source that knows what is true, as generated scenes do.

    Args:
        config: The data set, the parser and the rules of adversaries.
        workspace: Where stages keep their results.
        options: Its splits are judged. It draws no sample here, so its other keys do not matter.

    Returns:
        A row for every kind; None if the source does not know which captions are true.
    """
    source = source_of(config.data)
    if not source.knows_truth:
        return None
    records = trainable(describe(config, workspace), options.splits)
    language, is_true = parse_dataset(config, workspace, records), source.truth(records)
    verdicts: dict[str, list[bool | None]] = {kind: [] for kind in KINDS}
    for name in options.splits:
        for shown in generated(records, language, name, seed=0, is_true=unsure):
            verdicts[shown.kind].append(is_true(shown.image, shown.text))
    return [
        Truths(kind, *(Share(sum(v is mark for v in each), len(each)) for mark in (False, True, None)))
        for kind, each in verdicts.items()
    ]
