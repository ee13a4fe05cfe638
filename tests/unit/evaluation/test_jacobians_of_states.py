"""Jacobians with respect to states of words, against finite differences in double precision."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from tests.levels import slow
from tests.synthetic import SENTENCE, make_family, synthetic
from vse.evaluation.jacobians import jacobians, occurrence_texts
from vse.text.tokens import words
from vse.text.vocabulary import build_vocabulary
from vse.text.word_states import lengths_of
from vse.training.batches import text_batch
from vse.training.examples import SentenceVectors

DATA = synthetic(seed=5, images=3)
CAPTIONS = ("a red dog", "two cats sit on a mat", "")
STEP = 1e-5


class States:
    """Random states of every caption."""

    def vectors(self, texts: Sequence[str]) -> SentenceVectors:
        lengths = lengths_of([words(text) for text in texts])
        values = np.random.default_rng(1).normal(size=(int(lengths.sum()), SENTENCE))
        return SentenceVectors(values, np.cumsum(lengths) - lengths, lengths)


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("name", "text"),
    [("vsepp", "states"), ("scan", "projected"), *slow([("relational", "states"), ("vse_infinity", "states")])],
)
def test_states_by_finite_differences(name: str, text: str) -> None:
    family = make_family(name, DATA.context, seed=3, text=text).eval()
    image = torch.from_numpy(DATA.examples.features[family.inputs.image][0])
    texts = occurrence_texts(CAPTIONS, build_vocabulary(CAPTIONS), None, States())
    result = jacobians(family, image, texts)
    assert result.words is not None
    batch = text_batch(texts.plain, np.arange(len(CAPTIONS)), False)
    images = family.encode_images({family.inputs.image: image[None]})

    @torch.no_grad()
    def scores(states: torch.Tensor) -> torch.Tensor:
        return family.scores(images, family.encode_captions({**batch, "states": states}))[0]

    np.testing.assert_allclose(result.scores, scores(batch["states"]), rtol=1e-9, atol=1e-12)
    for caption, norms in enumerate(result.words):
        assert len(norms) == len(words(CAPTIONS[caption]))
        for word, norm in enumerate(norms):
            square = 0.0
            for k in range(SENTENCE):
                moved = torch.zeros_like(batch["states"])
                moved[caption, word + 1, k] = STEP
                ends = [scores(batch["states"] + sign * moved)[caption] for sign in (1, -1)]
                square += float((ends[0] - ends[1]) / (2 * STEP)) ** 2
            assert norm == pytest.approx(square**0.5, rel=1e-5, abs=1e-9)
        assert norms.any() or not len(norms)
