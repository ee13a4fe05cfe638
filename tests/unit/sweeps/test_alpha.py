"""An α sweep that is capped: what runs ends, nothing new starts, and it goes on to what it would have been.

Trials are made up and run in this process, one after another, each of a known length by a clock of its own.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.sweeps.test_frame import Silent
from vse import presets
from vse.cli.command import Request
from vse.config import override
from vse.errors import InputError, TrialsFailedError
from vse.registry import name_of
from vse.storage.folder import Folder
from vse.sweeps import alpha, frame
from vse.sweeps.alpha import run_alpha_sweep
from vse.sweeps.alpha_dry_run import describe_plan
from vse.sweeps.alpha_plan import Options
from vse.sweeps.budget import Meter
from vse.sweeps.estimates import Estimate
from vse.sweeps.ledger import Entry, Ledger
from vse.workspace.journal import Journal, read

ATTACKS = ("object", "attribute", "relation")
SECONDS = {"train": 10.0, "encode": 1.0, "measure": 2.0, "alpha": 0.5}
SPACE = "from ray import tune\nSPACE = {'model.alpha': tune.grid_search([0.0, 0.5, 1.0])}\n"


def trial(changes: dict[str, Any], setting: Any) -> dict[str, Any]:
    """What a trial of each kind finds."""
    if changes["kind"] == "train":
        return {"run": f"{changes['arm']}-{changes['seed']}", "seconds": SECONDS["train"], "trained": True}
    if changes["kind"] == "encode":
        return {"folders": {"val": f"val-{changes['run']}", "test": f"test-{changes['run']}"}}
    at, seed = changes.get("model.alpha", 0.3), changes["seed"]
    named = [f"{way}/{name}" for way in ("i2t", "t2i") for name in ("r1", "r5", "r10", "medr", "meanr")]
    named += [f"attack_{attack}/{name}" for attack in ATTACKS for name in ("r1", "r5", "r10", "rsum3", "pair_accuracy")]
    close = 50 - 50 * (at - 0.6) ** 2 + seed
    found = {name: close - at * place for place, name in enumerate(["rsum", *named])}
    return {"metrics": {f"{split}/{name}": value for split in ("val", "test") for name, value in found.items()}}


def in_turn(
    ledger: Ledger,
    asked: Iterable[dict[str, Any]],
    function: Callable[[dict[str, Any]], Any],
    *,
    meter: Meter,
    on_end: Callable[[Entry], None],
    **_: Any,
) -> None:
    """Stands in for `run_sweep`: one trial at a time, each once."""
    refused: InputError | None = None
    for changes in ledger.pending(asked):
        if not meter.allows():
            break
        before, seconds = ledger.spent(changes), SECONDS[changes["kind"]]
        try:
            entry = ledger.finish(changes, function(changes), seconds)
        except InputError as error:
            refused, entry = error, ledger.fail(changes, str(error), seconds)
        except RuntimeError as error:
            entry = ledger.fail(changes, f"RuntimeError: {error}", seconds)
        meter.ended(entry, before)
        on_end(entry)
    if refused is not None:
        raise refused


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alpha, "run_sweep", in_turn)
    monkeypatch.setattr(alpha, "run_trial", trial)
    monkeypatch.setattr(alpha, "offer_best", lambda *_, **__: None)
    monkeypatch.setattr(alpha._Sweep, "prepare", lambda self: "data")
    monkeypatch.setattr(alpha._Sweep, "make_adversaries", lambda self: None)
    monkeypatch.setattr(frame, "Shipper", Silent)
    monkeypatch.setattr(frame, "preflight", lambda *_, **__: None)
    monkeypatch.setattr(frame, "set_up_logging", lambda: None)
    monkeypatch.setattr(frame, "_connect", lambda *_: None)


def request(folder: Path, **changes: Any) -> Request:
    space = folder / "coarse.py"
    folder.mkdir(parents=True, exist_ok=True)
    space.write_text(SPACE)
    options = {key.replace("__", "."): value for key, value in changes.items()}
    options |= {"sweep.space": str(space), "sweep.seeds": "0,1", "sweep.name": "curve"}
    return Request(
        job="sweep_alpha",
        workspace=str(folder / "workspace"),
        preset="univse_tiny",
        config=presets.preset("univse_tiny"),
        options=override(Options(), options),
        changed=frozenset(),
        tracking=None,
    )


def swept(folder: Path, **changes: Any) -> SimpleNamespace:
    """A sweep's ledger and what it says at its end."""
    summary = Path(run_alpha_sweep(request(folder, **changes)))
    entries = list(Ledger(Folder.open(summary.parent)))
    return SimpleNamespace(
        folder=summary.parent,
        headline=json.loads(summary.read_text())["headline"],
        entries=entries,
        kinds=Counter(entry.changes["kind"] for entry in entries),
    )


