"""From finished trials to results: places of seeds and α, labels, the choice, what is charted."""

from dataclasses import replace

import numpy as np
import pytest

from vse.evaluation.alpha import AlphaRule, choose_alpha
from vse.report.curve import AlphaResults
from vse.storage.folder import Folder
from vse.sweeps.alpha_results import charted, digest, facts_of, gather, headline, rule_text
from vse.sweeps.ledger import Entry, Ledger, trial_id

ALPHAS, SEEDS = (0.0, 0.5, 1.0), (4, 9)


def point(alpha: float, seed: int) -> dict[str, float]:
    found = {
        "val/rsum": 100 - 50 * (alpha - 0.7) ** 2 + seed,
        "test/rsum": 90 + alpha + seed,
        "test/i2t/r1": seed + alpha,
    }
    for attack in ("object", "attribute", "relation"):
        found |= {f"val/attack_{attack}/rsum3": 30 - 10 * alpha, f"test/attack_{attack}/r1": 20 - alpha}
    return found


@pytest.fixture
def results() -> AlphaResults:
    reference = [{"label": "VSE++", "metrics": {"test/rsum": 80.0 + seed}} for seed in SEEDS]
    learned = [
        {"label": "UniVSE, learned α", "metrics": {"test/rsum": 1.0}, "alpha": 0.6 + seed / 100} for seed in SEEDS
    ]
    return gather(
        "curve-00000000",
        "univse",
        "scenes",
        SEEDS,
        ALPHAS,
        0.5,
        AlphaRule(within=5.0),
        {(alpha, seed): point(alpha, seed) for seed in reversed(SEEDS) for alpha in reversed(ALPHAS)},
        {"reference": reference, "learned": learned},
        {"univse": {"4": "run-4", "9": "run-9"}},
    )


def test_every_number_is_in_its_place(results: AlphaResults) -> None:
    for k, alpha in enumerate(ALPHAS):
        for j, seed in enumerate(SEEDS):
            assert {name: values[j] for name, values in results.points[k].items()} == point(alpha, seed)
    assert results.reference is not None
    assert results.learned is not None
    assert results.reference.metrics == {"test/rsum": [84.0, 89.0]}
    assert results.learned.alphas == pytest.approx([0.64, 0.69])
    assert (results.label, results.reference.label) == ("UniVSE", "VSE++")


def test_the_rule_decides_and_is_written_down(results: AlphaResults) -> None:
    curves = [{alpha: point(alpha, seed) for alpha in ALPHAS} for seed in SEEDS]
    assert results.chosen == choose_alpha(curves, AlphaRule(within=5.0)) == 0.5
    assert "within 5 points of the best" in results.rule
    assert "within 1 point of the best" in rule_text(AlphaRule())


def test_headline_and_chart(results: AlphaResults) -> None:
    found = headline(results)
    assert found["alpha"] == 0.5
    assert found["test/rsum"] == pytest.approx(np.mean([94.5, 99.5]))
    assert found["reference/test/rsum"] == pytest.approx(86.5)
    steps = dict(charted(results))
    assert list(steps) == [0, 50, 100]
    assert steps[100]["curve/test/i2t/r1"] == pytest.approx(7.5)


def test_a_finer_grid_has_a_step_for_each_alpha(results: AlphaResults) -> None:
    alphas = [0.5, 0.505, 0.51]
    finer = replace(results, alphas=alphas, points=[results.points[0]] * 3)
    assert [step for step, _ in charted(finer)] == [500, 505, 510]


def entry(result: dict[str, float], **changes: object) -> Entry:
    return Entry(id=trial_id(changes), changes=changes, state="finished", result=dict(result), seconds=1.0)


def test_digest_follows_results_and_nothing_else() -> None:
    one, two = entry({"a": 1.0}, kind="alpha", seed=0), entry({"a": 2.0}, kind="alpha", seed=1)
    assert digest([one, two]) == digest([two, one])
    slower = Entry(**{**{f: getattr(one, f) for f in ("id", "changes", "state", "result")}, "seconds": 9.0})
    assert digest([slower, two]) == digest([one, two])
    assert digest([one, entry({"a": 2.5}, kind="alpha", seed=1)]) != digest([one, two])


def test_facts_say_what_trials_cost(tmp_path: object) -> None:
    ledger = Ledger(Folder.open(str(tmp_path)))
    ledger.finish({"kind": "train", "arm": "univse", "seed": 0}, {}, 10.0)
    ledger.finish({"kind": "train", "arm": "univse", "seed": 1}, {}, 20.0)
    ledger.fail({"kind": "train", "arm": "univse", "seed": 2}, "no")
    ledger.finish({"kind": "alpha", "seed": 1}, {}, 0.5)
    assert facts_of(ledger) == {
        "train univse trials": "2, 15.0 s each on average",
        "alpha trials": "1, 0.5 s each on average",
    }
