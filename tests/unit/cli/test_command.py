"""The frame of all jobs: what is printed where, and with which exit status."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import s3
from vse import registry
from vse.cli import command
from vse.config import group, knob, part
from vse.data.sources.scenes import Scenes
from vse.errors import Diverged, InputError, TrialsFailedError, WorkersLostError
from vse.storage.folder import Folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Optim:
    lr: float = knob(2e-4, "learning rate", above=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Train:
    warm_start: str = knob("", "a run with the first weights")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    optim: Optim = field(default_factory=Optim)
    epochs: int = knob(3, "passes over the training split", low=0)
    train: Train = field(default_factory=Train)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    seeds: int = knob(3, "how many seeds", low=1)
    warm_start: str = knob("", "a sweep to learn from")


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    sweep: Sweep = field(default_factory=Sweep)


class Presets:
    def names(self) -> tuple[str, ...]:
        return ("tiny", "long")

    def preset(self, name: str) -> RunConfig:
        if name not in self.names():
            raise InputError(f"preset {name!r}: unknown; expected one of tiny, long")
        return RunConfig(epochs=30 if name == "long" else 3)


def call(*argv: str, run: Callable[[command.Request], Any] | None = None, **extra: Any) -> tuple[int, Any]:
    seen: list[command.Request] = []

    def record(request: command.Request) -> str:
        seen.append(request)
        return "/somewhere/summary.json"

    status = command.main(
        "demo",
        run or record,
        description="A demonstration.",
        default_preset="tiny",
        options=Options(),
        presets=Presets(),
        argv=list(argv),
        **extra,
    )
    return status, seen[0] if seen else None


@pytest.mark.process
def test_a_reader_who_has_seen_enough_gets_no_traceback() -> None:
    program = "from vse.cli.command import main; import sys; sys.exit(main('wide', print, description='x ' * 100000))"
    done = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "{program}" --help | head -1; exit ${{PIPESTATUS[0]}}'],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("usage:")
    assert done.stderr == ""
    assert done.returncode == 128 + signal.SIGPIPE


def test_settings_reach_the_job(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("VSE_WORKSPACE", raising=False)
    status, request = call("optim.lr=1e-3", "--preset", "long", "sweep.seeds=5")
    assert status == 0
    assert request.config == RunConfig(optim=Optim(lr=1e-3), epochs=30)
    assert request.options == Options(sweep=Sweep(seeds=5))
    assert request.changed == {"optim.lr", "sweep.seeds"}
    assert request.workspace == str(Path("workspace").resolve())
    assert capsys.readouterr().out.splitlines()[-1] == "/somewhere/summary.json"


@pytest.mark.parametrize(
    ("given", "environment", "expected"),
    [("/a/b", "/c", "/a/b"), (None, "/c", "/c"), ("s3://bucket/x/", None, "s3://bucket/x"), ("file:///q", None, "/q")],
)
def test_workspace_comes_from_the_argument_then_the_environment(
    given: str | None, environment: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VSE_WORKSPACE", raising=False)
    if environment:
        monkeypatch.setenv("VSE_WORKSPACE", environment)
    assert call(*(["--workspace", given] if given else []))[1].workspace == expected


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["optim.lrr=1"], ["optim.lrr", "did you mean optim.lr?"]),
        (["optim.lr=fast"], ["optim.lr=fast", "a number"]),
        (["optim.lr=0"], ["optim.lr=0", "greater than 0"]),
        (["sweep.seeds=0"], ["sweep.seeds=0", ">= 1"]),
        (["sweep.seed=2"], ["sweep.seed", "did you mean sweep.seeds?"]),
        (["epochs"], ["epochs", "key=value"]),
        (["epochs=1", "epochs=2"], ["epochs", "twice"]),
        (["--presett", "x"], ["--presett"]),
        (["--preset", "nope"], ["preset 'nope': unknown; expected one of tiny, long"]),
        (["--preset", "tinny"], ["preset 'tinny': unknown; expected one of tiny, long"]),
        (["--help", "optim.lrr=1"], ["optim.lrr", "did you mean optim.lr?"]),
        (["--preset", "/no/such/file.json"], ["/no/such/file.json", "No such file"]),
        (["--workspace"], ["--workspace"]),
        (["--workspace="], ["--workspace: is empty", "s3://bucket/prefix"]),
        (["--workspace", "s3://"], ["--workspace s3://: names no bucket", "s3://bucket/prefix"]),
        (["--workspace", "s3:///x"], ["--workspace s3:///x: names no bucket"]),
        (["--workspace", "what?x"], ["--workspace what?x", "cannot have a '?'"]),
        (["--workspace", "~nobody-at-all/x"], ["~nobody-at-all/x: no home directory of ~nobody-at-all"]),
        (["--preset", "~nobody-at-all/x.json"], ["no home directory of ~nobody-at-all"]),
        (["--workspace", "s3://id:secret@bucket/x"], ["--workspace: holds a credential", "AWS_SECRET_ACCESS_KEY"]),
    ],
)
def test_wrong_input_is_one_line_and_status_two(
    argv: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, request = call(*argv)
    told = capsys.readouterr()
    assert (status, request, told.out) == (2, None, "")
    assert len(told.err.splitlines()) == 1
    assert all(word in told.err for word in words), told.err


@dataclass(frozen=True, kw_only=True, slots=True)
class Sentences:
    """Options with a key that may be given several times."""

    text: tuple[str, ...] = knob((), repeated=True)
    top: int = knob(10)


def test_a_key_of_sentences_is_given_once_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[command.Request] = []
    given = ["text=a dog, black", "top=3", "text=a=b"]
    for argv in (given, ["text=[a, b]"], []):
        assert command.main("demo", seen.append, description="", options=Sentences(), argv=argv) == 0
    assert [request.options.text for request in seen] == [("a dog, black", "a=b"), ("[a, b]",), ()]
    assert seen[0].changed == {"text", "top"}
    assert command.main("demo", seen.append, description="", options=Sentences(), argv=["top=1", "top=2"]) == 2
    assert "top: given twice, as 1 and 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["sweep.warm_start=/My", "Photos"], 'Photos: expected key=value; quote a value with spaces ("key=a value")'),
        (["=3"], "=3: expected key=value; quote a value"),
        (["long"], "long: expected key=value; did you mean --preset long?"),
    ],
)
def test_a_word_that_is_no_setting(argv: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*argv) == (2, None)
    assert capsys.readouterr().err.startswith(f"demo: {line}")


@pytest.mark.process
def test_a_file_in_a_bucket_is_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    with s3.server() as place:
        folder = Folder.open(s3.address(place, "presets"))
        folder.write_json("best.json", {"preset": "long", "optim": {"lr": 0.5}})
        status, request = call("--preset", folder.address("best.json"))
        assert (status, request.config.optim.lr) == (0, 0.5)
        status, _ = call("--preset", folder.address("other.json"))
    assert status == 2
    assert "other.json" in (error := capsys.readouterr().err)
    assert "No such file" in error


def test_a_file_is_a_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"preset": "long", "optim": {"lr": 0.5}, "sweep": {"seeds": 7}}))
    status, request = call("--preset", str(file), "optim.lr=0.25")
    assert status == 0
    assert request.config == RunConfig(optim=Optim(lr=0.25), epochs=30)
    assert request.options.sweep.seeds == 7
    assert request.changed == {"optim.lr", "sweep.seeds"}
    for text, word in (("{", "not JSON"), ("[1]", "an object"), ('{"optim": {"lrr": 1}}', "optim.lrr")):
        file.write_text(text)
        assert call("--preset", str(file))[0] == 2
        told = capsys.readouterr().err
        assert str(file) in told
        assert word in told


def test_keys_beside_a_preset_are_those_that_change_it(tmp_path: Path) -> None:
    assert call("optim.lr=1e-3", "sweep.seeds=5")[1].overrides == ("optim.lr",)
    assert call("optim.lr=2e-4", "epochs=3")[1].overrides == ()  # as the preset has them
    assert call("--preset", "long", "epochs=3")[1].overrides == ("epochs",)
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"preset": "long", "optim": {"lr": 0.5}}))
    assert call("--preset", str(file))[1].overrides == ()
    assert call("--preset", str(file), "optim.lr=2e-4")[1].overrides == ("optim.lr",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Grouped(RunConfig):
    """A run configuration with values of a group by name."""

    optim: Optim = group(Optim(), {"usual": Optim(), "fast": Optim(lr=0.1)}, "how it learns")


class GroupedPresets(Presets):
    def preset(self, name: str) -> Any:
        return Grouped()


def test_a_name_of_a_group_sets_its_keys(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"optim": "fast", "epochs": 5}))
    seen: list[command.Request] = []
    run = partial(command.main, "demo", seen.append, description="")
    for argv in (["optim=fast"], ["--preset", str(file)], ["--preset", str(file), "optim.lr=0.2"]):
        assert run(default_preset="tiny", presets=GroupedPresets(), argv=argv) == 0
    assert [request.config.optim.lr for request in seen] == [0.1, 0.1, 0.2]
    assert [request.overrides for request in seen] == [("optim",), (), ("optim.lr",)]
    assert [request.changed for request in seen] == [{"optim.lr"}, {"optim.lr", "epochs"}, {"optim.lr", "epochs"}]
    assert run(options=Grouped(), argv=["optim=fast"]) == 0  # a key of the job
    assert seen[-1].options.optim.lr == 0.1


def test_help_lists_every_key_with_type_and_default(capsys: pytest.CaptureFixture[str]) -> None:
    status, request = call("--help", "--preset", "long")
    told = capsys.readouterr().out
    assert (status, request) == (0, None)
    for line in ("optim.lr=0.0002  [a number] learning rate", "epochs=30  [an integer]", "sweep.seeds=3", "tiny long"):
        assert line in told
    assert "run configuration (default: tiny; names are listed below)" in " ".join(told.split())


@dataclass(frozen=True, kw_only=True, slots=True)
class Optics:
    """A run configuration with a component in it."""

    data: registry.ComponentConfig = part("source", default=Scenes.Config(), doc="images and captions")


class OpticsPresets(Presets):
    def preset(self, name: str) -> Any:
        return Optics()


def test_help_lists_the_keys_of_what_is_set(capsys: pytest.CaptureFixture[str]) -> None:
    def told(*argv: str) -> str:
        status = command.main(
            "demo", print, description="", default_preset="tiny", presets=OpticsPresets(), argv=["--help", *argv]
        )
        assert status == 0
        return capsys.readouterr().out

    assert "data.num_train=700" in told()
    assert "data.root=" not in told()
    assert 'data.root="/photographs"' in told("data=karpathy", "data.root=/photographs")
    assert "data.num_train" not in told("data=karpathy")


def test_dry_run_plans_and_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status, request = call("--dry-run", "epochs=9", plan=lambda r: [f"would train {r.config.epochs} epochs"])
    told = capsys.readouterr().out
    assert (status, request) == (0, None)
    assert "would train 9 epochs" in told
    assert "epochs=9  (set)" in told

    def refuse(request: command.Request) -> list[str]:
        raise InputError("cluster.gpus=4: there is no GPU here")

    assert call("--dry-run", plan=refuse)[0] == 2
    assert capsys.readouterr().out == ""
    call("--dry-run")
    assert "checked: keys and values of settings; nothing else" in capsys.readouterr().out


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    run: tuple[str, ...] = knob((), "runs to measure")
    sweep: str = knob("", "a sweep")


def measured(workspace: str, *argv: str) -> tuple[int, Any]:
    seen: list[Any] = []
    status = command.main(
        "measure",
        lambda request: seen.append(request.options),
        description="",
        options=Measured(),
        argv=["--workspace", workspace, *argv],
    )
    return status, seen[0] if seen else None


def test_runs_are_named_as_jobs_print_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space = tmp_path / "space"
    for given in ("a", "runs/a", "./runs/a/", "space/runs/a", f"{space}/runs/a", f"file://{space}/runs/a/summary.json"):
        status, options = measured("space", f"run={given},b")
        assert (status, options.run) == (0, ("a", "b")), given
    assert measured("space", f"sweep={space}/sweeps/s/summary.json")[1].sweep == "s"
    for given in (f"{tmp_path}/other/runs/a", "../runs", "/runs/a", "sweeps/a"):
        assert measured("space", f"run={given}")[1].run == (given,)
    remote = "s3://bucket/x?scheme=http"
    for given in ("runs/a", "s3://bucket/x/runs/a?scheme=http", "s3://bucket/x/runs/a/summary.json?scheme=http"):
        assert measured(remote, f"run={given}")[1].run == ("a",), given
    assert measured(remote, "run=s3://bucket/y/runs/a")[1].run == ("s3://bucket/y/runs/a",)
    assert measured("space", "run=space/runs/a/evaluation/summary-0123abcd.json")[1].run == ("a",)

    warm = ("train.warm_start=space/runs/a/summary.json", "sweep.warm_start=space/sweeps/s")
    request = call("--workspace", "space", *warm)[1]
    assert (request.config.train.warm_start, request.options.sweep.warm_start) == ("a", "s")


def test_a_dry_run_looks_for_the_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    assert measured(str(tmp_path), "--dry-run", "run=runs/a") == (0, None)
    assert "checked: keys and values of settings, that run=a is there; nothing else" in capsys.readouterr().out
    for argv, line in (
        (["run=a,b"], "measure: run=b: no such run; there are a (unfinished)\n"),
        ([], "measure: run: name one of a (unfinished)\n"),
        (["run=a", "sweep=s"], f"measure: sweep=s: no such sweep; the workspace {tmp_path} has none\n"),
    ):
        assert measured(str(tmp_path), "--dry-run", *argv) == (2, None)
        told = capsys.readouterr()
        assert (told.out, told.err) == ("", line)


def test_a_job_without_run_configuration() -> None:
    def status(*argv: str) -> int:
        return command.main("parse", lambda r: r.options, description="", options=Options(), argv=argv)

    assert status("sweep.seeds=2") == 0
    assert status("optim.lr=2") == 2
    assert status("--preset", "tiny") == 2


class TaskError(Exception):
    """As Ray wraps what a task raised."""

    def __init__(self, cause: Exception) -> None:
        self.cause = cause
        super().__init__("a\nlong\nremote traceback")


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (InputError("data.root=/x: no\n such folder"), 2, "demo: data.root=/x: no such folder\n"),
        (TaskError(InputError("image 7 is broken")), 2, "demo: image 7 is broken\n"),
        (Diverged("epoch 2:\n sent is nan"), 1, "demo: epoch 2: sent is nan; finished work is kept\n"),
        (WorkersLostError("workers were lost"), 1, "demo: workers were lost; finished work is kept, and the same"),
        (TaskError(Diverged("sent is nan")), 1, "demo: sent is nan; finished work is kept\n"),
        (TrialsFailedError("2 trials failed"), 1, "demo: 2 trials failed; finished work is kept\n"),
        (ZeroDivisionError("by zero"), 1, "ZeroDivisionError"),
        (RuntimeError("postgresql://me:hunter22@host/db"), 1, "postgresql://me:[hidden]@host/db"),
        (KeyboardInterrupt(), 130, "stopped"),
        (SystemExit(15), 143, "stopped"),
        (SystemExit(143), 143, "stopped"),
    ],
)
def test_exit_statuses(error: BaseException, status: int, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(request: command.Request) -> None:
        raise error

    assert call(run=fail)[0] == status
    told = capsys.readouterr()
    assert word in told.err
    assert told.out == ""
    assert "hunter22" not in told.err
    assert ("Traceback" in told.err) == (type(error) in (ZeroDivisionError, RuntimeError))
