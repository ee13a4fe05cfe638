"""From the trials of an α sweep to its results: places of seeds and α, labels, the choice, what is charted."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.unit.sweeps.alpha_sweeps import metrics_at, results, stand_in, swept
from vse.evaluation.alpha import AlphaRule, choose_alpha
from vse.report.curve import AlphaResults
from vse.storage.folder import Folder
from vse.sweeps.alpha import charted, headline, rule_text
from vse.sweeps.ledger import Ledger

pytestmark = pytest.mark.seconds


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)


def test_every_number_is_in_its_place(tmp_path: Path) -> None:
    found = swept(tmp_path, sweep__learn_alpha=True, sweep__within=5.0)
    data = results(found)
    for k, at in enumerate((0.0, 0.5, 1.0)):
        for j, seed in enumerate((0, 1)):
            assert {name: values[j] for name, values in data["points"][k].items()} == metrics_at(at, seed)
    assert data["reference"]["metrics"]["test/rsum"] == [metrics_at(0.3, seed)["test/rsum"] for seed in (0, 1)]
    assert data["learned"]["alphas"] == [0.6, 0.61]
    assert [data[arm]["label"] for arm in ("reference", "learned")] == ["VSE++", "UniVSE, learned α"]
    assert data["runs"]["univse"] == {"0": "univse-0", "1": "univse-1"}
    curves = [{at: metrics_at(at, seed) for at in (0.0, 0.5, 1.0)} for seed in (0, 1)]
    assert data["chosen"] == choose_alpha(curves, AlphaRule(within=5.0)) == 0.5
    assert "within 5 points of the best" in data["rule"]
    assert "within 1 point of the best" in rule_text(AlphaRule())


def of_points(alphas: list[float]) -> AlphaResults:
    names = [f"{split}/{name}" for split in ("val", "test") for name in ("rsum", "i2t/r1")]
    each = [{name: [4.0 + at, 9.0 + at] for name in names} for at in alphas]
    return AlphaResults(
        name="curve",
        label="UniVSE",
        data="scenes",
        seeds=[4, 9],
        alphas=alphas,
        points=each,
        chosen=alphas[1],
        configured=0.5,
        rule="rule",
    )


def test_headline_and_chart() -> None:
    made = of_points([0.0, 0.5, 1.0])
    assert headline(made) == {"alpha": 0.5, "test/rsum": 7.0, "test/i2t/r1": 7.0}
    steps = dict(charted(made))
    assert list(steps) == [0, 50, 100]
    assert steps[100]["curve/test/i2t/r1"] == pytest.approx(np.mean([5.0, 10.0]))
    assert [step for step, _ in charted(of_points([0.5, 0.505, 0.51]))] == [500, 505, 510]


def test_the_digest_follows_results_and_not_how_long_they_took(tmp_path: Path) -> None:
    found = swept(tmp_path)
    before = json.loads((found.folder / "summary.json").read_text())["fingerprints"]["results"]
    (found.folder / "ledger.jsonl").unlink()
    ledger = Ledger(Folder.open(found.folder))
    for entry in found.entries:
        ledger.finish(entry.changes, entry.result, 99.0)
    again = swept(tmp_path)
    assert json.loads((again.folder / "summary.json").read_text())["fingerprints"]["results"] == before
