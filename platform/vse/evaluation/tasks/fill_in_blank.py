"""Fill in the blank: a probe predicts the vector of a left-out noun or preposition (VSE-C, 4.4, Table 7)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vse.config import knob
from vse.evaluation.metrics import Metric, by_image
from vse.evaluation.probes import blank_filling
from vse.evaluation.probes.blank_filling import BlankProbe, FillingSettings
from vse.evaluation.probes.blanks import KINDS, Blanks, blanks_of
from vse.evaluation.probes.frozen_vectors import scaled
from vse.evaluation.probes.probe_task import (
    TRAIN,
    ProbeConfig,
    ProbeTask,
    device_of,
    mean_share,
    numbers,
    parsed_by_image,
    picture_of,
    record,
    vectors_of_images,
)
from vse.evaluation.probes.word_lists_figure import RIGHT, WRONG, ShownImage, WordList, word_lists_figure
from vse.evaluation.task import Context
from vse.registry import register
from vse.text.tokens import tokenize
from vse.text.vocabulary import build_vocabulary

RECALLS = (1, 10, 100)  # the last is the released code's
HEADLINE = "all/r1"  # has intervals over seeds and images
NEAREST, SHOWN = 5, 3  # words and blanks of each kind in the picture
ASKED = {"noun": "nouns", "preposition": "prepositions", "all": "all"}


@register("task", "fill_in_blank")
class FillInBlankTask(ProbeTask):
    """Recall of a left-out noun or preposition over the vocabulary, from its caption and image (VSE-C)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ProbeConfig):
        form: str = knob("mlp", "form of the predictor; linear: the released code's", choices=blank_filling.FORMS)
        dim: int = knob(512, "units of each GRU (released code) and of the MLP's hidden layer (ours)", low=1)
        epochs: int = knob(10, "passes over the training captions (released code)", low=1)
        min_count: int = knob(4, "occurrences in the training captions that a word of the vocabulary needs", low=1)

    config: Config
    reads_training = True
    name = "fill_in_blank"
    revision = 2  # 2: an answer without a vector is wrong also where fewer than k words have one
    _shown: Sequence[ShownImage] = ()

    def list_metrics(self) -> Iterator[Metric]:
        plain = {"unit": "", "higher_is_better": None, "decimals": 0, "group": "fill in blank"}
        yield Metric(name="fill_in_blank/vocabulary", heading="vocabulary", **plain)
        for kind in KINDS:
            yield Metric(name=f"fill_in_blank/{kind}s", heading=f"{kind}s asked", **plain)
        for label in self.labels:
            for kind, title in ASKED.items():
                for k in RECALLS:
                    name = f"{kind}/r{k}"
                    yield from self.compared(
                        f"fill_in_blank/{label}/{name}",
                        f"{title} R@{k}",
                        self.group(label),
                        interval=name == HEADLINE,
                    )
            yield Metric(
                name=f"fill_in_blank/{label}/covered",
                heading="answers with a vector",
                group=self.group(label),
                higher_is_better=None,
            )

    def measure(self, context: Context) -> dict[str, float]:
        """Predict every blank of the split. A word without a vector is never right."""
        runs, device, train = context.runs, device_of(context), context.runs.records.split(TRAIN)
        words = build_vocabulary((caption.text for caption in train.captions), self.config.min_count).words
        training_blanks, blanks = (
            blanks_of([parse for captions in parsed_by_image(context, each) for parse, _ in captions], words)
            for each in (train, context.split)
        )
        values = {"fill_in_blank/vocabulary": float(len(words))}
        values |= {f"fill_in_blank/{kind}s": float((blanks.kind == k).sum()) for k, kind in enumerate(KINDS)}
        if not len(blanks):
            return values
        trained_on, images = vectors_of_images(context, train)
        tables, seeds = self.tables(context, words), self.config.seeds
        settings = FillingSettings(form=self.config.form, dim=self.config.dim, epochs=self.config.epochs)
        probes = {
            label: BlankProbe(
                images=trained_on,
                image=train.caption_to_image,
                tokens=training_blanks.tokens,
                caption=training_blanks.caption,
                position=training_blanks.position,
                words=scaled(table.vectors),
                settings=settings,
            )
            for label, table in tables.items()
        }
        results = iter(runs.probes([(probe, seed) for probe in probes.values() for seed in seeds]))
        by_caption, first = images[context.split.caption_to_image], dict[str, np.ndarray]()
        units, best = [image.id for image in context.split.images], dict[str, np.ndarray]()
        for label, probe in probes.items():
            each = [probe.ranks(next(results), blanks, by_caption, device, nearest=NEAREST) for _ in seeds]
            ranks, best[label] = [one for one, _ in each], each[0][1]
            hits = {k: np.stack([each.hits(k).numpy() for each in ranks]) for k in RECALLS}
            for name, by_unit, queries in _by_kind(hits, blanks, context):
                whole, compared = f"fill_in_blank/{label}/{name}", first.get(name)
                values |= numbers(whole, by_unit, queries, compared, interval=name == HEADLINE)
                record(context, whole, units, by_unit, queries, compared)
                first.setdefault(name, by_unit)
            values[f"fill_in_blank/{label}/covered"] = mean_share(tables[label].found[blanks.answer])
        self._shown = _rows(context, blanks, words, best)
        return values

    def pictures(self, context: Context, values: Mapping[str, float]) -> dict[str, bytes]:
        """Blanks with the nearest words by the probe of the first seed."""
        if not self._shown:
            return {}
        legend = (("the word that was left out", RIGHT), ("another word", WRONG))
        return {"blanks.png": word_lists_figure(self._shown, legend)}


def _rows(context: Context, blanks: Blanks, words: Sequence[str], best: Mapping[str, np.ndarray]) -> list[ShownImage]:
    """Nouns and prepositions in turn, evenly spaced over the split."""
    chosen = list[int]()
    for number in range(len(KINDS)):
        rows = np.flatnonzero(blanks.kind == number)
        chosen += rows[np.linspace(0, len(rows) - 1, SHOWN + 2).astype(int)[1:-1]].tolist() if len(rows) else []
    shown = list[ShownImage]()
    for row in sorted(dict.fromkeys(chosen)):
        caption = context.split.captions[blanks.caption[row]]
        tokens = tokenize(caption.text)
        left_out = tokens[blanks.position[row]]
        text = f"{caption.text[: left_out.start]}_____{caption.text[left_out.end :]}"
        colours = {int(blanks.answer[row]): RIGHT}
        lists = tuple(
            WordList(label, tuple((words[k], colours.get(k, WRONG)) for k in map(int, nearest[row])))
            for label, nearest in best.items()
        )
        heading = f"{text}  ({words[blanks.answer[row]]})"
        shown.append(ShownImage(picture_of(context, caption.image), heading, lists))
    return shown


def _by_kind(
    hits: dict[int, np.ndarray], blanks: Blanks, context: Context
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(name below a label, hits (seeds, images), blanks (images)) of each kind of word and each recall."""
    image, num_images = context.split.caption_to_image[blanks.caption], len(context.split.images)
    for number, kind in enumerate(ASKED):
        chosen = np.ones(len(blanks), dtype=bool) if kind == "all" else blanks.kind == number
        if chosen.any():
            for k, by_seed in hits.items():
                summed = [by_image(each[chosen], image[chosen], num_images) for each in by_seed]
                yield f"{kind}/r{k}", np.stack([each[:, 0] for each in summed]), summed[0][:, 1]
