"""Registered claims: complete, hashed, and answered as planted."""

import dataclasses
import zlib

import numpy as np
import pytest

from vse.evaluation.per_image import terms_of
from vse.evaluation.statistics import Sample
from vse.studies.claims import REPLICATES, Arm, answer, registered_hash
from vse.studies.registered import STUDIES
from vse.studies.sweep_claims import SWEEP_CLAIMS
from vse.studies.univse_claims import UNIVSE_CLAIMS, VSEPP

NAMES = {"robust_object", "robust_attribute", "robust_relation", "alpha_free", "alpha_robust", "shift_hurts_less"}


def planted(rate):
    """A lookup whose arms hit at `rate(arm, metric)`."""

    def lookup(arm, metric):
        rng = np.random.default_rng(zlib.crc32(f"{arm.model} {arm.split} {metric}".encode()))
        num_terms = len(terms_of(metric))
        uniform = rng.random((10, 400, num_terms))  # the same for every alpha: paired, as one training is
        return Sample(
            hits=(uniform < rate(arm, metric)).astype(float), queries=np.ones((400, num_terms)), images=arm.split
        )

    return lookup


@pytest.mark.seconds
def test_claims_are_answered_as_planted():
    def rate(arm, metric):
        value = 0.6 - 0.2 * (arm.split != "test") * (1.5 if arm == dataclasses.replace(VSEPP, split=arm.split) else 1)
        if metric == "attack_relation/rsum3" and arm.model == "univse":
            value -= 0.2
        elif metric.startswith("attack") and arm.model == "univse":
            value += 0.2 if arm.alpha != 1.0 else 0.0
        return value

    verdicts = answer(planted(rate), UNIVSE_CLAIMS, replicates=1000)
    assert {name: verdict.answer for name, verdict in verdicts.items()} == {
        "robust_object": "holds",
        "robust_attribute": "holds",
        "robust_relation": "does not hold",
        "alpha_free": "holds",
        "alpha_robust": "holds",
        "shift_hurts_less": "holds",
    }


@pytest.mark.seconds
def test_equal_arms_support_no_difference():
    verdicts = answer(planted(lambda arm, metric: 0.6), UNIVSE_CLAIMS, replicates=1000)
    assert verdicts["alpha_free"].answer == "holds"
    assert all(verdicts[name].answer != "holds" for name in NAMES - {"alpha_free"})


@pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: study.name)
def test_verdicts_do_not_depend_on_the_generator(study):
    """The share of replicates that decides at Holm's strictest step has a binomial standard error of a sixth or less.

    That step asks 0.025 / claims of the paper, and of a refutation as much by each comparison. With 4,000 replicates a
    claim with p = 0.033 held in two of seven draws.
    """
    for paper in {claim.paper for claim in study.claims}:
        claims = [claim for claim in study.claims if claim.paper == paper]
        number = len(claims) + sum(claim.paper == paper for claim in SWEEP_CLAIMS)
        border = 0.025 / number / max(len(claim.comparisons) for claim in claims)
        assert (border * REPLICATES) ** -0.5 < 1 / 6


def test_hash_follows_the_data():
    assert {claim.name for claim in UNIVSE_CLAIMS} == NAMES
    changed = dataclasses.replace(UNIVSE_CLAIMS[0], seeds=3)
    assert registered_hash((changed, *UNIVSE_CLAIMS[1:])) != registered_hash(UNIVSE_CLAIMS)
    assert registered_hash(UNIVSE_CLAIMS) == "998a775e"
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(Arm(model="x"), "model", "y")  # noqa: B010  (plain assignment is a type error, which is the point)
