"""Winoground (Thrush et al., CVPR 2022): two images and two captions that must be matched."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse.adversaries.caption_pairs import CaptionPair, match_images, read_twins
from vse.config import knob
from vse.data.records import Records
from vse.errors import InputError
from vse.evaluation.attacks import pair_wins
from vse.evaluation.metrics import Metric, Ties, by_image
from vse.evaluation.retrieval import as_index, pair_parts
from vse.evaluation.task import Context, Scope, Task
from vse.evaluation.training_images import training_metric, training_share
from vse.registry import ComponentConfig, register

FOUND = Metric(name="winoground/found", heading="examples with images", higher_is_better=None, main=False)
TRAINING = training_metric("winoground/training_images", "examples")
SCORES = {"text": "text", "image": "image", "group": "group"}


def right_examples(scores: Float[Tensor, "examples 2 2"]) -> dict[str, Bool[Tensor, " examples"]]:
    """Which examples are right; `scores[e, i, c]` is of image i and caption c, and equal numbers match.

    Text: each image scores higher with its caption. Image: each caption scores higher with its image. Group: both.
    Ties are wrong. Raises Diverged at a NaN.
    """
    own = torch.stack((scores[:, 0, 0], scores[:, 1, 1]), dim=1)
    captions = torch.stack((scores[:, 0, 1], scores[:, 1, 0]), dim=1)
    text, image = (
        (pair_wins(own.flatten(), wrong.flatten(), Ties()) == 1).view(-1, 2).all(1)
        for wrong in (captions, captions.flip(1))
    )
    return {"text": text, "image": image, "group": text & image}


@register("task", "winoground")
class WinogroundTask(Task):
    """Two images and two captions of files, as Winoground's: text, image and group score.

    Examples with images of all splits are measured, whatever `measure.splits` names; `winoground/training_images` is
    the share of the measured examples with an image that the run was trained on.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        files: tuple[str, ...] = knob((), "JSON or JSONL files of image_0, image_1, caption_0, caption_1", reads="file")

    config: Config
    scope = Scope.DATA
    records_queries = True
    revision = 3  # 2: share of training images; 3: in other data too

    @cached_property
    def examples(self) -> tuple[tuple[CaptionPair, CaptionPair], ...]:
        """Of all files: each image with its caption and the other one."""
        return tuple(example for file in self.config.files for example in read_twins(file))

    def list_metrics(self) -> tuple[Metric, ...]:
        scores = (Metric(name=f"winoground/{name}", heading=title) for name, title in SCORES.items())
        return (*scores, FOUND, TRAINING)

    @property
    def label(self) -> str:
        return "examples"

    def content(self) -> Any:
        return self.examples

    @property
    def _key(self) -> str:
        return f"measure.winoground.files={','.join(self.config.files)}"

    def check(self, records: Records) -> None:
        self._match([(image.id, image.uri) for image in records.images], records.name)

    def _match(self, images: list[tuple[str, str]], data: str) -> list[tuple[str, CaptionPair, str, CaptionPair]]:
        """Examples with both images in the data set: (id, its caption, id of the other, its caption)."""
        named = self._key
        if not self.config.files:
            raise InputError(f"{named}: name files of image_0, image_1, caption_0, caption_1")
        ids = match_images((pair for example in self.examples for pair in example), images).ids
        kept = [
            (ids[one.filename], one, ids[other.filename], other)
            for one, other in self.examples
            if one.filename in ids and other.filename in ids
        ]
        if not kept:
            raise InputError(
                f"{named}: none of {len(self.examples)} examples has both images in {data}; name an image by its id "
                "or its path, each of one image"
            )
        return kept

    @torch.inference_mode()
    def measure(self, context: Context) -> dict[str, float]:
        """Percent of examples; intervals over the first images of the examples, which examples may share."""
        images = [(image.id, image.uri) for image in context.split.images]
        kept = self._match(images, context.runs.records.name)
        ids = tuple(dict.fromkeys(id_ for one, _, other, _ in kept for id_ in (one, other)))
        texts = context.runs.encode_texts([pair.caption for _, one, _, other in kept for pair in (one, other)] * 2)
        codes, place = context.runs.encode_images(ids), {id_: k for k, id_ in enumerate(ids)}
        straight = [place[id_] for one, _, other, _ in kept for id_ in (one, other)]
        crossed = [place[id_] for one, _, other, _ in kept for id_ in (other, one)]
        rows = as_index(torch.tensor(straight + crossed), texts)
        scored = context.model.combine(pair_parts(context.model, codes, texts, rows))[0].float().cpu()
        own, cross = scored.view(2, -1, 2)  # of captions 0 and 1: with their images, with the other's
        scores = torch.stack((torch.stack((own[:, 0], cross[:, 1]), 1), torch.stack((cross[:, 0], own[:, 1]), 1)), 1)
        right = right_examples(scores)
        units = [one for one, *_ in kept]
        drawn, row = np.unique(units, return_inverse=True)
        values = dict[str, float]()
        for name, each in right.items():
            values[f"winoground/{name}"] = 100 * each.double().mean().item()
            hits, queries = by_image(each.numpy(), row, len(drawn)).T
            context.record_values(f"winoground/{name}", 0, drawn.tolist(), hits, queries)
        of_training = training_share(context, [(one, other) for one, _, other, _ in kept], "examples", self._key)
        return values | {FOUND.name: 100 * len(kept) / len(self.examples), TRAINING.name: of_training}
