"""Every task on one split but pairs: retrieval, true pairs, codes, and the attacks on its captions."""

from collections.abc import Mapping, Sequence

import numpy as np

from vse.adversaries import Adversaries, complete_images, plural_images
from vse.data.records import Split
from vse.data.sources import true_pairs
from vse.evaluation.attacks import AttackResult, AttackSet, evaluate_attacks, restrict
from vse.evaluation.codes import Codes
from vse.evaluation.outcomes import Recorder
from vse.evaluation.own_pool import evaluate_own_pool
from vse.evaluation.protocol import Fold, Protocol
from vse.evaluation.retrieval import evaluate_retrieval, slice_items
from vse.evaluation.true_pairs import evaluate_true_pairs
from vse.language.contrast import rules as contrast
from vse.language.contrast.evaluation_sets import PLURAL
from vse.measuring.gaussian import measure_gaussian
from vse.measuring.members import Members
from vse.measuring.options import MeasureOptions, protocol_of

# ((attack or contrast, kind of words), the adversaries as each of the runs reads them)
Attackers = Sequence[tuple[tuple[str, str], tuple[Adversaries, ...]]]


def measure_split(
    members: Members, part: Split, attackers: Attackers, options: MeasureOptions, recorder: Recorder
) -> dict[str, float]:
    """Every task on a split but pairs."""
    split, codes, protocol = part.name, members.encode(part.name), protocol_of(part.name, options)
    owner, first = codes.owner.cpu().numpy(), members.each[0]
    plain = evaluate_retrieval(members.model, codes.images, codes.captions, owner, protocol)
    metrics = plain.metrics
    recorder.retrieval(plain.folds)
    metrics[f"{split}/unknown_words"] = members.unknown_words(c.text for c in part.captions)
    if options.true_pairs:
        truth = true_pairs(first.trained.config.data, first.material.records, split, "measure.true_pairs")
        add(metrics, evaluate_true_pairs(members.model, codes.images, codes.captions, truth, split))
    if options.gaussian:
        add(metrics, measure_gaussian(first, split))
    for (kind, words), made in attackers:
        sets = members.encode_attacks(made)
        if kind == "contrast":
            attacked, more = _contrast(members, part, codes, protocol, made[0], sets)
            recorder.attacks(attacked.folds, words)
            add(metrics, _behind(more, words))
            continue
        attacked = evaluate_attacks(members.model, codes.images, codes.captions, owner, sets, protocol)
        recorder.attacks(attacked.folds, words)
        found = attacked.metrics | {
            f"{split}/attack_{attack}/unknown_words": members.unknown_words(texts)
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


def _contrast(
    members: Members,
    part: Split,
    codes: Codes,
    protocol: Protocol,
    adversaries: Adversaries,
    sets: Mapping[str, AttackSet],
) -> tuple[AttackResult, dict[str, float]]:
    """VSE-C's evaluation (section 4.1): `attack_contrast_noun` among all adversaries, `own_pool_noun` among an image's
    own.

    The latter also on the images whose captions have all twenty of each class, and on the plural split.
    """
    owner, model, name = codes.owner.cpu().numpy(), members.model, protocol.split
    named = {f"contrast_{attack}": each for attack, each in sets.items()}
    attacked = evaluate_attacks(model, codes.images, codes.captions, owner, named, protocol)
    own = evaluate_own_pool(model, codes.images, codes.captions, owner, sets, protocol, together=contrast.CLASSES)
    found = dict(attacked.metrics)
    add(found, own.metrics)
    for attack, texts in adversaries.texts.items():
        found[f"{name}/attack_contrast_{attack}/unknown_words"] = members.unknown_words(texts)
    parts = {"complete": complete_images(adversaries, part), "plural_split": plural_images(adversaries, part)}
    for label, rows in parts.items():
        found[f"{name}/{label}/images"] = float(len(rows))
        if not len(rows):
            continue
        fold = Fold(images=rows, captions=np.flatnonzero(np.isin(owner, rows)), owner=np.empty(0, dtype=np.int64))
        wanted = (PLURAL,) if label == "plural_split" else tuple(contrast.CLASSES)
        chosen = restrict({key: sets[key] for key in wanted if key in sets}, fold)
        some, texts = slice_items(codes.images, rows), slice_items(codes.captions, fold.captions)
        whole = Protocol(name=f"{name}, {label}", split=f"{name}/{label}")
        inside = np.searchsorted(rows, owner[fold.captions])
        add(found, evaluate_own_pool(model, some, texts, inside, chosen, whole).metrics)
    return attacked, found
