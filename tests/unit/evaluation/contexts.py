"""Tasks on made-up codes, without a trained run."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from vse.data.records import Caption, Image, Records, Split
from vse.evaluation.codes import Codes
from vse.evaluation.protocol import WHOLE_SPLIT
from vse.evaluation.retrieval import slice_items
from vse.evaluation.task import AdversarialTexts, Context, measured
from vse.evaluation.tasks.attacks import UNIVSE, AttacksTask
from vse.evaluation.tasks.contrast import VSEC
from vse.evaluation.tasks.own_pools import OwnPoolsTask
from vse.evaluation.tasks.retrieval import RetrievalTask


def split_of(caption_to_image, num_images):
    """Images and captions with ids that sort otherwise than they stand."""
    images = tuple(Image(f"image {97 * k % 101}", f"{k}.png", "test") for k in range(num_images))
    captions = tuple(Caption(f"caption {c}", images[i].id, f"text {c}") for c, i in enumerate(caption_to_image))
    return Split("test", images, captions, np.asarray(caption_to_image))


class MadeUpRuns:
    """What a context asks of runs, answered from codes."""

    families = ()

    def __init__(self, model, images, captions, split, **more):
        self.model, self.codes, self.split = model, (images, captions), split
        self.records = Records("made up", split.images, ())
        self.__dict__.update(more)

    def encode(self, part):
        images, captions = self.codes
        inside = np.flatnonzero(np.asarray(self.split.caption_to_image) < len(part.images))
        return Codes(
            slice_items(images, slice(0, len(part.images))),
            slice_items(captions, inside),
            torch.as_tensor(part.caption_to_image),
        )

    def unknown_words(self, texts):
        return 0.0


def context_of(model, images, captions, caption_to_image, protocol=WHOLE_SPLIT, sets=(), kind=UNIVSE, words="shared"):
    """A context of made-up codes; `sets`: adversaries by attack."""
    num_images = len(next(iter(images.values())))
    split = split_of(caption_to_image, num_images)
    taken = AdversarialTexts(dict.fromkeys(sets, ("text",)), dict(sets))
    runs: Any = MadeUpRuns(model, images, captions, split)
    return Context(runs, split, protocol, {(kind, words): taken}, whole=True)


def evaluated(task, context):
    """(metrics under full names, what single queries met) of a task, without its pictures, which take seconds."""
    task.pictures = lambda context, values: {}
    values, _, queries = measured(task, context)
    metrics = {f"{context.protocol.split}/{name}": value for name, value in values.items()}
    return SimpleNamespace(metrics=metrics, queries=queries, values=values)


def evaluate_retrieval(*given):
    """The task `retrieval` on made-up codes, less the unknown words, of which there are none."""
    result = evaluated(RetrievalTask(), context_of(*given))
    result.metrics.pop(f"{context_of(*given).protocol.split}/unknown_words")
    return result


def evaluate_attacks(model, images, captions, caption_to_image, sets, protocol=WHOLE_SPLIT, words="shared"):
    """The task `attacks` on made-up codes, less the unknown words."""
    context = context_of(model, images, captions, caption_to_image, protocol, sets, words=words)
    result = evaluated(AttacksTask(AttacksTask.Config(words=(words,))), context)
    result.metrics = {name: value for name, value in result.metrics.items() if "unknown" not in name}
    return result


def evaluate_own_pools(model, images, captions, caption_to_image, sets, protocol=WHOLE_SPLIT):
    """The task `own_pools` on made-up codes."""
    context = context_of(model, images, captions, caption_to_image, protocol, sets, VSEC)
    return evaluated(OwnPoolsTask(), context)
