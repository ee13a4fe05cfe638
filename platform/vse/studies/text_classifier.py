"""Out-of-fold accuracy of a classifier of texts, with an interval over images.

Logistic regression on word n-grams and given numbers (scikit-learn). All texts of an image are in one fold, so that
other captions of the image give nothing away. Balanced accuracy: 0.5 is chance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from jaxtyping import Bool, Float

from vse.text.tokens import words


@dataclass(frozen=True, slots=True)
class Interval:
    """A share and its 95 % interval, from 0 to 1."""

    value: float
    low: float
    high: float

    def text(self) -> str:
        """In percent."""
        return f"{100 * self.value:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def folds_by_image(images: Sequence[str], folds: int, seed: int) -> np.ndarray:
    """Fold of every text: images are assigned in random order, in equal numbers.

    Args:
        images: The image of each text; texts of one image are in one fold.
        folds: Number of folds; if there are fewer images, some folds are empty.
        seed: Seed of the order.

    Returns:
        int array (texts,), from 0.
    """
    distinct = list(dict.fromkeys(images))
    order = np.random.default_rng(seed).permutation(len(distinct))
    fold = {distinct[image]: place % folds for place, image in enumerate(order)}
    return np.array([fold[image] for image in images])


def decide_out_of_fold(
    texts: Sequence[str],
    is_adversary: Bool[np.ndarray, " texts"],
    fold: np.ndarray,
    numbers: Float[np.ndarray, "texts features"],
    *,
    ngrams: int = 0,
) -> Float[np.ndarray, " texts"]:
    """Decision of a classifier fitted to the other folds for each text; positive for adversaries.

    Both classes have the same weight.

    Args:
        texts: Real captions and adversaries.
        is_adversary: The class of each text.
        fold: Fold of each text.
        numbers: Further features.
        ngrams: Longest word n-gram, present or absent; 0: the numbers only.
    """
    from sklearn.linear_model import LogisticRegression  # takes a second to import

    decided = np.zeros(len(texts))
    for held_out in np.unique(fold):
        fitted, tested = np.flatnonzero(fold != held_out), np.flatnonzero(fold == held_out)
        assert 0 < is_adversary[fitted].sum() < len(fitted), "every fold leaves both kinds to fit"
        model = LogisticRegression(class_weight="balanced", max_iter=1000)
        train, test = _matrices(texts, numbers, fitted, tested, ngrams)
        decided[tested] = model.fit(train, is_adversary[fitted]).decision_function(test)
    return decided


def _matrices(
    texts: Sequence[str], numbers: np.ndarray, fitted: np.ndarray, tested: np.ndarray, ngrams: int
) -> tuple[Any, Any]:
    """Features of fitted and of tested texts; numbers are standardised by the fitted ones."""
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import CountVectorizer

    mean, spread = numbers[fitted].mean(0), numbers[fitted].std(0)
    scaled = (numbers - mean) / np.where(spread > 0, spread, 1.0)
    if not ngrams:
        return scaled[fitted], scaled[tested]
    grams = CountVectorizer(analyzer=cast(Any, lambda text: _grams(text, ngrams)), binary=True)
    train = grams.fit_transform([texts[k] for k in fitted])
    test = grams.transform([texts[k] for k in tested])
    return (
        hstack([train, csr_matrix(scaled[fitted])], format="csr"),
        hstack([test, csr_matrix(scaled[tested])], format="csr"),
    )


def _grams(text: str, longest: int) -> list[str]:
    tokens = ["<s>", *words(text), "</s>"]
    return [" ".join(tokens[k : k + n]) for n in range(1, longest + 1) for k in range(len(tokens) - n + 1)]


def balanced_accuracy(
    guessed: Bool[np.ndarray, " texts"],
    is_adversary: Bool[np.ndarray, " texts"],
    images: Sequence[str],
    *,
    seed: int = 0,
) -> Interval:
    """Mean of the shares of real texts and of adversaries guessed right; percentiles over resampled images.

    Args:
        guessed: Whether the classifier takes each text for an adversary.
        is_adversary: Whether it is one.
        images: The image of each text. The bootstrap draws images with all of their texts.
        seed: Seed of the bootstrap, which has 2000 replicates.
    """
    right = guessed == is_adversary
    shares = [cluster_counts(right & kind, kind, images) for kind in (~is_adversary, is_adversary)]

    def of(weights: np.ndarray) -> np.ndarray:
        (hits, totals), (other_hits, other_totals) = shares
        return 0.5 * (weights @ hits / (weights @ totals) + weights @ other_hits / (weights @ other_totals))

    return interval(of, len(shares[0][0]), 2000, seed)


def cluster_counts(hits: np.ndarray, members: np.ndarray, images: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of hits and members of every image, by which the bootstrap weights images.

    Args:
        hits: Of each text, 1 or True if it counts as a hit.
        members: Of each text, 1 or True if it counts in the denominator.
        images: The image of each text.

    Returns:
        (hits, members), both (images,), in the sorted order of the images.
    """
    _, image = np.unique(np.array(images), return_inverse=True)
    size = int(image.max()) + 1
    return np.bincount(image, hits.astype(float), size), np.bincount(image, members.astype(float), size)


def interval(of: Callable[[np.ndarray], np.ndarray], num_images: int, replicates: int, seed: int) -> Interval:
    """95 % percentile interval of a statistic over images drawn with replacement.

    Args:
        of: The statistic: takes weights (replicates, images), how often each image was drawn, and returns a number for
            each replicate. It is NaN if a draw lacks one kind of texts; such draws are ignored.
        num_images: Number of images.
        replicates: Draws of all images.
        seed: Seed of the draws.

    Returns:
        The statistic with each image once, between the 2.5th and 97.5th percentile of the draws.
    """
    drawn = np.random.default_rng(seed).multinomial(num_images, np.full(num_images, 1 / num_images), size=replicates)
    with np.errstate(invalid="ignore", divide="ignore"):  # a draw may lack one kind altogether
        values = of(drawn.astype(float))
    low, high = np.nanpercentile(values, [2.5, 97.5])
    return Interval(float(of(np.ones((1, num_images)))[0]), float(low), float(high))
