"""Retrieval where every true pair counts: captions of scenes are true of more images than the one they describe."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from vse.evaluation.metrics import map_at_r, ranks_among
from vse.evaluation.retrieval import Blocks, ScoresParts, num_items, part_blocks
from vse.models.family import Encoded


@torch.inference_mode()
def evaluate_true_pairs(
    model: ScoresParts,
    images: Encoded,
    captions: Encoded,
    truth: np.ndarray,
    split: str = "test",
    settings: Mapping[str, Any] | None = None,
) -> dict[str, float]:
    """R@k, ranks and mAP@R in percent both ways, `{split}/true_pairs/i2t/...`; truth: (images, captions), bool.

    Holds all scores at once, as float32: meant for thousands of images. A true caption that is no description of the
    image is a positive here and a negative in plain retrieval. Queries without a true pair are left out.
    """
    scores = torch.empty(num_items(images), num_items(captions), device=next(iter(images.values())).device)
    for rows, cols, parts in part_blocks(model, images, captions, Blocks()):
        scores[rows, cols] = model.combine(parts, **(settings or {})).float()
    positive = torch.from_numpy(truth).to(scores.device)
    found: dict[str, float] = {}
    for side, ranked, true in (("i2t", scores, positive), ("t2i", scores.T, positive.T)):
        numbers = ranks_among(ranked, true).metrics()
        numbers["map_at_r"] = 100 * float(map_at_r(ranked, true).nanmean())
        found |= {f"{split}/true_pairs/{side}/{name}": value for name, value in numbers.items()}
    return found
