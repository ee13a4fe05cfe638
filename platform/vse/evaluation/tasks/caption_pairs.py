"""Caption pairs of files: the share whose true caption scores higher for its image (SugarCrepe, section 3)."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from vse.adversaries.caption_pairs import CaptionPair, Rewrite, match_images, read_files
from vse.config import knob
from vse.data.records import Image, Records
from vse.errors import InputError
from vse.evaluation.attacks import pair_wins
from vse.evaluation.file_names import stems
from vse.evaluation.metrics import Metric, Ties
from vse.evaluation.retrieval import as_index, pair_parts, slice_items
from vse.evaluation.task import Context, Scope, Task
from vse.evaluation.training_images import training_metric, training_share
from vse.registry import ComponentConfig, register
from vse.workspace.tracking_keys import clean_key

log = logging.getLogger(__name__)

MEAN = Metric(name="mean", heading="mean")
FOUND = Metric(name="found", heading="pairs with an image", higher_is_better=None)
TRAINING = training_metric("training_images", "pairs")
BESIDES_CATEGORIES = {metric.name: metric for metric in (MEAN, FOUND, TRAINING)}


@register("task", "caption_pairs")
class CaptionPairsTask(Task):
    """Pairs of captions of files, such as SugarCrepe's: does the caption beat its negative on its image?

    Of files of rewritten captions: does a finer wording beat the data set's? Pairs of the images of all splits are
    measured, whatever `measure.splits` names; `training_images` is the share of the measured pairs whose image the run
    was trained on.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        files: tuple[str, ...] = knob(
            (),
            "files of (image, caption, negative caption), such as SugarCrepe's JSON, or of rewritten captions by "
            "image, such as MSCOCO-FG",
            reads="file",
        )

    config: Config
    scope = Scope.DATA
    records_queries = True
    revision = 4  # 2: a file name that several images share is none of theirs; 3: training images; 4: rows of the mean

    @cached_property
    def pairs(self) -> tuple[CaptionPair | Rewrite, ...]:
        """Of all files."""
        return read_files(self.config.files)

    def list_metrics(self) -> tuple[Metric, ...]:
        return (*map(self.metric, sorted({pair.category for pair in self.pairs})), *BESIDES_CATEGORIES.values())

    def metric(self, name: str) -> Metric:
        """Categories are those of the files."""
        return BESIDES_CATEGORIES.get(name) or Metric(name=name, heading=name)

    @property
    def label(self) -> str:
        return f"pairs/{stems(self.config.files)}"

    def content(self) -> Any:
        return self.pairs

    @property
    def _key(self) -> str:
        return f"measure.caption_pairs.files={','.join(self.config.files)}"

    def check(self, records: Records) -> None:
        self._match(records.images, records)

    def _match(
        self, images: Sequence[Image], records: Records
    ) -> tuple[list[CaptionPair], Mapping[str, str], float, str]:
        """(pairs of images of the data set, the ids of these by file name, share of pairs whose image is there, what to
        warn of)."""
        data = records.name
        named = self._key
        if not self.config.files:
            raise InputError(f"{named}: name files of (image, caption, negative caption)")
        matched = match_images(self.pairs, [(image.id, image.uri) for image in images])
        there = [pair for pair in self.pairs if pair.filename in matched.ids]
        texts = _texts(records) if any(isinstance(pair, Rewrite) for pair in there) else {}
        both = (
            each.pair(texts.get(matched.ids[each.filename], ())) if isinstance(each, Rewrite) else each
            for each in there
        )
        kept = [pair for pair in both if pair is not None]
        warning = matched.warning(self.pairs, "pairs", data)
        if not kept:
            other = " and differs from the caption that it rewrites" if there else ""
            none = f"{named}: none of {len(self.pairs)} pairs is of an image of {data}{other}"
            raise InputError(f"{none}; {warning}" if warning else none)
        if taken := [pair.category for pair in kept if clean_key(pair.category) in BESIDES_CATEGORIES]:
            raise InputError(f"{named}: category {min(taken)!r} is the name of another metric; rename it")
        share = len(there) / len(self.pairs)
        return kept, matched.ids, share, f"{named}: {warning}" if warning else ""

    @torch.inference_mode()
    def measure(self, context: Context) -> dict[str, float]:
        """Percent of pairs that are right, ties one half, by category; `mean` is over categories, as in the paper."""
        kept, image, share, warning = self._match(context.split.images, context.runs.records)
        if warning:
            log.warning("%s", warning)
        of_training = training_share(context, [(image[pair.filename],) for pair in kept], "pairs", self._key)
        ids = dict.fromkeys(image[pair.filename] for pair in kept)
        row_of = {id_: row for row, id_ in enumerate(ids)}
        texts = context.runs.encode_texts([pair.caption for pair in kept] + [pair.negative for pair in kept])
        codes = context.runs.encode_images(tuple(ids))
        row = as_index(torch.tensor([row_of[image[pair.filename]] for pair in kept]), texts)
        true, false = (
            context.model.combine(pair_parts(context.model, codes, slice_items(texts, part), row))[0].float()
            for part in (slice(0, len(kept)), slice(len(kept), None))
        )
        wins, pairs = dict[str, Counter[str]](), dict[str, Counter[str]]()  # by category and image
        for pair, win in zip(kept, pair_wins(true, false, Ties()).tolist(), strict=True):
            wins.setdefault(pair.category, Counter())[image[pair.filename]] += win
            pairs.setdefault(pair.category, Counter())[image[pair.filename]] += 1
        for number, (name, each) in enumerate(pairs.items()):
            hits = [wins[name][unit] for unit in each]
            context.record_values(name, 0, tuple(each), hits, list(each.values()))
            context.record_values(MEAN.name, number, tuple(each), hits, list(each.values()))
        accuracy = {name: 100.0 * sum(wins[name].values()) / sum(each.values()) for name, each in sorted(pairs.items())}
        mean = sum(accuracy.values()) / max(len(accuracy), 1)
        return {**accuracy, MEAN.name: mean, FOUND.name: 100.0 * share, TRAINING.name: of_training}


def _texts(records: Records) -> dict[str, list[str | None]]:
    """The captions of each image, in their order; None stands for one that is left out, so that the others keep their
    numbers."""
    texts: dict[str, list[str | None]] = {}
    for caption in records.captions:
        texts.setdefault(caption.image, []).append(caption.text)
    for image, places in records.left_out.items():
        for place in places:
            texts.get(image, []).insert(place, None)
    return texts