def results(found: SimpleNamespace) -> Any:
    return json.loads((found.folder / "results.json").read_text())


WHOLE = {"train": 4, "encode": 2, "measure": 2, "alpha": 6}


@pytest.mark.parametrize(
    ("cap", "kinds", "said"),
    [
        ({"sweep__max_seconds": 25}, {"train": 2}, "2 train trials have not run (vsepp seed=0, vsepp seed=1)"),
        ({"sweep__max_seconds": 42.5}, {"train": 4, "encode": 2}, "2 measure trials have not run (vsepp seed=0"),
        (
            {"sweep__max_cost": 47.2, "sweep__price": 3600},
            {"train": 4, "encode": 2, "measure": 2, "alpha": 2},
            "4 alpha trials have not run (alpha=1 seed=0, alpha=0 seed=1,",
        ),
    ],
)
def test_capped_and_gone_on_is_the_undisturbed_sweep(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cap: dict[str, float], kinds: dict[str, int], said: str
) -> None:
    caplog.set_level("INFO")
    calm = swept(tmp_path / "calm")
    assert calm.kinds == WHOLE
    first = swept(tmp_path / "capped", **cap)
    assert first.kinds == kinds
    assert first.headline["left"] > 0
    assert read(first.folder / "journal.jsonl").latest()["left"] == first.headline["left"]
    (line,) = [record.getMessage() for record in caplog.records if "the cap is reached" in record.getMessage()]
    assert "how long a trial takes is unknown: one starts alone" in caplog.text
    assert said in line
    assert "the same command with a higher cap, or with fewer sweep.seeds, continues from here" in line
    assert read(first.folder / "journal.jsonl").status == "finished"
    assert not (first.folder / "results.json").exists()
    again = swept(tmp_path / "capped", **cap)
    assert again.entries == first.entries
    assert "nothing is left to do" not in caplog.text
    end = swept(tmp_path / "capped")
    assert end.entries[: len(first.entries)] == first.entries
    assert end.kinds == WHOLE
    assert results(end) == results(calm)
    assert end.headline == calm.headline
    told = read(end.folder / "journal.jsonl").latest()
    assert (told["left"], told["trials"]) == (0, calm.headline["trials"])
    assert told["alpha"] == calm.headline["alpha"]


def status(folder: Path) -> str:
    """Of the only sweep of a workspace, as its journal has it."""
    (file,) = (folder / "workspace" / "sweeps").glob("curve-*/journal.jsonl")
    return read(file).status


def test_a_sweep_that_goes_on_after_its_cap_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[str]()

    def looks(changes: dict[str, Any], setting: Any) -> dict[str, Any]:
        seen.append(status(tmp_path))
        return trial(changes, setting)

    swept(tmp_path, sweep__max_seconds=25)
    monkeypatch.setattr(alpha, "run_trial", looks)
    swept(tmp_path, sweep__max_seconds=25)
    assert (seen, status(tmp_path)) == ([], "finished")
    swept(tmp_path)
    assert (set(seen), status(tmp_path)) == ({"running"}, "finished")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InputError("data.root: no such folder")], ids=repr)
def test_a_finished_sweep_stays_so_where_the_next_call_ends_before_any_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def ends(self: alpha._Sweep) -> str:
        raise error

    swept(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(alpha._Sweep, "prepare", ends)
        with pytest.raises(type(error)):
            swept(tmp_path)
    assert status(tmp_path) == "finished"
    swept(tmp_path)
    assert status(tmp_path) == "finished"


@pytest.mark.parametrize("was", ["killed", "failed", "running"])
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


def test_fewer_seeds_are_whole_within_a_cap(tmp_path: Path) -> None:
    swept(tmp_path, sweep__max_seconds=42.5)
    one = request(tmp_path, sweep__max_seconds=100)
    options = override(one.options, {"sweep.seeds": "0"})
    summary = Path(run_alpha_sweep(Request(**{**{f: getattr(one, f) for f in one.__slots__}, "options": options})))
    assert json.loads(summary.with_name("results.json").read_text())["seeds"] == [0]


def broken(monkeypatch: pytest.MonkeyPatch, error: Exception, **which: Any) -> None:
    """Trials of some changes raise an error until `mended`."""

    def fails(changes: dict[str, Any], setting: Any) -> dict[str, Any]:
        if which and all(changes.get(key) == value for key, value in which.items()):
            raise error
        return trial(changes, setting)

    monkeypatch.setattr(alpha, "run_trial", fails)


def mended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alpha, "run_trial", trial)


