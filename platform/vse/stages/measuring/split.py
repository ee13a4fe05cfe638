"""Every task on one split but pairs: retrieval, true pairs, codes, and the attacks on its captions."""

from collections.abc import Mapping, Sequence

import numpy as np

from vse.data.records import Split
from vse.data.source import true_pairs
from vse.evaluation.attacks import evaluate_attacks
from vse.evaluation.outcomes import Recorder
from vse.evaluation.retrieval import evaluate_retrieval, num_items
from vse.evaluation.true_pairs import evaluate_true_pairs
from vse.stages.attack import Adversaries, of_captions
from vse.stages.measuring.contrast import measure_contrast
from vse.stages.measuring.gaussian import measure_gaussian
from vse.stages.measuring.members import Members
from vse.stages.measuring.options import MeasureOptions, protocol_of

# ((attack or contrast, kind of words), the adversaries as each of the runs reads them)
Attackers = Sequence[tuple[tuple[str, str], tuple[Adversaries, ...]]]


def measure_split(
    members: Members, part: Split, attackers: Attackers, options: MeasureOptions, recorder: Recorder
) -> dict[str, float]:
    """Every task on a split but pairs. What the protocol leaves out is not encoded, but where true pairs are measured,
    which are those of the whole split."""
    split, protocol = part.name, protocol_of(part.name, options)
    codes = members.encode(split, None if options.true_pairs else protocol.num_images)
    caption_to_image, first = codes.caption_to_image.cpu().numpy(), members.each[0]
    plain = evaluate_retrieval(members.model, codes.images, codes.captions, caption_to_image, protocol)
    metrics = plain.metrics
    recorder.retrieval(plain.folds)
    metrics[f"{split}/unknown_words"] = members.unknown_words(c.text for c in part.captions)
    if options.true_pairs:
        truth = true_pairs(first.config.data, first.material.records, split, "measure.true_pairs")
        add(metrics, evaluate_true_pairs(members.model, codes.images, codes.captions, truth, split))
    if options.gaussian:
        add(metrics, measure_gaussian(first, split))
    folds = protocol.select(caption_to_image, num_items(codes.images))
    taken = np.concatenate([fold.captions for fold in folds])
    for (kind, words), every in attackers:
        made = tuple(of_captions(each, taken) for each in every)
        sets = members.attacks(made)
        if kind == "contrast":
            attacked, more = measure_contrast(members, codes, protocol, made[0], sets)
            recorder.attacks(attacked.folds, words)
            add(metrics, _behind(more, words))
            continue
        attacked = evaluate_attacks(members.model, codes.images, codes.captions, caption_to_image, sets, protocol)
        recorder.attacks(attacked.folds, words)
        found = attacked.metrics | {
            f"{protocol.split}/attack_{attack}/unknown_words": members.unknown_words(texts)
            for attack, texts in made[0].texts.items()
        }
        add(metrics, _behind(found, words))
    return metrics


def add(metrics: dict[str, float], more: Mapping[str, float]) -> None:
    assert metrics.keys().isdisjoint(more), f"measured twice: {sorted(metrics.keys() & more.keys())}"
    metrics.update(more)


def _behind(metrics: dict[str, float], words: str) -> dict[str, float]:
    """The kind of words behind the name of an attack, where it is not that of training."""
    if words == "shared":
        return metrics
    split = ((*key.rpartition("/"),) for key in metrics)
    return {f"{head}/{words}/{tail}": value for (head, _, tail), value in zip(split, metrics.values(), strict=True)}
