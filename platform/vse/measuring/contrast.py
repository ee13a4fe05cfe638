"""VSE-C's evaluation (section 4.1): its adversaries among all candidates, and among those of an image's own."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int

from vse.adversaries import Adversaries
from vse.evaluation.attacks import AttackResult, AttackSet, evaluate_attacks, restrict
from vse.evaluation.codes import Codes
from vse.evaluation.metrics import mean_over_folds
from vse.evaluation.own_pool import evaluate_own_pool
from vse.evaluation.protocol import Fold, Protocol
from vse.evaluation.retrieval import Encoded, ScoresParts, slice_items
from vse.language.contrast.evaluation_sets import PER_CLASS, PLURAL
from vse.language.contrast.rules import CLASSES
from vse.measuring.members import Members

COMPLETE, PLURALS = "complete", "plural_split"
_PART = Protocol(name="part of a fold", split="")


def measure_contrast(
    members: Members, codes: Codes, protocol: Protocol, adversaries: Adversaries, sets: Mapping[str, AttackSet]
) -> tuple[AttackResult, dict[str, float]]:
    """`attack_contrast_noun` among all adversaries, `own_pool_noun` among an image's own.

    The latter also on the images whose captions have all twenty of each class, and on the plural split.
    """
    owner, model, name = codes.owner.cpu().numpy(), members.model, protocol.split
    named = {f"contrast_{attack}": each for attack, each in sets.items()}
    attacked = evaluate_attacks(model, codes.images, codes.captions, owner, named, protocol)
    own = evaluate_own_pool(model, codes.images, codes.captions, owner, sets, protocol, together=CLASSES)
    found = attacked.metrics | own.metrics | chosen_images(model, codes.images, codes.captions, owner, sets, protocol)
    for attack, texts in adversaries.texts.items():
        found[f"{name}/attack_contrast_{attack}/unknown_words"] = members.unknown_words(texts)
    return attacked, found


def chosen_images(
    model: ScoresParts,
    images: Encoded,
    captions: Encoded,
    owner: Int[np.ndarray, " captions"],
    sets: Mapping[str, AttackSet],
    protocol: Protocol,
    per_class: int = PER_CLASS,
) -> dict[str, float]:
    """`{split}/complete/own_pool_noun/r1` ... and `{split}/plural_split/own_pool_plural/r1` ...: an image's own
    adversaries where only the images chosen by their adversaries, and the captions of these, are candidates.

    Images are chosen within each fold of the protocol, by the captions that it takes. Numbers are means over the folds
    in which an image is chosen; `{split}/complete/images` says how many are, in all folds together.
    """
    parts: dict[str, list[dict[str, float]]] = {COMPLETE: [], PLURALS: []}
    number = dict.fromkeys(parts, 0)
    for fold in protocol.select(owner, len(next(iter(images.values())))):
        some, texts = slice_items(images, fold.images), slice_items(captions, fold.captions)
        inside = restrict(sets, fold)
        attacked = {name: each.caption for name, each in inside.items()}
        for label, rows, wanted in (
            (COMPLETE, complete_images(fold.owner, attacked, per_class), tuple(CLASSES)),
            (PLURALS, plural_images(fold.owner, attacked), (PLURAL,)),
        ):
            number[label] += len(rows)
            if not len(rows):
                continue  # nothing is asked in this fold: it counts for nothing in the mean
            kept = np.flatnonzero(np.isin(fold.owner, rows))
            part = Fold(images=rows, captions=kept, owner=np.searchsorted(rows, fold.owner[kept]))
            chosen = restrict({key: inside[key] for key in wanted if key in inside}, part)
            own = evaluate_own_pool(
                model, slice_items(some, part.images), slice_items(texts, part.captions), part.owner, chosen, _PART
            )
            parts[label].append(own.metrics)
    means = {
        f"{protocol.split}/{label}{key}": value
        for label, folds in parts.items()
        for key, value in mean_over_folds(folds).items()
    }
    return means | {f"{protocol.split}/{label}/images": float(count) for label, count in number.items()}


def complete_images(
    owner: Int[np.ndarray, " captions"], attacked: Mapping[str, np.ndarray], per_class: int = PER_CLASS
) -> Int[np.ndarray, " complete"]:
    """The images all of whose captions have `per_class` adversaries of each of the three classes; none without any.

    owner: caption -> image; attacked: by class, the caption of each adversary.
    """
    nobody = np.empty(0, dtype=np.int64)
    counts = [np.bincount(attacked.get(name, nobody), minlength=len(owner)) for name in CLASSES]
    short = (np.stack(counts) < per_class).any(0)
    return np.setdiff1d(owner, owner[short])


def plural_images(
    owner: Int[np.ndarray, " captions"], attacked: Mapping[str, np.ndarray]
) -> Int[np.ndarray, " plurals"]:
    """The images with a plural whose number is altered: the plural split (VSE-C, section 4.1)."""
    return np.unique(owner[attacked[PLURAL]]) if PLURAL in attacked else np.empty(0, dtype=np.int64)
