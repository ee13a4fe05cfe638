"""A whole run on the tiny presets: repeated, killed anywhere and resumed, with the numbers it would have had."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from tests.levels import slow, slow_but
from vse.config import override
from vse.errors import Diverged, InputError
from vse.presets import preset
from vse.stages import train as run
from vse.stages.train import Result, run_training
from vse.storage.folder import Folder
from vse.training.loop import Loop
from vse.workspace import journal

pytestmark = pytest.mark.seconds

SHORT = {"train.batch_size": 64, "train.epochs": 3, "objective.warmup": 0, "model.dim": 32}


class Killed(Exception):  # noqa: N818  (not an error of the program)
    """Stands for whatever ends a process."""


def config(name: str = "vsepp_tiny", **changes: Any) -> Any:
    return override(preset(name), SHORT | {key.replace("__", "."): value for key, value in changes.items()})


def weights(result: Result) -> bytes:
    return result.checkpoint.read_bytes("model.safetensors")


def same(one: Result, other: Result) -> None:
    assert (one.run, one.metrics, one.best, one.epochs) == (other.run, other.metrics, other.best, other.epochs)
    assert weights(one) == weights(other)
    newest = [load(_newest(result).read_bytes("optimizer.safetensors")) for result in (one, other)]
    assert newest[0].keys() == newest[1].keys()
    assert all(torch.equal(value, newest[1][key]) for key, value in newest[0].items())
    assert _history(one) == _history(other)


def _newest(result: Result) -> Folder:
    checkpoints = result.folder.child("checkpoints")
    return checkpoints.child(checkpoints.names()[-1])


def _history(result: Result) -> list[dict[str, float]]:
    rows = result.folder.read_json("result.json")["history"]
    return [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in rows]


def _story(folder: Folder) -> journal.JournalState:
    return journal.read(folder.local("journal.jsonl"))


def _epochs_in(folder: Folder, metric: str = "train/sent") -> list[int]:
    return sorted(step for key, step in _story(folder).metrics if key == metric)


def _no_times(story: journal.JournalState) -> dict[tuple[str, int], float]:
    clocks = ("train/seconds", "cost/", "speed/")
    return {key: value for key, (value, _) in story.metrics.items() if not key[0].startswith(clocks)}


@pytest.fixture(scope="module")
def whole(stages, tmp_path_factory):
    """Runs never interrupted, by configuration."""
    done: dict[str, Result] = {}

    def get(wanted: Any) -> Result:
        key = json.dumps(str(wanted))
        if key not in done:
            done[key] = run_training(wanted, stages(tmp_path_factory.mktemp("whole") / "workspace"))
        return done[key]

    return get


def test_a_finished_run_returns_at_once(workspace, monkeypatch):
    heard: list[dict[str, float]] = []
    first = run_training(config(), workspace, report=heard.append)
    assert first.trained
    assert [row["epoch"] for row in heard] == [1, 2, 3]
    assert all({"train/sent", "val/rsum", "val/i2t/r1", "train/gradient"} <= row.keys() for row in heard)
    monkeypatch.setattr(run, "train_worker", lambda *a, **k: pytest.fail("trained again"))
    again = run_training(config(), workspace, report=heard.append)
    assert (again.trained, len(heard)) == (False, 3)
    same(first, again)


@pytest.mark.parametrize("name", slow_but(["vsepp_tiny", "univse_tiny"], "univse_tiny"))
def test_the_same_configuration_gives_the_same_bits(whole, workspace, name):
    torch.manual_seed(987)  # whatever happened before in the process
    torch.rand(5)
    same(run_training(config(name), workspace), whole(config(name)))


CASES = {
    "vsepp": ("vsepp_tiny", {}),
    "univse": ("univse_tiny", {}),
    "dropout": ("vsepp_tiny", {"model__dropout": 0.3}),
    "last": ("vsepp_tiny", {"train__select": "last"}),
}


MOMENTS = ("report", "validate", "step", "between")
KILLS = [*(("vsepp", moment) for moment in MOMENTS), ("univse", "step"), ("dropout", "step"), ("last", "report")]


@pytest.mark.parametrize(
    ("case", "moment"), slow_but(KILLS, ("vsepp", "validate"), ("vsepp", "between"), ("univse", "step"))
)
def test_a_killed_run_ends_as_if_nothing_had_happened(whole, workspace, monkeypatch, case, moment):
    name, changes = CASES[case]
    wanted = config(name, **changes)
    folder = _kill(wanted, workspace, monkeypatch, moment)
    left = folder.child("checkpoints").names()
    assert any("-" in name.removeprefix("epoch-") for name in left) == (moment == "step")
    assert left
    story = _story(folder)
    assert story.status == ("failed" if moment != "between" else "running")
    resumed = run_training(wanted, workspace)
    assert resumed.trained
    expected = whole(wanted)
    same(resumed, expected)
    assert _epochs_in(folder) == [1, 2, 3]
    story = _story(folder)
    assert story.status == "finished"
    assert _no_times(story) == _no_times(_story(expected.folder))


def _kill(wanted: Any, workspace: Any, monkeypatch: pytest.MonkeyPatch, moment: str) -> Folder:
    """Train until a moment of the second epoch: its report, its validation, its middle, or before its journal entry."""

    def report(numbers: dict[str, float]) -> None:
        if moment == "report" and numbers["epoch"] == 2:
            raise Killed

    with monkeypatch.context() as patch:
        if moment == "validate":
            _raise_at(patch, Loop, "_validate", 2)
        if moment == "step":
            steps = -(-_captions(wanted, workspace) // wanted.train.batch_size)
            _raise_at(patch, Loop, "_step", 2 * steps - 1)
            # A checkpoint after every step, without another configuration and so another name of the run.
            patch.setattr("vse.training.loop.time.monotonic", _leaping_clock())
        if moment == "between":
            _raise_at(patch, journal.Journal, "metrics", 2)
            patch.setattr(journal.Journal, "end", lambda self, status: None)  # a kill leaves no last word
        with pytest.raises(Killed):
            run_training(wanted, workspace, report=report)
    (name,) = workspace.root.child("runs").names()
    return workspace.run(name)


def _captions(wanted: Any, workspace: Any) -> int:
    from vse.stages import pipeline

    return len(pipeline.prepare(wanted, workspace).records.split("train").captions)


def _leaping_clock():
    now = [0.0]

    def monotonic() -> float:
        now[0] += 1000.0
        return now[0]

    return monotonic


def _raise_at(patch: pytest.MonkeyPatch, owner: Any, method: str, limit: int) -> None:
    """Raise instead of the call number `limit` of a method, or of a function of a module."""
    original = getattr(owner, method)
    calls: Counter[str] = Counter()

    def wrapped(*arguments: Any, **named: Any) -> Any:
        calls[method] += 1
        if calls[method] == limit:
            raise Killed
        return original(*arguments, **named)

    patch.setattr(owner, method, wrapped)


def test_a_run_killed_after_its_last_epoch_is_only_closed(whole, workspace, monkeypatch):
    with monkeypatch.context() as patch:
        _fail_on_result(patch)
        with pytest.raises(Killed):
            run_training(config(), workspace)
    monkeypatch.setattr(Loop, "_step", lambda *a: pytest.fail("trained on"))
    same(run_training(config(), workspace), whole(config()))


def _fail_on_result(patch: pytest.MonkeyPatch) -> None:
    original = Folder.write_json

    def write_json(self: Folder, name: str, value: Any) -> None:
        if name == "result.json":
            raise Killed
        original(self, name, value)

    patch.setattr(Folder, "write_json", write_json)


def test_the_best_checkpoint_is_kept_beside_the_newest(workspace, monkeypatch):
    scores = iter([1.0, 5.0, 3.0, 5.0, 4.0])
    monkeypatch.setattr("vse.stages.train.validate", lambda *a: {"val/rsum": next(scores)})
    result = run_training(config(train__epochs=5), workspace)
    assert (result.best, result.metrics["val/rsum"], result.epochs) == (2, 5.0, 5)
    assert result.folder.child("checkpoints").names() == ("epoch-0002", "epoch-0005")
    assert _story(result.folder).metrics["best/val/rsum", 2][0] == 5.0


@pytest.mark.parametrize(
    ("changes", "epochs", "best"),
    [
        ({"train__select": "last"}, 6, 6),
        ({"train__patience": 1, "train__evaluate_every": 2}, 4, 2),
        *slow([({"train__patience": 2}, 4, 2), ({"train__patience": 3}, 5, 2), ({"train__evaluate_every": 4}, 6, 4)]),
    ],
)
def test_selection_and_patience(workspace, monkeypatch, changes, epochs, best):
    by_epoch = {1: 1.0, 2: 5.0, 3: 3.0, 4: 4.0, 5: 4.5, 6: 2.0}
    loop = Loop._validate

    def validate(self: Loop, progress: Any) -> dict[str, float]:
        monkeypatch.setattr("vse.stages.train.validate", lambda *a: {"val/rsum": by_epoch[progress.epoch]})
        return loop(self, progress)

    monkeypatch.setattr(Loop, "_validate", validate)
    result = run_training(config(train__epochs=6, train__batch_size=256, **changes), workspace)
    assert (result.epochs, result.best) == (epochs, best)
    every = changes.get("train__evaluate_every", 1)
    seen = [e for e in range(1, epochs + 1) if e % every == 0 or e == 6]
    assert _epochs_in(result.folder, "val/rsum") == seen
    assert _epochs_in(result.folder) == list(range(1, epochs + 1))


def test_the_name_says_configuration_seed_and_data(workspace, whole):
    from vse.stages import pipeline
    from vse.stages.train import run_name

    material = pipeline.prepare(config(), workspace)
    names = {run_name(changed, material) for changed in (config(), config(seed=1), config(optim__lr=1e-3))}
    assert len(names) == 3
    assert run_name(config(seed=1), material).startswith("vsepp-scenes-s1-")
    assert whole(config()).run == run_name(config(), material)
    other = pipeline.prepare(config(data__num_val=19), workspace)
    assert run_name(config(), other) != run_name(config(), material)


def test_a_damaged_checkpoint_is_passed_over(whole, workspace, monkeypatch):
    wanted = config(train__select="last")
    scored = iter([2.0, 1.0])
    with monkeypatch.context() as patch:
        # the first epoch stays as the best one beside the second
        patch.setattr("vse.stages.train.validate", lambda *a: {"val/rsum": next(scored)})
        _raise_at(patch, Loop, "_validate", 3)
        with pytest.raises(Killed):
            run_training(config(), workspace)
    (name,) = workspace.root.child("runs").names()
    checkpoints = workspace.run(name).child("checkpoints")
    assert checkpoints.names() == ("epoch-0001", "epoch-0002")
    file = checkpoints.child("epoch-0002").local("model.safetensors")
    file.write_bytes(file.read_bytes()[:-100])
    steps: list[int] = []
    step = Loop._step
    monkeypatch.setattr(Loop, "_step", lambda self, p, *rest: (steps.append(p.epoch), step(self, p, *rest))[1])
    result = run_training(config(), workspace)
    assert sorted(set(steps)) == [1, 2]
    last = result.folder.child("checkpoints", "epoch-0003")
    assert last.read_bytes("model.safetensors") == weights(whole(wanted))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("pickle", "model.safetensors: not a safetensors file"),
        ("shape", r"words.embedding.weight has shape \(3, 2\)"),
        *slow(
            [
                ("version", "checkpoint of version 99, this code reads 1"),
                ("optimizer", "optimizer.safetensors: not a safetensors file"),
                ("other", "is missing; another model wrote it"),
                ("more", "strange is unknown; another model wrote it"),
            ]
        ),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_one_line(workspace, monkeypatch, damage, message):
    folder = _kill(config(), workspace, monkeypatch, "report")
    checkpoint = folder.child("checkpoints", folder.child("checkpoints").names()[-1])
    _damage(checkpoint, damage)
    with pytest.raises(InputError, match=message) as caught:
        run_training(config(), workspace)
    assert "\n" not in str(caught.value)
    assert str(checkpoint) in str(caught.value)


def _damage(checkpoint: Folder, how: str) -> None:
    """Change a checkpoint and commit it again, as whoever made it on purpose would."""
    if how == "version":
        checkpoint.write_json("progress.json", checkpoint.read_json("progress.json") | {"version": 99})
    elif how in ("pickle", "optimizer"):
        file = checkpoint.local("model.safetensors" if how == "pickle" else "optimizer.safetensors")
        torch.save({"weight": torch.zeros(2)}, file)
    else:
        tensors = load(checkpoint.read_bytes("model.safetensors"))
        if how == "shape":
            tensors["words.embedding.weight"] = torch.zeros(3, 2)
        elif how == "other":
            tensors.pop(sorted(tensors)[0])
        else:
            tensors["strange"] = torch.zeros(1)
        checkpoint.write_bytes("model.safetensors", save(tensors))
    names = set(checkpoint.read_json("manifest.json")["files"])
    checkpoint.commit_manifest(names)


def test_no_pickle_is_executed(workspace, monkeypatch, tmp_path):
    """A checkpoint from a stranger cannot run anything."""
    folder = _kill(config(), workspace, monkeypatch, "report")
    checkpoint = folder.child("checkpoints", folder.child("checkpoints").names()[-1])
    torch.save(_Evil(tmp_path / "executed"), checkpoint.local("model.safetensors"))
    checkpoint.commit_manifest(set(checkpoint.read_json("manifest.json")["files"]))
    with pytest.raises(InputError):
        run_training(config(), workspace)
    assert not (tmp_path / "executed").exists()


class _Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_diverged_run_says_so_and_keeps_what_it_had(workspace, monkeypatch):
    from vse.objectives.ranking import Ranking

    loss = Ranking.__call__

    def broken(self: Ranking, encoded: Any, gathered: Any, epoch: int) -> dict[str, torch.Tensor]:
        return {n: v * (torch.nan if epoch else 1.0) for n, v in loss(self, encoded, gathered, epoch).items()}

    monkeypatch.setattr(Ranking, "__call__", broken)
    with pytest.raises(Diverged, match=r"epoch 2, step 1: sent is nan; try a lower"):
        run_training(config(), workspace)
    (name,) = workspace.root.child("runs").names()
    assert _story(workspace.run(name)).status == "failed"
    assert workspace.run(name).child("checkpoints").names() == ("epoch-0001",)


def test_an_update_that_ends_in_nan_is_told_by_validation(workspace, monkeypatch):
    """Every loss of the epoch was a number."""
    from vse.training.loop import Loop

    validated = Loop._validated

    def broken(self: Loop, epoch: int) -> dict[str, float]:
        if epoch == 2:
            next(self.family.parameters()).data.fill_(torch.nan)
        return validated(self, epoch)

    monkeypatch.setattr(Loop, "_validated", broken)
    with pytest.raises(Diverged, match=r"^epoch 2, validation: scores are NaN, .*; try a lower optim\.lr$"):
        run_training(config(), workspace)
    (name,) = workspace.root.child("runs").names()
    story = _story(workspace.run(name))
    assert story.status == "failed"
    assert workspace.run(name).child("checkpoints").names() == ("epoch-0001",)


def test_float64_learns_in_double_precision(workspace):
    result = run_training(config(train__precision="float64", train__epochs=1), workspace)
    state = load(weights(result))
    assert {value.dtype for value in state.values() if value.is_floating_point()} == {torch.float64}


def test_a_family_without_components_cannot_serve_an_objective_over_them(workspace):
    with pytest.raises(InputError, match="use objective=ranking"):
        run_training(override(config(), {"objective": "univse"}), workspace)
