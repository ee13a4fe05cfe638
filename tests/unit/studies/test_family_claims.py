"""The registered orderings of families: every arm exists, and verdicts follow planted results."""

import pytest

from tests.unit.studies.test_claims import planted
from vse.config import flatten, override
from vse.presets import names, preset
from vse.studies.claims import CHOSEN_ALPHA, answer, registered_hash
from vse.studies.families import FAMILIES_PHOTOGRAPHS, FAMILIES_SCENES
from vse.studies.family_claims import FAMILY_CLAIMS, SEMI_SUPERVISED_CLAIMS, THESIS_CLAIMS, VSEC_CLAIMS
from vse.studies.registered import STUDIES
from vse.studies.univse_claims import ABLATION_CLAIMS, UNIVSE_CLAIMS


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_arms_of_every_study_are_presets_and_claims_name_arms(study):
    assert {arm.preset for arm in study.arms.values()} <= set(names())
    asked = {arm.model for c in study.claims for p in c.comparisons for _, arm in p.terms}
    assert asked <= study.arms.keys()


def test_claims_are_registered_once_and_by_hash():
    every = [claim.name for claim in (*UNIVSE_CLAIMS, *FAMILY_CLAIMS, *ABLATION_CLAIMS)]
    assert len(set(every)) == len(every)
    assert registered_hash(FAMILIES_SCENES.claims) == "ecddae43"
    assert FAMILIES_SCENES.claims == (*FAMILY_CLAIMS, *ABLATION_CLAIMS)
    assert all(claim.statement.endswith(".") and claim.paper for claim in FAMILIES_SCENES.claims)


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_every_claim_of_a_study_can_be_answered(study):
    measured = {*study.splits, *study.transfers} | {"shifted"}  # photographs have no such split: that claim is left out
    for claim in study.claims:
        for _, arm in (term for comparison in claim.comparisons for term in comparison.terms):
            assert arm.split in measured, claim.name
            alphas = study.arms[arm.model].alphas
            assert (arm.alpha is None) == (not alphas), claim.name
            assert arm.alpha in (None, CHOSEN_ALPHA, *alphas), claim.name


def test_claims_of_other_studies_are_registered_by_hash_too():
    assert registered_hash(SEMI_SUPERVISED_CLAIMS) == "c87408e6"
    assert FAMILIES_PHOTOGRAPHS.claims == VSEC_CLAIMS


def test_attacks_are_asked_where_captions_are_attacked():
    for claim in FAMILIES_SCENES.claims:
        for comparison in claim.comparisons:
            if comparison.metric.startswith(("attack", "own_pool")):
                assert {arm.split for _, arm in comparison.terms} <= set(FAMILIES_SCENES.splits)


def test_no_better_within_a_point_has_an_equivalence_margin():
    claim = next(c for c in THESIS_CLAIMS if c.name == "intermediate_leaves_images")
    assert all(c.margin == -1.0 and c.negligible == 0.0 for c in claim.comparisons)


def test_planted_orderings_are_found():
    """As the thesis reports them but farther apart: what it says of captions holds, what it says of images does not."""
    captions = {"relational_pool": 0.7, "relational_attention": 0.7, "relational_basic": 0.5, "vsepp": 0.9}

    def rate(arm, metric):
        return captions[arm.model] if metric.startswith("i2t") else 0.3 + 0.4 * (arm.model != "relational_basic")

    verdicts = answer(planted(rate), THESIS_CLAIMS, replicates=1000)
    assert {name: verdict.answer for name, verdict in verdicts.items()} == {
        "images_gain": "does not hold",
        "captions_lose": "holds",
        "intermediate_helps_captions": "holds",
        "intermediate_leaves_images": "does not hold",
    }


def test_within_the_study_of_families_systems_differ_in_what_they_are_only():
    """One schedule and one width of words, whatever their presets have, and as many rates to choose from."""
    for name, arm in FAMILIES_SCENES.arms.items():
        found = flatten(override(preset(arm.preset), {**FAMILIES_SCENES.data, **arm.changes}))
        assert found["train.epochs"] == 15, name
        assert found["train.batch_size"] == 128, name
        assert found["optim.schedule"] == "cosine", name
        assert found.get("model.word_dim", 128) == 128 or name.startswith("cca"), name
        assert found.get("objective.warmup", 0) == (8 if found.get("objective.hinge") == "hardest" else 0), name
        assert len(FAMILIES_SCENES.search.get(arm.family, ())) == (0 if name.startswith("cca") else 4), name
