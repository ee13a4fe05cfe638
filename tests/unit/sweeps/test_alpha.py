"""An α sweep on the engine: capped, failed, refused and extended, it ends as it would have undisturbed.

Trials are made up and run in this process, one after another, each of a known length by a clock of its own.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.levels import slow, slow_but
from tests.unit.sweeps.alpha_sweeps import described, metrics_at, results, stand_in, swept, trial
from vse.errors import InputError, TrialsFailedError
from vse.registry import name_of
from vse.storage.folder import Folder
from vse.sweeps import alpha, engine
from vse.sweeps.budget import Resources
from vse.sweeps.engine import Sweep
from vse.sweeps.estimates import Estimate
from vse.sweeps.ledger import Ledger
from vse.workspace.journal import Journal, read

pytestmark = pytest.mark.seconds


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)


WHOLE = ["univse-0", "vsepp-0", "univse-1", "vsepp-1"]


@pytest.mark.parametrize(
    ("cap", "finished", "said"),
    [
        ({"sweep__max_seconds": 25}, WHOLE[:2], "2 trials have not run (univse seed=1, vsepp seed=1)"),
        *slow(
            [
                (
                    {"sweep__max_seconds": 5},
                    WHOLE[:1],
                    "3 trials have not run (vsepp seed=0, univse seed=1, vsepp seed=1)",
                ),
                ({"sweep__max_cost": 32.0, "sweep__price": 3600}, WHOLE[:3], "1 trials have not run (vsepp seed=1)"),
            ]
        ),
    ],
)
def test_capped_and_gone_on_is_the_undisturbed_sweep(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cap: dict[str, float], finished: list[str], said: str
) -> None:
    caplog.set_level("INFO")
    calm = swept(tmp_path / "calm")
    assert calm.finished == sorted(WHOLE)  # the swept arm first
    first = swept(tmp_path / "capped", **cap)
    assert first.finished == finished
    assert first.headline["left"] == 4 - len(finished)
    assert read(first.folder / "journal.jsonl").latest()["left"] == first.headline["left"]
    (line,) = [record.getMessage() for record in caplog.records if "the cap is reached" in record.getMessage()]
    assert "the duration of a trial is unknown: starting a single trial" in caplog.text
    assert said in line
    assert "the same command with a higher cap continues from here" in line
    assert read(first.folder / "journal.jsonl").status == "finished"
    assert (first.folder / "results.json").exists() == (len(finished) > 1)  # the curve of the seeds that are whole
    again = swept(tmp_path / "capped", **cap)
    assert again.entries == first.entries
    assert "nothing is left to do" not in caplog.text
    end = swept(tmp_path / "capped")
    assert end.entries[: len(first.entries)] == first.entries
    assert sorted(end.finished) == sorted(WHOLE)
    assert results(end) == results(calm)
    assert end.headline == calm.headline
    told = read(end.folder / "journal.jsonl").latest()
    assert (told["left"], told["trials"]) == (0, calm.headline["trials"])
    assert told["alpha"] == calm.headline["alpha"]


def test_every_alpha_is_a_run_below_the_sweep(tmp_path: Path) -> None:
    found = swept(tmp_path, sweep__learn_alpha=True)
    stories = [read(path) for path in sorted(found.folder.glob("trials/*/journal.jsonl"))]
    names = [f"alpha={at:g} seed={seed}" for at in (0.0, 0.5, 1.0) for seed in (0, 1)]
    names += [f"{arm} seed={seed}" for arm in ("univse_learned", "vsepp") for seed in (0, 1)]
    assert sorted(story.name for story in stories) == sorted(names)
    assert {(story.parent, story.status) for story in stories} == {(found.folder.name, "finished")}
    (one,) = [story for story in stories if story.name == "alpha=0.5 seed=1"]
    assert (one.params["model.alpha"], one.params["seed"], one.params["run"]) == (0.5, 1, "univse-1")
    assert one.latest() == pytest.approx(metrics_at(0.5, 1))
    (learned,) = [story for story in stories if story.name == "univse_learned seed=1"]
    assert learned.latest()["alpha"] == 0.61


def status(folder: Path) -> str:
    """Of the only sweep of a workspace, as its journal has it."""
    (file,) = (folder / "workspace" / "sweeps").glob("curve-*/journal.jsonl")
    return read(file).status


@pytest.mark.slow
def test_a_sweep_that_goes_on_after_its_cap_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[str]()

    def looks(*given: Any, **more: Any) -> dict[str, Any]:
        seen.append(status(tmp_path))
        return trial(*given, **more)

    swept(tmp_path, sweep__max_seconds=25)
    monkeypatch.setattr(alpha, "alpha_trial", looks)
    swept(tmp_path, sweep__max_seconds=25)
    assert (seen, status(tmp_path)) == ([], "finished")
    swept(tmp_path)
    assert (set(seen), status(tmp_path)) == ({"running"}, "finished")


@pytest.mark.parametrize("error", [InputError("data.root: no such folder"), *slow([KeyboardInterrupt()])], ids=repr)
def test_a_finished_sweep_stays_so_where_the_next_call_ends_before_any_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def ends(self: Sweep) -> str:
        raise error

    swept(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Sweep, "prepare", ends)
        with pytest.raises(type(error)):
            swept(tmp_path)
    assert status(tmp_path) == "finished"
    swept(tmp_path)
    assert status(tmp_path) == "finished"


@pytest.mark.parametrize("was", slow_but(["killed", "failed", "running"], "running"))
def test_a_sweep_with_nothing_left_has_finished_whatever_was_told(
    tmp_path: Path, was: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    found = swept(tmp_path)
    book = Journal(found.folder / "journal.jsonl")
    book.start(found.folder.name) if was == "running" else book.end(was)
    assert status(tmp_path) == was
    swept(tmp_path)
    assert "nothing is left to do" in caplog.text
    assert status(tmp_path) == "finished"


@pytest.mark.slow
def test_fewer_seeds_are_whole_within_a_cap(tmp_path: Path) -> None:
    swept(tmp_path, sweep__max_seconds=25)
    one = swept(tmp_path, sweep__max_seconds=25, sweep__seeds="0")
    assert results(one)["seeds"] == [0]
    assert one.headline["left"] == 0


def broken(monkeypatch: pytest.MonkeyPatch, error: Exception, **which: Any) -> None:
    """Trials of some changes raise an error until `mended`."""

    def fails(changes: dict[str, Any], *given: Any, **more: Any) -> dict[str, Any]:
        if which and all(changes.get(key) == value for key, value in which.items()):
            raise error
        return trial(changes, *given, **more)

    monkeypatch.setattr(alpha, "alpha_trial", fails)


def mended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alpha, "alpha_trial", trial)


def reported_in(error: pytest.ExceptionInfo[Exception]) -> Path:
    return Path(str(error.value).partition("reported: ")[2].partition(")")[0])


@pytest.mark.parametrize("arm", slow_but(["univse", "vsepp"], "univse"))
def test_a_failed_trial_takes_its_seed_from_the_curve_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arm: str
) -> None:
    broken(monkeypatch, RuntimeError("no luck"), arm=arm, seed=1)
    match = rf"^1 trial failed, {arm} seed=1: RuntimeError: no luck \(all others are"
    with pytest.raises(TrialsFailedError, match=match) as error:
        swept(tmp_path / "broken")
    summary = reported_in(error)
    assert json.loads(summary.with_name("results.json").read_text())["seeds"] == [0]
    assert json.loads(summary.read_text())["headline"]["missing"] == f"{arm} seed=1: RuntimeError: no luck"
    assert "seed 1 is missing" in summary.with_name("report.html").read_text()
    ledger = Ledger(Folder.open(summary.parent))
    assert len(ledger) == 4
    mended(monkeypatch)
    with pytest.raises(TrialsFailedError, match="1 trial failed"):  # it is left alone, and said again
        swept(tmp_path / "broken", sweep__run="new")
    assert [entry.attempts for entry in Ledger(Folder.open(summary.parent))] == [1] * 4
    whole = swept(tmp_path / "broken", sweep__run="failed")
    assert sorted(whole.finished) == sorted(WHOLE)
    assert "missing" not in whole.headline
    assert results(whole) == results(swept(tmp_path / "calm"))


@pytest.mark.slow
def test_a_cap_that_holds_failed_trials_back_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    broken(monkeypatch, RuntimeError("no luck"), arm="univse", seed=1)
    with pytest.raises(TrialsFailedError, match="1 trial failed"):
        swept(tmp_path)
    mended(monkeypatch)
    with pytest.raises(TrialsFailedError, match="1 trial failed") as error:  # its last attempt is still a failure
        swept(tmp_path, sweep__run="failed", sweep__max_seconds=1)
    assert "the cap is reached: 1 trials have not run (univse seed=1)" in caplog.text
    assert json.loads(reported_in(error).read_text())["headline"]["left"] == 1


@pytest.mark.slow
def test_the_curve_of_the_whole_seeds_is_what_they_give_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, RuntimeError("no luck"), arm="univse", seed=1)
    with pytest.raises(TrialsFailedError, match="1 trial failed") as error:
        swept(tmp_path / "broken")
    alone = swept(tmp_path / "one", sweep__seeds="0")
    assert json.loads(reported_in(error).with_name("results.json").read_text()) == results(alone)


def test_only_what_failed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the seeds 0, 1 and 2 the first is whole, a training of the second failed, and the third is new."""
    broken(monkeypatch, RuntimeError("no luck"), arm="univse", seed=1)
    with pytest.raises(TrialsFailedError, match="1 trial failed"):
        swept(tmp_path)
    mended(monkeypatch)
    lines = described(tmp_path, sweep__run="failed", sweep__seeds="0,1,2")
    assert any(line.startswith("cost of univse: 1 trials of about 10 s") for line in lines)
    assert not any(line.startswith("cost of vsepp") for line in lines)
    more = swept(tmp_path, sweep__run="failed", sweep__seeds="0,1,2")
    assert results(more)["seeds"] == [0, 1]
    assert more.headline["missing"] == "seed=2 has unfinished trials"
    assert sorted(more.finished) == sorted(WHOLE)


