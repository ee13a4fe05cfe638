"""Image-to-word retrieval: a probe ranks the objects of an image above words that name none (VSE-C, 4.3, Table 6)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse.adversaries.vsec.rules import FREQUENT
from vse.config import knob
from vse.evaluation.average_precision import average_precision
from vse.evaluation.metrics import Metric
from vse.evaluation.probes import alignment
from vse.evaluation.probes.alignment import AlignmentProbe, AlignmentSettings
from vse.evaluation.probes.frozen_vectors import scaled
from vse.evaluation.probes.image_objects import ImageObjects, frequent_objects, image_objects, related_words
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
from vse.evaluation.probes.word_lists_figure import NEITHER, RIGHT, WRONG, ShownImage, WordList, word_lists_figure
from vse.evaluation.task import Context
from vse.registry import register
from vse.text.components import Components
from vse.text.lexicon.compact import SHIPPED, knowledge
from vse.text.parse import Parse

SHOWN_IMAGES, SHOWN_WORDS = 5, 8  # in the picture


@register("task", "image_to_word")
class ImageToWordTask(ProbeTask):
    """Mean average precision of an image's objects among words, by an MLP over word and image vectors (VSE-C)."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ProbeConfig):
        form: str = knob(
            "mlp", "probe of the interaction matrix; linear: the released code's, with dropout", choices=alignment.FORMS
        )
        hidden: int = knob(64, "units of the MLP's hidden layer (ours)", low=1)
        epochs: int = knob(15, "passes over the training images (released code)", low=1)
        frequent: float = knob(FREQUENT, "share of all captions in which an object must occur", low=0, high=1)
        concrete: bool = knob(True, "objects are concrete nouns only (VSE-C, section 3.2)")

    config: Config
    reads_training = True
    name = "image_to_word"
    revision = 4  # 3: objects occur in training captions too, in their commonest form there; 4: narrower runs of ties
    _shown: Sequence[ShownImage] = ()

    def list_metrics(self) -> Iterator[Metric]:
        plain = {"unit": "", "higher_is_better": None, "decimals": 0, "group": "image to word"}
        yield Metric(name="image_to_word/images", heading="images", **plain)
        yield Metric(name="image_to_word/objects", heading="objects", **plain)
        yield Metric(name="image_to_word/chance", heading="MAP of chance", group="image to word", decimals=2)
        for label in self.labels:
            yield from self.compared(f"image_to_word/{label}/map", "MAP", self.group(label))
            yield Metric(
                name=f"image_to_word/{label}/covered",
                heading="with a vector",
                group=self.group(label),
                higher_is_better=None,
            )

    def measure(self, context: Context) -> dict[str, float]:
        """A random order has the expectation `chance`; `covered` is the share of objects that have a vector."""
        device, train = device_of(context), context.runs.records.split(TRAIN)
        training_objects, objects, forms = self._objects(context)
        queries = objects.queries
        values = {"image_to_word/images": float(queries.sum()), "image_to_word/objects": float(len(objects.words))}
        if not queries.any():
            return values
        positive, labelled = (torch.from_numpy(each[queries]) for each in (objects.positive, objects.labelled))
        equal = (torch.zeros(each.shape) for each in positive.split(alignment.BLOCK))
        values["image_to_word/chance"] = 100 * ranked(equal, labelled, positive)[0].mean().item()
        trained_on, images = vectors_of_images(context, train)
        tables = self.tables(context, forms)
        settings = AlignmentSettings(form=self.config.form, hidden=self.config.hidden, epochs=self.config.epochs)
        probes = {
            label: AlignmentProbe(
                trained_on, scaled(table.vectors), training_objects.positive, training_objects.negative, settings
            )
            for label, table in tables.items()
        }
        seeds = self.config.seeds
        results = iter(context.runs.probes([(probe, seed) for probe in probes.values() for seed in seeds]))
        first, best = None, dict[str, tuple[torch.Tensor, np.ndarray]]()
        for label, probe in probes.items():
            by_seed = [ranked(probe.scores(next(results), images[queries], device), labelled, positive) for _ in seeds]
            hits = np.stack([precision.numpy() for precision, _ in by_seed])
            name, units = f"image_to_word/{label}/map", [context.split.images[k].id for k in np.flatnonzero(queries)]
            values |= numbers(name, hits, np.ones(hits.shape[1]), first)
            record(context, name, units, hits, np.ones(hits.shape[1]), first)
            values[f"image_to_word/{label}/covered"] = mean_share(tables[label].found)
            first = hits if first is None else first
            best[label] = by_seed[0][1], hits[0]
        self._shown = self._rows(context, objects, best)
        return values

    def _rows(
        self, context: Context, objects: ImageObjects, best: Mapping[str, tuple[torch.Tensor, np.ndarray]]
    ) -> list[ShownImage]:
        """Images from the lowest average precision of the first table to the highest, with their best words.

        Args:
            context: Of the split.
            objects: Of its images.
            best: For each table, the best words and the average precision of each query.
        """
        queries = np.flatnonzero(objects.queries)
        _, precision = next(iter(best.values()))
        order = np.argsort(precision, kind="stable")
        rows = list[ShownImage]()
        for place in dict.fromkeys(order[np.linspace(0, len(order) - 1, SHOWN_IMAGES).astype(int)].tolist()):
            image = queries[place]
            labels = ", ".join(objects.words[k] for k in np.flatnonzero(objects.positive[image]))
            lists = tuple(
                WordList(
                    label,
                    tuple(
                        (objects.words[k], RIGHT if objects.positive[image, k] else WRONG)
                        for k in words[place].tolist()
                    ),
                    f"(AP {100 * values[place]:.0f})",
                )
                for label, (words, values) in best.items()
            )
            picture = picture_of(context, context.split.images[image].id)
            rows.append(ShownImage(picture, f"objects: {labels}", lists))
        return rows

    def pictures(self, context: Context, values: Mapping[str, float]) -> dict[str, bytes]:
        """The words with the highest scores of the first seed, for images from the worst to the best."""
        if not self._shown:
            return {}
        legend = (("object of a caption", RIGHT), ("no object", WRONG), ("AP: average precision", NEITHER))
        return {"words.png": word_lists_figure(self._shown, legend)}

    def _objects(self, context: Context) -> tuple[ImageObjects, ImageObjects, list[str]]:
        """Objects of the training images, of the measured ones, and the form of each object whose vector is read.

        Words are counted in all splits. Those that training captions hardly have are left out: no run on these data
        would have a vector of them, and a file would.
        """
        runs, nouns = context.runs, knowledge(SHIPPED)

        def parsed(splits: Iterable[str]) -> Iterator[tuple[Parse, Components]]:
            for split in splits:
                for captions in parsed_by_image(context, runs.records.split(split)):
                    yield from captions

        concrete = nouns if self.config.concrete else None
        learned = frequent_objects(parsed((TRAIN,)), 0.0, None)
        everywhere = frequent_objects(parsed(runs.records.split_names), self.config.frequent, concrete)
        forms = {word: learned[word] for word in everywhere if word in learned}
        words = tuple(forms)
        related = related_words(words, nouns.lexicon)
        train, part = (
            image_objects(([c for _, c in captions] for captions in parsed_by_image(context, each)), words, related)
            for each in (runs.records.split(TRAIN), context.split)
        )
        return train, part, list(forms.values())


def ranked(
    blocks: Iterable[Float[Tensor, "block words"]],
    labelled: Bool[Tensor, "images words"],
    positive: Bool[Tensor, "images words"],
) -> tuple[Float[Tensor, " images"], Int[Tensor, "images shown"]]:
    """Average precision of each image and its words with the highest scores. One block of scores is held at a time.

    Args:
        blocks: Scores, `alignment.BLOCK` images at a time.
        labelled: Words that take part.
        positive: Words that name an object.
    """
    rows = (labelled.split(alignment.BLOCK), positive.split(alignment.BLOCK))
    precision, words = zip(*map(_ranked_block, blocks, *rows), strict=True)
    return torch.cat(precision), torch.cat(words)


def _ranked_block(scores: Tensor, labelled: Tensor, positive: Tensor) -> tuple[Tensor, Tensor]:
    scores = scores.masked_fill(~labelled, -torch.inf)
    return average_precision(scores, positive), scores.topk(min(SHOWN_WORDS, scores.shape[1])).indices