@pytest.mark.parametrize(
    ("which", "name", "kinds"),
    [
        ({"kind": "train", "arm": "univse", "seed": 1}, "univse seed=1", {"train": 4, "encode": 1, "alpha": 3}),
        ({"kind": "train", "arm": "vsepp", "seed": 1}, "vsepp seed=1", {"train": 4, "encode": 2, "alpha": 6}),
        ({"kind": "encode", "run": "univse-1"}, "codes of univse seed=1", {"train": 4, "encode": 2, "alpha": 3}),
        ({"kind": "measure", "seed": 1}, "vsepp seed=1", {"train": 4, "encode": 2, "alpha": 6}),
        ({"kind": "alpha", "seed": 1, "model.alpha": 0.5}, "alpha=0.5 seed=1", {"train": 4, "encode": 2, "alpha": 6}),
    ],
)
def test_a_failed_trial_takes_its_seed_from_the_curve_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: dict[str, Any], name: str, kinds: dict[str, int]
) -> None:
    broken(monkeypatch, RuntimeError("no luck"), **which)
    with pytest.raises(
        RuntimeError, match=rf"^1 trial failed, {name}: RuntimeError: no luck \(all others are"
    ) as error:
        swept(tmp_path / "broken")
    summary = Path(str(error.value).partition("reported: ")[2].partition(")")[0])
    assert json.loads(summary.with_name("results.json").read_text())["seeds"] == [0]
    headline = json.loads(summary.read_text())["headline"]
    assert headline["missing"] == f"{name}: RuntimeError: no luck"
    assert "seed 1 is missing" in summary.with_name("report.html").read_text()
    ledger = Ledger(Folder.open(summary.parent))
    assert {kind: count for kind, count in Counter(e.changes["kind"] for e in ledger).items() if kind in kinds} == kinds
    mended(monkeypatch)
    with pytest.raises(RuntimeError, match="1 trial failed"):  # it is left alone, and said again
        swept(tmp_path / "broken", sweep__run="new")
    assert len(Ledger(Folder.open(summary.parent))) == len(ledger)
    whole = swept(tmp_path / "broken", sweep__run="failed")
    assert whole.kinds == WHOLE
    assert "missing" not in whole.headline


def test_a_cap_that_holds_failed_trials_back_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    broken(monkeypatch, RuntimeError("no luck"), kind="train", arm="univse", seed=1)
    with pytest.raises(RuntimeError, match="1 trial failed"):
        swept(tmp_path)
    mended(monkeypatch)
    held = swept(tmp_path, sweep__run="failed", sweep__max_seconds=1)
    assert "the cap is reached: 1 train trials have not run (univse seed=1" in caplog.text
    assert held.headline["left"] > 0


def test_the_curve_of_the_whole_seeds_is_what_they_give_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, RuntimeError("no luck"), kind="train", arm="univse", seed=1)
    with pytest.raises(RuntimeError, match="1 trial failed") as error:
        swept(tmp_path / "broken")
    summary = Path(str(error.value).partition("reported: ")[2].partition(")")[0])
    one = request(tmp_path / "one")
    options = override(one.options, {"sweep.seeds": "0"})
    alone = Path(run_alpha_sweep(dataclasses.replace(one, options=options)))
    found, expected = (json.loads(path.with_name("results.json").read_text()) for path in (summary, alone))
    assert found == expected
    mended(monkeypatch)
    assert results(swept(tmp_path / "broken")) == results(swept(tmp_path / "calm"))


