"""Zero-shot classification (Radford et al., ICML 2021): images by class names put into sentences."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vse.config import knob
from vse.data.reading import read_json
from vse.data.records import Records
from vse.errors import InputError
from vse.evaluation.metrics import Metric, Ties, count_metric, mean_over_folds, refuse_infinite
from vse.evaluation.protocol import Fold
from vse.evaluation.retrieval import slice_items, spans
from vse.evaluation.task import Context, Subject, Task
from vse.registry import ComponentConfig, register

NUMBERS = (1, 5)
IMAGES_AT_ONCE = 512


def class_ranks(
    scores: Float[Tensor, "images classes"], labels: Bool[Tensor, "images classes"]
) -> Int[Tensor, "images classes"]:
    """Place of each class, from 1, among itself and the classes that the image does not have.

    An image may have several classes; they do not compete with each other. Scores that tie (`Ties`) count against the
    class. Raises Diverged at a score that is NaN or infinite.
    """
    refuse_infinite(scores)
    wrong = scores.masked_fill(labels, float("-inf")).sort(dim=1).values.contiguous()
    lowest, _ = Ties().limits(scores)
    return 1 + scores.shape[1] - torch.searchsorted(wrong, lowest.contiguous(), side="left")


@register("task", "zero_shot")
class ZeroShotTask(Task):
    """Zero-shot classification by names of classes in templates: accuracy@1 and @5, mean over classes."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        classes: str = knob(
            "", "JSON file of classes and the class of each image; none: the categories of boxes", reads="file"
        )
        templates: tuple[str, ...] = knob(("a photo of a {}.",), "sentences with {} in place of the name of a class")

    config: Config
    reads_boxes = True
    records_queries = True
    revision = 3  # 2: scores within the tolerance of ties count against the class; 3: queries of all folds

    @cached_property
    def _file(self) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]:
        """Classes, and those of each image, of the file."""
        return read_classes(self.config.classes, f"measure.zero_shot.classes={self.config.classes}")

    def list_metrics(self) -> Iterator[Metric]:
        for k in NUMBERS:
            yield Metric(name=f"zero_shot/acc{k}", heading=f"accuracy@{k}", main=k == 1)
        for k in NUMBERS:
            yield Metric(name=f"zero_shot/class{k}", heading=f"mean per class @{k}", main=False)
        yield count_metric("zero_shot/classes", "classes", summed=False)  # every fold has the same
        yield count_metric("zero_shot/queries", "images' classes")

    def content(self) -> Any:
        return self._file if self.config.classes else None

    def missing(self, subject: Subject) -> str:
        """Boxes of objects in the images themselves, unless a file gives the classes."""
        ids = {image.id for image in subject.records.images}
        of_objects = (id_ for id_, boxes in subject.records.boxes.items() if any(not box.caption for box in boxes))
        has = self.config.classes or not ids.isdisjoint(of_objects)
        return "" if has else "annotated boxes of objects, or measure.zero_shot.classes"

    def check(self, records: Records) -> None:
        for template in self.config.templates:
            if template.count("{}") != 1:
                raise InputError(f"measure.zero_shot.templates={template}: needs {{}} once, in place of the class")
        if not self.config.templates:
            raise InputError("measure.zero_shot.templates: name at least one sentence with {}")
        if self.config.classes and not {image.id for image in records.images} & self._file[1].keys():
            raise InputError(
                f"measure.zero_shot.classes={self.config.classes}: none of its {len(self._file[1])} images is one of "
                f"{records.name}; name an image by its id, such as {records.images[0].id}"
            )

    def _labels(self, records: Records) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]:
        """All classes, and those of each image by its id."""
        if self.config.classes:
            return self._file
        labels = {
            id_: tuple(dict.fromkeys(box.label for box in boxes if not box.caption))
            for id_, boxes in records.boxes.items()
        }
        return tuple(sorted({label for each in labels.values() for label in each})), labels

    @torch.inference_mode()
    def measure(self, context: Context) -> dict[str, float]:
        """Percent of the classes of images; the score of a class is the mean over templates."""
        classes, labels = self._labels(context.runs.records)
        texts = [template.replace("{}", name) for template in self.config.templates for name in classes]
        codes = context.runs.encode_texts(texts) if texts else {}
        return mean_over_folds(
            (self._fold(context, number, fold, classes, labels, codes) for number, fold in enumerate(context.folds)),
            self.metrics,
        )

    def _fold(
        self,
        context: Context,
        number: int,
        fold: Fold,
        classes: tuple[str, ...],
        labels: Mapping[str, tuple[str, ...]],
        codes: Mapping[str, Tensor],
    ) -> dict[str, float]:
        ids = [context.split.images[row].id for row in fold.images]
        kept = [k for k, id_ in enumerate(ids) if labels.get(id_)]
        if not kept:
            return {}
        place = {name: k for k, name in enumerate(classes)}
        true = torch.zeros(len(kept), len(classes), dtype=torch.bool)
        for row, k in enumerate(kept):
            true[row, [place[name] for name in labels[ids[k]]]] = True
        images = slice_items(context.encoded(fold)[0], np.array(kept))
        ranks = torch.cat(
            [
                class_ranks(self._scores(context, slice_items(images, part), codes, len(classes)), true[part])
                for part in spans(len(kept), IMAGES_AT_ONCE)
            ]
        )
        values = {"zero_shot/classes": float(len(classes)), "zero_shot/queries": float(true.sum())}
        units, seen = [ids[k] for k in kept], true.any(0)
        names = [name for name, has in zip(classes, seen.tolist(), strict=True) if has]
        for k in NUMBERS:
            hits = ((ranks <= k) & true).double()
            sides = {"acc": (units, hits.sum(1), true.sum(1).double())}
            shares = hits.sum(0)[seen] / true.sum(0)[seen]
            sides["class"] = (names, shares, torch.ones_like(shares))
            for side, (of, good, queries) in sides.items():
                values[f"zero_shot/{side}{k}"] = float(100 * good.sum() / queries.sum())
                context.record_values(f"zero_shot/{side}{k}", number, of, good.numpy(), queries.numpy())
        return values

    def _scores(
        self, context: Context, images: Mapping[str, Tensor], codes: Mapping[str, Tensor], number: int
    ) -> Float[Tensor, "images classes"]:
        total = torch.zeros(())
        for k in range(len(self.config.templates)):
            texts = slice_items(dict(codes), slice(k * number, (k + 1) * number))
            total = total + context.model.combine(context.model.score_parts(dict(images), texts)).double().cpu()
        return total / len(self.config.templates)


def read_classes(file: str, where: str) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]:
    """Classes and those of each image, from `{"classes": [names], "images": {id: name or [names]}}`.

    Args:
        file: path or s3:// address.
        where: begins a message.

    Raises:
        InputError: the file cannot be read or has another form, or an image has a class that is not listed.
    """
    content = read_json(file)
    try:
        classes, images = content["classes"], content["images"]
        labels = {str(id_): (each,) if isinstance(each, str) else each for id_, each in images.items()}
        right = bool(classes) and all(map(_are_texts, (classes, *labels.values())))
    except (KeyError, TypeError, AttributeError):
        right, classes, labels = False, [], {}
    if not right:
        raise InputError(f'{where}: expected {{"classes": [names], "images": {{image id: class or [classes]}}}}')
    for id_, names in labels.items():
        if unlisted := [name for name in names if name not in classes]:
            raise InputError(f"{where}: image {id_} is of class {unlisted[0]!r}, which is not among its classes")
    return tuple(dict.fromkeys(classes)), {id_: tuple(names) for id_, names in labels.items()}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) and each for each in value)