def test_a_refused_training_is_told_of_after_the_curve_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, InputError("data.root: no such folder"), arm="univse", seed=1)
    for _ in range(2):  # at every later call
        with pytest.raises(InputError, match=r"^data\.root: no such folder \(all other trials are reported: ") as error:
            swept(tmp_path)
        assert json.loads(reported_in(error).with_name("results.json").read_text())["seeds"] == [0]


def test_where_no_seed_is_whole_the_first_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, RuntimeError("no luck"), arm="vsepp")
    with pytest.raises(TrialsFailedError, match=r"^2 trials failed, vsepp seed=0: RuntimeError: no luck") as error:
        swept(tmp_path / "a")
    summary = json.loads(reported_in(error).read_text())
    assert summary["headline"] == {"left": 0, "trials": 2}
    assert summary["details"]["missing"].startswith("no seed is complete, so there is no curve: vsepp seed=0: Runtime")
    broken(monkeypatch, InputError("data.root: no such folder"), arm="vsepp")
    with pytest.raises(InputError, match=r"^data\.root: no such folder \(all other"):
        swept(tmp_path / "b")


def test_an_estimate_holds_back_trainings_that_would_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    longest = {"univse": 30.0, "vsepp": 36000.0}

    def estimate(config: Any, *_: Any, **__: Any) -> Estimate:
        return Estimate(longest[name_of("family", config.model)], "made up")

    monkeypatch.setattr(engine, "estimate", estimate)
    found = swept(tmp_path, sweep__max_seconds=3600)
    assert found.finished == []
    assert "a trial is expected to take 3.6e+04 s (made up; measuring comes on top); none starts that" in caplog.text
    assert found.headline == {"left": 4, "trials": 0}


