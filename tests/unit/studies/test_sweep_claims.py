"""Equivalence of a whole sweep: held by equal arms, refuted by one that is far off, undecided without seeds."""

import functools

import numpy as np
import pytest

from search_spaces import eta
from vse.evaluation.per_image import terms_of
from vse.evaluation.statistics import Sample
from vse.studies.claims import registered_hash
from vse.studies.sweep_claims import ETA_INSENSITIVE, ETA_VALUES, REPLICATES, SWEEP_CLAIMS, Insensitive, verdicts
from vse.studies.univse_claims import ABLATION_CLAIMS

SMALL = Insensitive(
    name="small",
    paper="univse",
    statement="It hardly matters.",
    keys=("objective.eta_c",),
    values=(0.1, 1.0, 8.0),
    metric="rsum",
    level=468.2,
    within=2.0,
)


def arms(shifts: dict[str, float], seeds: int, level: float = 0.5, images: int = 400, noise: float = 0.002):
    """Samples whose recalls are `level` plus a shift, nearly the same for every image and seed."""
    rng = np.random.default_rng(0)
    terms = len(terms_of("rsum"))
    common = rng.normal(0, 0.1, (1, images, terms))
    made = {}
    for arm in SMALL.arms:
        hits = level + shifts.get(arm, 0.0) + common + rng.normal(0, noise, (seeds, images, terms))
        sample = Sample(hits=hits, queries=np.ones((images, terms)), images="test")
        made[arm] = functools.partial(lambda metric, sample: sample, sample=sample)
    return made


def test_enough_replicates_to_refute_a_claim_among_all_of_its_paper() -> None:
    of_paper = sum(claim.paper == ETA_INSENSITIVE.paper for claim in (*ABLATION_CLAIMS, *SWEEP_CLAIMS))
    assert of_paper > 1
    least = of_paper * len(ETA_INSENSITIVE.claim().comparisons) / (REPLICATES + 1)
    assert least <= 0.05 / 2


def test_the_registered_claim_is_the_supplements() -> None:
    claim = ETA_INSENSITIVE.claim()
    assert len(ETA_INSENSITIVE.arms) == 20
    assert len(claim.comparisons) == 40
    assert {c.margin for c in claim.comparisons} == {-2.0}
    assert list(ETA_VALUES) == eta.VALUES
    for comparison in claim.comparisons:
        assert sum(weight for weight, _ in comparison.terms) == pytest.approx(0.0)
    assert registered_hash([claim]) == "dbd42831"


def test_equal_arms_hold() -> None:
    (found,) = verdicts(arms({}, seeds=5), [SMALL], replicates=400).values()
    assert found["answer"] == "holds"
    assert found["mean"] == pytest.approx(300, abs=2)
    assert found["scale"] == pytest.approx(468.2 / found["mean"])
    assert found["margin"] == pytest.approx(2 * found["mean"] / 468.2)


def test_margins_are_on_the_papers_scale() -> None:
    """A distance of 1.6 where rsum is 300 is 2.5 of 468.2; where rsum is 450 it is 1.7."""
    off = 1.6 / 600 * 1.5  # the arm pulls the mean of three along by a third
    low = verdicts(arms({"objective.eta_c=8": off}, seeds=5, noise=1e-4), [SMALL], replicates=400)["small"]
    assert low["answer"] == "does not hold"
    assert max(abs(value) for _, value, _, _ in low["effects"]) == pytest.approx(2.5, abs=0.1)
    high = arms({"objective.eta_c=8": off}, seeds=5, level=0.75, noise=1e-4)
    assert verdicts(high, [SMALL], replicates=400)["small"]["answer"] == "holds"


def test_few_seeds_decide_nothing_and_missing_arms_are_not_asked() -> None:
    assert verdicts(arms({}, seeds=2), [SMALL], replicates=200)["small"]["answer"] == "undecided"
    some = arms({}, seeds=5)
    some.pop("objective.eta_c=1")
    assert verdicts(some, [SMALL]) == {}
