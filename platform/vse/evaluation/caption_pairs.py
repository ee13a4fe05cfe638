"""Accuracy on pairs of captions: the share whose true caption scores higher for its image (SugarCrepe, section 3)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from vse.evaluation.attacks import pair_wins
from vse.evaluation.metrics import Ties
from vse.evaluation.retrieval import Encoded, ScoresParts, as_index, pair_parts


@torch.inference_mode()
def evaluate_pairs(
    model: ScoresParts,
    images: Encoded,
    captions: Encoded,
    negatives: Encoded,
    image: Sequence[int],
    categories: Sequence[str],
    *,
    settings: Mapping[str, Any] | None = None,
    ties: Ties | None = None,
) -> dict[str, float]:
    """Percent of pairs that are right, ties one half, by category, with `mean` over categories as the paper averages.

    Rows of `captions` and `negatives` are the pairs; `image` says which row of `images` each pair belongs to.
    """
    caption_to_image, chosen = as_index(torch.as_tensor(image), captions), ties or Ties()
    true, false = (
        model.combine(pair_parts(model, images, texts, caption_to_image), **(settings or {}))[0].float()
        for texts in (captions, negatives)
    )
    wins = pair_wins(true, false, chosen).tolist()
    total, right = Counter(categories), Counter[str]()
    for category, win in zip(categories, wins, strict=True):
        right[category] += win
    accuracy = {name: 100.0 * right[name] / number for name, number in sorted(total.items())}
    return {**accuracy, "mean": sum(accuracy.values()) / max(len(accuracy), 1)}
