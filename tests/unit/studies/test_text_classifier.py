"""A classifier of texts: folds by image, out-of-fold guesses, balanced accuracy and its interval."""

import numpy as np
import pytest

from vse.studies.text_classifier import (
    Interval,
    balanced_accuracy,
    cluster_counts,
    decide_out_of_fold,
    folds_by_image,
)


def test_an_image_is_in_one_fold_and_folds_are_of_one_size():
    images = [f"i{k // 3}" for k in range(60)]
    fold = folds_by_image(images, 5, seed=1)
    for image in set(images):
        assert len({f for f, i in zip(fold, images, strict=True) if i == image}) == 1
    assert np.bincount(fold).tolist() == [12] * 5
    assert (fold != folds_by_image(images, 5, seed=2)).any()


def corpus(num_images, tell):
    """A caption and two adversaries an image, in words that say nothing but for `tell`."""
    rng = np.random.default_rng(0)
    texts, kinds, images = [], [], []
    for image in range(num_images):
        for kind in (False, True, True):
            words = [f"w{k}" for k in rng.integers(0, 15, size=6)]
            texts.append(" ".join([*words[:3], tell, *words[3:]] if kind and tell else words))
            kinds.append(kind)
            images.append(f"i{image}")
    return texts, np.array(kinds), images


@pytest.mark.parametrize(("tell", "low", "high"), [("kine", 0.99, 1.0), ("", 0.4, 0.6)])
def test_a_word_that_gives_it_away_and_none(tell, low, high):
    texts, kinds, images = corpus(60, tell)
    fold = folds_by_image(images, 5, 0)
    guessed = decide_out_of_fold(texts, kinds, fold, np.zeros((len(texts), 1)), ngrams=2) > 0
    found = balanced_accuracy(guessed, kinds, images)
    assert low <= found.value <= high
    assert found.low <= found.value <= found.high


def test_guesses_of_an_image_use_nothing_of_it():
    """Were an image's own captions in the fit, words that only it has would tell its adversaries."""
    texts, kinds, images = [], [], []
    for image in range(40):
        for kind in (False, True):
            name = "".join(chr(ord("a") + int(digit)) for digit in str(image))
            texts += [f"{'real' if not kind else 'fake'}{name} x y"] * 3
            kinds += [kind] * 3
            images += [f"i{image}"] * 3
    fold = folds_by_image(images, 5, 0)
    guessed = decide_out_of_fold(texts, np.array(kinds), fold, np.zeros((len(texts), 1)), ngrams=1) > 0
    assert balanced_accuracy(guessed, np.array(kinds), images).value == 0.5


def test_numbers_alone_and_their_scale():
    rng = np.random.default_rng(0)
    kinds = np.arange(200) % 2 == 0
    numbers = np.column_stack([1e6 * (kinds + 0.1 * rng.normal(size=200)), rng.normal(size=200), np.ones(200)])
    images = [f"i{k // 4}" for k in range(200)]
    guessed = decide_out_of_fold(["x"] * 200, kinds, folds_by_image(images, 4, 0), numbers) > 0
    assert balanced_accuracy(guessed, kinds, images).value > 0.99


def test_balanced_accuracy_weighs_kinds_equally():
    kinds = np.array([True] * 8 + [False] * 2)
    guessed = np.array([True] * 8 + [True, False])
    assert balanced_accuracy(guessed, kinds, [f"i{k}" for k in range(10)]).value == 0.75


def test_the_interval_resamples_images_not_texts():
    """Copies of one image's texts say no more than one of them: the interval does not shrink."""
    rng = np.random.default_rng(1)
    kinds = np.array([True, False] * 20)
    guessed = kinds ^ (rng.random(40) < 0.3)
    images = [f"i{k // 2}" for k in range(40)]
    once = balanced_accuracy(guessed, kinds, images)
    often = balanced_accuracy(np.repeat(guessed, 9), np.repeat(kinds, 9), list(np.repeat(images, 9)))
    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    assert once.high - once.low > 0.1


def test_cluster_counts_and_text():
    hits, totals = cluster_counts(np.array([1.0, 0.5, 0.0]), np.array([1, 1, 1]), ["b", "a", "b"])
    assert (hits.tolist(), totals.tolist()) == ([0.5, 1.0], [1.0, 2.0])
    assert Interval(0.5, 0.25, 1.0).text() == "50.0 [25.0, 100.0]"
