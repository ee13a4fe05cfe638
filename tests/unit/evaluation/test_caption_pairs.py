"""Accuracy on pairs, by hand."""

import pytest
import torch

from tests.unit.evaluation.test_own_pool import Cosine
from vse.evaluation.caption_pairs import evaluate_pairs


def test_accuracy_by_category_with_ties():
    images = {"code": torch.tensor([[1.0, 0.0], [0.0, 1.0]])}
    captions = {"code": torch.tensor([[0.9, 0.0], [0.2, 0.0], [0.0, 0.7], [0.0, 0.5]])}
    negatives = {"code": torch.tensor([[0.1, 9.0], [0.3, 0.0], [9.0, 0.7], [0.0, 0.4]])}
    found = evaluate_pairs(Cosine(), images, captions, negatives, [0, 0, 1, 1], ["swap", "swap", "add", "add"])
    assert found == {"add": 75.0, "swap": 50.0, "mean": 62.5}


def test_categories_weigh_alike():
    images = {"code": torch.eye(1)}
    captions, negatives = {"code": torch.ones(4, 1)}, {"code": torch.tensor([[0.0], [0.0], [0.0], [2.0]])}
    found = evaluate_pairs(Cosine(), images, captions, negatives, [0, 0, 0, 0], ["a", "a", "a", "b"])
    assert found["mean"] == pytest.approx(50.0)
