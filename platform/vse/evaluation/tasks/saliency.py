"""Saliency of pixels and words (VSE-C, section 4.2, Fig. 2), measured by boxes and by words that attacks change."""

import itertools
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vse.adversaries.attacks import ATTACKS
from vse.adversaries.vsec.evaluation_sets import set_paradigms
from vse.config import knob
from vse.data.keyed import permutation
from vse.data.records import Box, Caption, Records
from vse.errors import InputError
from vse.evaluation.box_phrases import category_nouns
from vse.evaluation.metrics import Metric, count_metric, mean_over_folds
from vse.evaluation.protocol import Fold
from vse.evaluation.relevance_maps import Grid, Rectangle
from vse.evaluation.saliency import Saliency, changed_words, mass_inside
from vse.evaluation.saliency_pictures import SaliencyBlock, SaliencyRow, draw_saliency
from vse.evaluation.task import ONE_RUN, Capability, Context, Runs, SaliencyQuery, Subject, Task
from vse.evaluation.tasks.attacks import UNIVSE
from vse.evaluation.tasks.contrast import VSEC
from vse.registry import ComponentConfig, register

log = logging.getLogger(__name__)

PIXELS = Capability(
    "a backbone whose pixels can be differentiated and images with captions and boxes",
    lambda subject: (
        any(each.image in subject.records.boxes for each in subject.records.captions) and subject.pictures()
    ),
)
SALIENT = Capability(
    f"word vectors, or {PIXELS.name}",
    lambda subject: (
        any(family.inputs.states or not family.inputs.sentence for family in subject.families) or PIXELS.of(subject)
    ),
)
BY_VECTORS = Capability(
    "a score that depends on words by their vectors alone, unlike UniVSE's with model.aggregation=gru",
    lambda subject: not any(family.reads_word_ids for family in subject.families),
)
_KINDS = {VSEC: "contrast", UNIVSE: "attacks"}
_PICTURES, _ATTACKS_SHOWN = 3, 3
_WORDS = {
    "changed": "on changed words",
    "uniform": "their share of words",
    "over_uniform": "above their share",
    "before": "share on the replaced words",
    "over_before": "above the replaced words",
}
_PIXELS = {
    "mass": "mass inside",
    "area": "of a constant map",
    "over_area": "above a constant map",
    "other": "for another caption",
    "over_other": "above another caption",
}
_COUNTED = {"changed": "queries", "over_before": "word_for_word", "mass": "queries"}  # metrics with their numbers
_BETTER = ("changed", "over_uniform", "over_before", "mass", "over_area", "over_other")


