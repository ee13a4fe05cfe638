"""Metrics in words."""

import pytest

from vse.report.metric_names import name_of


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ("rsum", "rsum"),
        ("i2t/r1", "image → sentence, R@1"),
        ("attack_object/disjoint/pair_accuracy", "object attack, disjoint words, pairs"),
        ("attack_contrast_noun/all/r10", "contrast noun attack, all words, R@10"),
        ("t2i/medr", "sentence → image, median rank"),
        ("own_pool_noun/r1", "own pool noun, R@1"),
        ("true_pairs/i2t/r5", "true pairs, image → sentence, R@5"),
        ("unknown_words", "unknown words"),
    ],
)
def test_metrics_in_words(metric, text):
    assert name_of(metric) == text
