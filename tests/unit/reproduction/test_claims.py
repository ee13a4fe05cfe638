"""Claims about tables: they agree with the printed numbers, and verdicts follow the registered rule."""

from typing import Any

import numpy as np
import pytest

from vse.evaluation import tasks
from vse.evaluation.statistics import Sample
from vse.reproduction import claims
from vse.reproduction.catalogue import ATTACK_SUMS, TABLES, TOTAL, metric_of, tables_of
from vse.reproduction.claims import CLAIMS, Difference, TableClaim, registered_hash, verdicts

tables_of("univse", ())  # registers all papers
EVERY = [(paper, claim) for paper, of_paper in CLAIMS.items() for claim in of_paper]


@pytest.mark.parametrize(("paper", "claim"), EVERY, ids=lambda each: getattr(each, "name", each))
def test_every_claim_is_about_printed_rows_that_have_this_order(paper: str, claim: TableClaim) -> None:
    rows = TABLES[paper, claim.table].rows

    def printed(system: str, metric: str) -> float:
        numbers = next(row.numbers for row in rows if row.system == system)
        parts = ATTACK_SUMS if metric == TOTAL and metric not in numbers else (metric,)
        return sum(numbers[part].value for part in parts)

    assert claim.differences
    for one in claim.differences:
        assert printed(one.better, one.metric) > printed(one.worse, one.metric), one


@pytest.mark.parametrize(("paper", "claim"), EVERY, ids=lambda each: getattr(each, "name", each))
def test_every_claim_is_about_metrics_of_recorded_queries(paper: str, claim: TableClaim) -> None:
    """Else its answer would always be that it was not measured."""
    recording = [tasks.task(name)() for name in TABLES[paper, claim.table].tasks if tasks.task(name).records_queries]
    recorded = {metric.name for task in recording for metric in task.metrics if metric.unit == "%"}
    for metric in {one.metric for one in claim.differences}:
        assert recorded.issuperset(metric_of(metric).terms or (metric,)), metric


def test_claims_are_those_that_were_registered() -> None:
    """A changed claim is another claim: answers in `evidence/` belong to these."""
    hashes = {paper: registered_hash(paper) for paper in CLAIMS}
    assert hashes == {
        "jwae": "fbb43312",
        "relational": "b7edf752",
        "univse": "9b374be1",
        "univse_supplement": "91369c7d",
        "vse_c": "5b058546",
    }


def effect(difference: float, seeds: int = 5, images: int = 200) -> list[tuple[float, Sample]]:
    """Two rows whose hits differ by about so many points."""
    generator = np.random.default_rng(0)
    base, noise = (generator.random((seeds, images, 1)) * size for size in (0.5, 0.02))
    queries = np.ones((images, 1))
    better, worse = (
        Sample(hits=each, queries=queries, images="test") for each in (base + difference / 100, base + noise)
    )
    return [(1.0, better), (-1.0, worse)]


Effect = list[tuple[float, Sample]]


def answers(monkeypatch: pytest.MonkeyPatch, effects: dict[str, Effect | str]) -> dict[str, dict[str, Any]]:
    """Verdicts on one claim for each effect, a text being the reason why it is missing."""
    own = tuple(
        TableClaim(
            name=name,
            table="1" if name != "elsewhere" else "2",
            statement=name,
            differences=(Difference(better=name, worse="other", metric="i2t/r1"),),
        )
        for name in effects
    )
    monkeypatch.setitem(CLAIMS, "paper", own)
    monkeypatch.setattr(claims, "REPLICATES", 2000)

    def lookup(table: str, one: Difference) -> tuple[Effect, float | None] | str:
        found = effects[one.better]
        return found if isinstance(found, str) else (found, 1.5)

    return {each["name"]: each for each in verdicts("paper", ["1"], lookup)}


def test_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answers(
        monkeypatch,
        {
            "above": effect(5.0),
            "below": effect(-5.0),
            "few": effect(5.0, seeds=4),
            "lost": "was not measured on the same images",
            "elsewhere": effect(5.0),
        },
    )
    assert {name: each["answer"] for name, each in found.items()} == {
        "above": "holds",
        "below": "does not hold",
        "few": "undecided",
        "lost": "not measured",
    }
    (one,) = found["above"]["effects"]
    assert one["printed"] == 1.5
    assert one["ours"][0] == pytest.approx(5.0 - 1.0, abs=0.1)
    assert found["lost"]["reason"] == "was not measured on the same images"


def test_claims_about_other_tables_count_in_the_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A p of one claim is multiplied by the number of all registered claims of the paper."""
    alone = answers(monkeypatch, {"above": effect(0.0)})["above"]
    among = answers(monkeypatch, {"above": effect(0.0), "elsewhere": effect(5.0)})["above"]
    assert among["p_holds"] == pytest.approx(min(1.0, 2 * alone["p_holds"]))


def test_sums_have_a_larger_negligible_difference() -> None:
    sizes = {metric: Difference(better="", worse="", metric=metric).negligible for metric in ("rsum", TOTAL, "i2t/r1")}
    assert sizes == {"rsum": 3.0, TOTAL: 3.0, "i2t/r1": 1.0}
    assert Difference(better="", worse="", metric="unified_sum").negligible == 3.0
