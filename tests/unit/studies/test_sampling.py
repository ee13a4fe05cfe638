"""The claim that seeds of the sampling make no difference: it is about single runs, so opposite differences add up."""

import numpy as np
import pytest

from vse.evaluation.statistics import Sample
from vse.studies.claims import RunOf, answer, registered_hash
from vse.studies.family_claims import POOLS, SAMPLING_CLAIMS, SAMPLING_SEEDS
from vse.studies.registered import SAMPLING_SCENES


def planted(differences, images=400):
    """A lookup in whose runs other adversaries change R@1 by so many points, by seed."""

    def lookup(arm, metric):
        assert isinstance(arm, RunOf)
        rate = 0.5 + (differences[arm.seed] / 100 if arm.model == "vsec_redrawn" else 0.0)
        rng = np.random.default_rng([arm.seed, POOLS.index(arm.split)])
        hits = (rng.random((images, 1)) < rate)[None].astype(float)  # the same images are hard for both
        return Sample(hits=hits, queries=np.ones((images, 1)), images=arm.split)

    return lookup


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ((0.5, -0.5, 0.2, 0.0, 0.4), "holds"),
        ((5.0, -5.0, 5.0, -5.0, 0.0), "does not hold"),  # their mean is zero
        ((0.0, 0.0, 0.0, 0.0, -5.0), "does not hold"),
        ((2.7, -2.7, 2.7, -2.7, 2.7), "undecided"),
    ],
)
def test_every_pair_of_runs_counts(differences, expected):
    found = answer(planted(differences), SAMPLING_CLAIMS, replicates=1000)["sampling_seeds_alike"]
    assert found.answer == expected
    assert len(found.effects) == 2 * SAMPLING_SEEDS


def test_it_is_registered():
    assert registered_hash(SAMPLING_CLAIMS) == "43593599"
    assert SAMPLING_SCENES.claims == SAMPLING_CLAIMS
    assert set(SAMPLING_SCENES.transfers) == set(POOLS)