@pytest.mark.slow
def test_what_was_cut_off_is_spent(tmp_path: Path) -> None:
    first = swept(tmp_path, sweep__max_seconds=25)
    changes = {**first.entries[0].changes, "seed": 1}
    Ledger(Folder.open(first.folder)).keep_running([(changes, 100.0, Resources())])
    assert "cap: 130 s of trials, 120 spent; what runs then ends, nothing new starts" in described(
        tmp_path, sweep__max_seconds=130
    )
    assert len(swept(tmp_path, sweep__max_seconds=130).finished) == 3


def test_a_dry_run_says_what_has_finished_and_what_is_left_of_the_cap(tmp_path: Path) -> None:
    lines = described(tmp_path)
    assert "  univse seed=1: to run" in lines
    assert "4 trials to run, 0 finished, 0 failed" in lines
    assert any("univse on scenes at 3 values of α from 0 to 1, trained with 2 seeds" in line for line in lines)
    swept(tmp_path, sweep__max_seconds=25)
    lines = described(tmp_path, sweep__max_seconds=25, sweep__price=3600)
    assert "  univse seed=0: finished" in lines
    assert "2 trials to run, 2 finished, 0 failed" in lines
    assert "cap: 25 s of trials, 20 spent; what runs then ends, nothing new starts" in lines
    assert any(line.startswith("cost of vsepp: 1 trials of about 10 s (median of this sweep's") for line in lines)
    assert any(line.startswith("cost: 0.01 h of trials, ") and line.endswith("20.00 of money") for line in lines)
