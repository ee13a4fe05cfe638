"""VSE-C's evaluation (section 4.1): its adversaries among all candidates, and among those of an image's own."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Int

from vse.adversaries.vsec.evaluation_sets import PER_CLASS, PLURAL
from vse.adversaries.vsec.rules import CLASSES
from vse.evaluation.attacks import AnySet, AttackResult, OwnScores, evaluate_attacks
from vse.evaluation.codes import Codes
from vse.evaluation.metrics import Ranks
from vse.evaluation.own_pool import own_pool_metrics, own_pool_ranks
from vse.evaluation.protocol import Protocol
from vse.evaluation.retrieval import Encoded, ScoresParts, count_retrieval, num_items, slice_items
from vse.stages.attack import Adversaries
from vse.stages.measuring.members import Members

COMPLETE, PLURALS = "complete", "plural_split"


def measure_contrast(
    members: Members, codes: Codes, protocol: Protocol, adversaries: Adversaries, sets: Mapping[str, AnySet]
) -> tuple[AttackResult, dict[str, float]]:
    """`attack_contrast_noun` among all adversaries, `own_pool_noun` among an image's own.

    The latter also on the images whose captions have all twenty of each class, and on the plural split.
    """
    caption_to_image, model, name = codes.caption_to_image.cpu().numpy(), members.model, protocol.split
    named = {f"contrast_{attack}": each for attack, each in sets.items()}
    attacked = evaluate_attacks(model, codes.images, codes.captions, caption_to_image, named, protocol)
    own = [{attack: fold[f"contrast_{attack}"] for attack in sets} for fold in attacked.own]
    pools = [own_pool_ranks(*each, CLASSES) for each in zip(attacked.counters, own, strict=True)]
    found = attacked.metrics | {f"{name}/{key}": value for key, value in own_pool_metrics(pools).items()}
    found |= chosen_images(model, codes.images, codes.captions, caption_to_image, own, protocol)
    for attack, texts in adversaries.texts.items():
        found[f"{name}/attack_contrast_{attack}/unknown_words"] = members.unknown_words(texts)
    return attacked, found


def chosen_images(
    model: ScoresParts,
    images: Encoded,
    captions: Encoded,
    caption_to_image: Int[np.ndarray, " captions"],
    own: Sequence[Mapping[str, OwnScores]],
    protocol: Protocol,
    per_class: int = PER_CLASS,
) -> dict[str, float]:
    """`{split}/complete/own_pool_noun/r1` ... and `{split}/plural_split/own_pool_plural/r1` ...: an image's own
    adversaries where only the images chosen by their adversaries, and the captions of these, are candidates.

    own: by class, adversaries of every fold of the protocol. Images are chosen within each fold, by the captions that
    it takes. Numbers are means over the folds in which an image is chosen; `{split}/complete/images` says how many are,
    in all folds together.
    """
    parts: dict[str, list[dict[str, Ranks]]] = {COMPLETE: [], PLURALS: []}
    number = dict.fromkeys(parts, 0)
    for fold, found in zip(protocol.select(caption_to_image, num_items(images)), own, strict=True):
        some, texts = slice_items(images, fold.images), slice_items(captions, fold.captions)
        attacked = {name: each.caption.cpu().numpy() for name, each in found.items()}
        for label, rows, wanted in (
            (COMPLETE, complete_images(fold.caption_to_image, attacked, per_class), tuple(CLASSES)),
            (PLURALS, plural_images(fold.caption_to_image, attacked), (PLURAL,)),
        ):
            number[label] += len(rows)
            if not len(rows):
                continue  # nothing is asked in this fold: it counts for nothing in the mean
            kept = np.flatnonzero(np.isin(fold.caption_to_image, rows))
            counter = count_retrieval(
                model,
                slice_items(some, rows),
                slice_items(texts, kept),
                np.searchsorted(rows, fold.caption_to_image[kept]),
            )
            chosen = {name: _among(found[name], rows, kept) for name in wanted if name in found}
            parts[label].append(own_pool_ranks(counter, chosen))
    means = {
        f"{protocol.split}/{label}/{key}": value
        for label, folds in parts.items()
        for key, value in own_pool_metrics(folds).items()
    }
    return means | {f"{protocol.split}/{label}/images": float(count) for label, count in number.items()}


def _among(own: OwnScores, images: np.ndarray, captions: np.ndarray) -> OwnScores:
    """Adversaries of some images and captions, by their positions among these; both ascend."""
    rows, texts = (torch.as_tensor(each, device=own.image.device) for each in (images, captions))
    inside = torch.isin(own.caption, texts)
    return OwnScores(
        scores=own.scores[inside],
        caption=torch.searchsorted(texts, own.caption[inside]),
        image=torch.searchsorted(rows, own.image[inside]),
    )


def complete_images(
    caption_to_image: Int[np.ndarray, " captions"], attacked: Mapping[str, np.ndarray], per_class: int = PER_CLASS
) -> Int[np.ndarray, " complete"]:
    """The images all of whose captions have `per_class` adversaries of each of the three classes; none without any.

    attacked: by class, the caption of each adversary.
    """
    nobody = np.empty(0, dtype=np.int64)
    counts = [np.bincount(attacked.get(name, nobody), minlength=len(caption_to_image)) for name in CLASSES]
    short = (np.stack(counts) < per_class).any(0)
    return np.setdiff1d(caption_to_image, caption_to_image[short])


def plural_images(
    caption_to_image: Int[np.ndarray, " captions"], attacked: Mapping[str, np.ndarray]
) -> Int[np.ndarray, " plurals"]:
    """The images with a plural whose number is altered: the plural split (VSE-C, section 4.1)."""
    return np.unique(caption_to_image[attacked[PLURAL]]) if PLURAL in attacked else np.empty(0, dtype=np.int64)