def test_only_what_failed_and_what_reads_it_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the seeds 0, 1 and 2 the first is whole, a training of the second failed, and the third is new."""
    broken(monkeypatch, RuntimeError("no luck"), kind="train", arm="univse", seed=1)
    with pytest.raises(RuntimeError, match="1 trial failed"):
        swept(tmp_path)
    mended(monkeypatch)
    asked = request(tmp_path, sweep__run="failed")
    lines = describe_plan(dataclasses.replace(asked, options=override(asked.options, {"sweep.seeds": "0,1,2"})))
    assert any(line.startswith("cost of univse: 1 trainings of about 10 s") for line in lines)
    assert not any(line.startswith("cost of vsepp") for line in lines)
    more = dataclasses.replace(asked, options=override(asked.options, {"sweep.seeds": "0,1,2"}))
    summary = Path(run_alpha_sweep(more))
    assert json.loads(summary.with_name("results.json").read_text())["seeds"] == [0, 1]
    assert json.loads(summary.read_text())["headline"]["missing"] == "seed=2 has unfinished trials"
    assert Counter(entry.changes["kind"] for entry in Ledger(Folder.open(summary.parent))) == WHOLE


def test_a_refused_training_is_told_of_after_the_curve_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, InputError("data.root: no such folder"), kind="train", arm="univse", seed=1)
    for _ in range(2):  # at every later call
        with pytest.raises(InputError, match=r"^data\.root: no such folder \(all other trials are reported: ") as error:
            swept(tmp_path)
        summary = Path(str(error.value).partition("reported: ")[2].partition(")")[0])
        assert json.loads(summary.with_name("results.json").read_text())["seeds"] == [0]


def test_where_no_seed_is_whole_the_first_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, RuntimeError("no luck"), kind="train", arm="vsepp")
    with pytest.raises(TrialsFailedError, match=r"trials failed; trial .*vsepp.*: RuntimeError: no luck"):
        swept(tmp_path / "a")
    broken(monkeypatch, InputError("data.root: no such folder"), kind="train")
    with pytest.raises(InputError, match=r"^data\.root: no such folder$"):
        swept(tmp_path / "b")


def test_an_estimate_holds_back_trainings_that_would_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    longest = {"univse": 30.0, "vsepp": 36000.0}

    def estimate(config: Any, *_: Any) -> Estimate:
        return Estimate(longest[name_of("family", config.model)], "made up")

    monkeypatch.setattr(alpha, "estimate_before_trials", estimate)
    found = swept(tmp_path, sweep__max_seconds=3600)
    assert found.kinds == {}
    assert "a trial is expected to take 3.6e+04 s (made up); none starts that would pass the cap" in caplog.text
    assert found.headline == {"left": 4, "trials": 0}


def test_what_was_cut_off_is_spent(tmp_path: Path) -> None:
    first = swept(tmp_path, sweep__max_seconds=25)
    ledger = Ledger(Folder.open(first.folder))
    (left, *_) = [e.changes for e in ledger if e.changes["arm"] == "univse"]
    ledger.keep_running([({**left, "arm": "vsepp"}, 100.0, None)])
    lines = describe_plan(request(tmp_path, sweep__max_seconds=130))
    assert "cap: 130 s of trials, 120 spent; what runs then ends, nothing new starts" in lines
    assert swept(tmp_path, sweep__max_seconds=130).kinds == {"train": 3}


def test_a_dry_run_says_what_has_finished(tmp_path: Path) -> None:
    asked = request(tmp_path)
    lines = describe_plan(asked)
    assert "  train univse seed 1: to run" in lines
    assert not any(line.startswith("its ledger") for line in lines)
    swept(tmp_path)
    lines = describe_plan(asked)
    assert "  train univse seed 1: finished" in lines
    assert any(line.startswith("its ledger so far: 4 train finished, 2 encode finished, ") for line in lines)


def test_a_dry_run_says_what_is_left_of_the_cap(tmp_path: Path) -> None:
    swept(tmp_path, sweep__max_seconds=25)
    lines = describe_plan(request(tmp_path, sweep__max_seconds=25, sweep__price=3600))
    assert "cap: 25 s of trials, 20 spent; what runs then ends, nothing new starts" in lines
    assert any(line.startswith("cost of vsepp: unknown") for line in lines)
    swept(tmp_path, sweep__max_seconds=30)
    lines = describe_plan(request(tmp_path, sweep__price=3600))
    assert any(line.startswith("cost of vsepp: 1 trainings of about 10 s (median of this sweep's") for line in lines)
    assert "cost: 0.00 h of trainings, 10.00 of money; measuring comes on top" in lines