@register("task", "saliency")
class SaliencyTask(Task):
    """Jacobian of the score by pixels and words: its mass inside boxes, and its share on words that attacks change."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        attacks: tuple[str, ...] = knob(
            ("contrast", "attacks"),
            "adversaries of VSE-C (contrast), of UniVSE (attacks), or of both",
            choices=("contrast", "attacks"),
        )
        per_caption: int = knob(3, "adversaries of each caption and attack, the first of their file", low=1)
        images: int = knob(200, "images of a fold whose pixels are differentiated, selected by a key; 0: all", low=0)
        level: str = knob(
            "pixels",
            "level of the image: pixels, or regions of its features, which are only drawn and need no picture",
            choices=("pixels", "features"),
        )

    config: Config
    reads_boxes = True
    needs = (ONE_RUN, SALIENT, BY_VECTORS)
    parsed = True
    records_queries = True
    revision = 3  # 2: words before only where words are replaced one for one; 3: queries of all folds

    def missing(self, subject: Subject) -> str:
        """Also pixels, if no words are measured."""
        lacks = super().missing(subject)
        return lacks or ("" if self.config.attacks or PIXELS.of(subject) else PIXELS.name)

    def check(self, records: Records) -> None:
        if not self.config.attacks and self.config.level == "features":
            raise InputError(
                "measure.saliency.attacks=: name one or more of contrast, attacks; measure.saliency.level=features "
                "measures nothing else"
            )

    @property
    def adversaries(self) -> tuple[tuple[str, str], ...]:
        return tuple((kind, "shared") for kind, name in _KINDS.items() if name in self.config.attacks)

    def list_metrics(self) -> Iterator[Metric]:
        groups = [("pixels", "pixels", _PIXELS)]
        for kind in _KINDS:
            groups += [(_prefix(kind, name), f"words, {_title(kind, name)}", _WORDS) for name in _attacks(kind)]
        for name, group, headings in groups:
            for metric, heading in headings.items():
                yield Metric(
                    name=f"saliency_{name}/{metric}",
                    heading=heading,
                    group=group,
                    higher_is_better=True if metric in _BETTER else None,
                    main=metric in ("changed", "mass"),
                )
            numbers = {"queries": "captions"} | ({} if name == "pixels" else {"word_for_word": "word for word"})
            for metric, heading in numbers.items():
                yield count_metric(f"saliency_{name}/{metric}", heading, group)

    def measure(self, context: Context) -> dict[str, float]:
        """Of each attack the share of saliency on the words that it changes, next to the share of the words that stood
        there; if images have boxes, the mass of pixels inside the boxes of what a caption names."""
        folds = (self._fold(context, number, fold) for number, fold in enumerate(context.folds))
        return mean_over_folds(folds, self.metrics)

    def _fold(self, context: Context, number: int, fold: Fold) -> dict[str, float]:
        images = list(self._texts_of_images(context, fold))
        answers = context.runs.saliencies([each.query for each in images], self.config.level)
        ids = [context.split.images[row].id for row in fold.images]
        place = {id_: row for row, id_ in enumerate(ids)}
        sums, counts = (defaultdict[str, np.ndarray](lambda: np.zeros(len(ids))) for _ in range(2))
        for image, answer in zip(images, answers, strict=True):
            for name, values in image.values(answer):
                for metric, value in values.items():
                    sums[f"saliency_{name}/{metric}"][place[image.image]] += value
                    counts[f"saliency_{name}/{metric}"][place[image.image]] += 1
        values = dict[str, float]()
        for metric, hits in sums.items():
            context.record_values(metric, number, ids, hits, counts[metric])
            values[metric] = float(100 * hits.sum() / counts[metric].sum())
            group, _, last = metric.partition("/")
            if last in _COUNTED:
                values[f"{group}/{_COUNTED[last]}"] = float(counts[metric].sum())
        return values

    def _texts_of_images(self, context: Context, fold: Fold) -> Iterator["_ImageTexts"]:
        """The texts of each image of a fold that has captions, in the order of the images."""
        captions = [context.split.captions[row] for row in fold.captions]
        objects = dict[str, frozenset[str]]()
        texts = list(dict.fromkeys(caption.text for caption in captions))
        for text, (_, components) in zip(texts, context.runs.parsed(texts), strict=True):
            objects[text] = frozenset(each.word for each in components.objects)
        number = self.config.images or len(fold.images)
        drawn = set(permutation(0, 0, "pixels of saliency", len(fold.images))[:number].tolist())
        order = permutation(0, 0, "other captions of saliency", len(captions))
        attacks = self._attacks(context)
        for row, image_row in enumerate(fold.images):
            image = context.split.images[image_row].id
            boxes = context.runs.records.boxes.get(image, ()) if self.config.level == "pixels" else ()
            texts_of_image = _ImageTexts(image)
            for place in np.flatnonzero(fold.caption_to_image == row).tolist():
                caption = captions[place]
                own = texts_of_image.text(caption.text)
                for name, adversaries in attacks.items():
                    for text in adversaries.get(int(fold.captions[place]), ()):
                        texts_of_image.adversaries.append((name, own, texts_of_image.text(text)))
                named = boxes_of(caption, objects[caption.text], boxes) if row in drawn else []
                if not named:
                    continue
                others = (captions[k] for k in np.roll(order, -place))
                other = next((each for each in others if _foreign(each, caption, objects, boxes)), None)
                if other is not None:
                    texts_of_image.boxes.append((own, texts_of_image.text(other.text), named))
            if texts_of_image.query.texts:
                yield texts_of_image

    def _attacks(self, context: Context) -> dict[str, dict[int, list[str]]]:
        """By attack, the adversaries of each caption, by its position in the split."""
        result = dict[str, dict[int, list[str]]]()
        for kind, words in self.adversaries:
            for _, adversaries in context.adversaries(kind, (words,)):
                for name, texts in adversaries.texts.items():
                    of = result.setdefault(_prefix(kind, name), {})
                    for caption, text in zip(adversaries.sets[name].caption.tolist(), texts, strict=True):
                        if len(of.setdefault(caption, [])) < self.config.per_caption:
                            of[caption].append(text)
        return result

    def pictures(self, context: Context, values: Mapping[str, float]) -> dict[str, bytes]:
        """Some images, drawn by a key, with a caption and one adversary each of several attacks."""
        images = list(itertools.islice(self._pictured(context, context.folds[0]), _PICTURES))
        try:
            return {"saliency.png": self._drawn(context.runs, images)} if images else {}
        except InputError as error:  # a picture is missing or cannot be read
            log.warning("saliency: no picture: %s", error)
            return {}

    def _drawn(self, runs: Runs, images: Sequence["_ImageTexts"]) -> bytes:
        blocks, level = [], self.config.level
        for each, answer in zip(images, runs.saliencies([one.query for one in images], level), strict=True):
            picture = runs.image(each.image) if answer[0].level == "pixels" else None
            rows = [SaliencyRow("caption", [answer[0]])]
            for name, own, place in each.adversaries:
                _, changed = changed_words(answer[own].words, answer[place].words)
                rows.append(SaliencyRow(_titles()[name], [answer[place]], changed))
            blocks.append(SaliencyBlock(picture, f"image {each.image}", rows, each.shown))
            level = answer[0].level
        return draw_saliency(blocks, [runs.names], note_of(level))

    def _pictured(self, context: Context, fold: Fold) -> Iterator["_ImageTexts"]:
        captions, attacks = [context.split.captions[row] for row in fold.captions], self._attacks(context)
        for number, row in enumerate(permutation(0, 0, "pictures of saliency", len(fold.images)).tolist()):
            own = [
                ([name for name in attacks if int(fold.captions[place]) in attacks[name]], place)
                for place in np.flatnonzero(fold.caption_to_image == row).tolist()
            ]
            names, place = max(own, key=lambda each: len(each[0]), default=([], 0))
            if not names:
                continue
            texts = _ImageTexts(context.split.images[fold.images[row]].id)
            first, shown = texts.text(captions[place].text), set[int]()
            for name in [*names[number % len(names) :], *names[: number % len(names)]]:
                if len(shown) == _ATTACKS_SHOWN:
                    break
                text = texts.text(attacks[name][int(fold.captions[place])][0])
                if text not in shown:  # two attacks may give the same text
                    texts.adversaries.append((name, first, text))
                    shown.add(text)
            texts.everything, caption = True, captions[place]
            ((_, components),) = context.runs.parsed([caption.text])
            objects = frozenset(each.word for each in components.objects)
            texts.shown = boxes_of(caption, objects, context.runs.records.boxes.get(texts.image, ()))
            yield texts


class _ImageTexts:
    """The distinct texts whose saliency is computed on one image.

    Attributes:
        image: Its id.
        adversaries: (attack, place of the caption, place of the adversary) among the texts.
        boxes: (place of a caption, place of another image's caption, boxes of what the first names).
        everything: Whether the image is differentiated for every text, rather than for those with boxes.
        shown: Boxes to draw.
    """

    def __init__(self, image: str) -> None:
        self.image, self.everything = image, False
        self._texts: dict[str, int] = {}
        self.adversaries: list[tuple[str, int, int]] = []
        self.boxes: list[tuple[int, int, list[Rectangle]]] = []
        self.shown: list[Rectangle] = []

    def text(self, text: str) -> int:
        """The place of a text."""
        return self._texts.setdefault(text, len(self._texts))

    @property
    def query(self) -> SaliencyQuery:
        """All texts, with those for which the image is differentiated."""
        places = {place for own, other, _ in self.boxes for place in (own, other)}
        return SaliencyQuery(
            self.image, tuple(self._texts), tuple(range(len(self._texts)) if self.everything else sorted(places))
        )

    def values(self, answer: Sequence[Saliency]) -> Iterator[tuple[str, dict[str, float]]]:
        """(group, values by metric) of each adversary and of each caption with boxes."""
        for name, own, place in self.adversaries:
            caption, adversary = answer[own], answer[place]
            before, after = changed_words(caption.words, adversary.words)
            if caption.shares is None or adversary.shares is None or not after:
                continue
            changed, uniform = float(adversary.shares[after].sum()), len(after) / len(adversary.words)
            values = {"changed": changed, "uniform": uniform, "over_uniform": changed - uniform}
            if len(before) == len(after):
                earlier = float(caption.shares[before].sum())
                values |= {"before": earlier, "over_before": changed - earlier}
            yield name, values
        for own, other, boxes in self.boxes:
            one, control = answer[own], answer[other]
            if one.image is None or control.image is None or one.seen is None or one.level != "pixels":
                continue
            covered = Grid(*one.image.shape).coverage(boxes)
            mass, elsewhere = mass_inside(one.image, covered), mass_inside(control.image, covered)
            area = mass_inside(one.seen.astype(float), covered)
            over = {"over_area": mass - area, "over_other": mass - elsewhere}
            yield "pixels", {"mass": mass, "area": area, "other": elsewhere, **over}


def boxes_of(caption: Caption, objects: frozenset[str], boxes: Sequence[Box]) -> list[Rectangle]:
    """Boxes of the things that a caption names, by its phrases or by nouns of the box labels.

    Args:
        caption: The caption.
        objects: Nouns that it names.
        boxes: Of its image.
    """
    return [
        Rectangle(box.left, box.top, box.right, box.bottom)
        for box in boxes
        if (box.caption == caption.id if box.caption else objects & set(category_nouns(box.label)))
    ]


def _foreign(other: Caption, caption: Caption, objects: Mapping[str, frozenset[str]], boxes: Sequence[Box]) -> bool:
    """Whether a caption is of another image and names nothing that the caption names or that has a box here."""
    named = objects[other.text]
    return other.image != caption.image and not named & objects[caption.text] and not boxes_of(other, named, boxes)


def note_of(level: str) -> str:
    """The line below a figure of saliency."""
    what = {
        "pixels": "Heat maps: gradient to the pixels, through the backbone; divided by its maximum, smoothed a little.",
        "features": "Heat maps: gradient to the features of regions, not to pixels; divided by its maximum.",
    }[level]
    return (
        f"{what} Numbers: share of each word in the gradient to the caption's word vectors; unknown: not in the "
        "vocabulary. Underlined: changed words."
    )


def _attacks(kind: str) -> tuple[str, ...]:
    return tuple(set_paradigms()) if kind == VSEC else tuple(ATTACKS)


def _prefix(kind: str, attack: str) -> str:
    return f"contrast_{attack}" if kind == VSEC else attack


def _title(kind: str, attack: str) -> str:
    return f"VSE-C {attack} attack" if kind == VSEC else f"{attack} attack"


def _titles() -> dict[str, str]:
    return {_prefix(kind, name): _title(kind, name) for kind in _KINDS for name in _attacks(kind)}
