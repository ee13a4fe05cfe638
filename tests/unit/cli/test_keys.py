"""What is told of unknown keys and names: hints that the same command accepts, and the jobs that have the key."""

import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.levels import slow_but
from tests.unit.write_job_keys import COMPLETION_FILE, FILE, JOBS, as_json, completion_as_json, declared
from vse import registry
from vse.cli import command
from vse.cli.keys import has_key, help_lines
from vse.config import A_KEY_OF, flatten
from vse.presets import names, preset
from vse.stages.measuring.options import MeasureOptions
from vse.training.config import RunConfig

ALIKE = ("sweep_lambda", "sweep_margin")  # have the keys of sweep_eta
NAMES = sorted(file.stem for file in JOBS.glob("*.py") if file.stem not in ("__init__", *ALIKE))
# Those that are asked most, among them some of each turn below and `train`, which has most keys.
EVERY_PUSH = ("evaluate", "report", "sweep_alpha", "train")


@pytest.fixture(scope="module")
def jobs() -> dict[str, dict[str, Any]]:
    """By name, what each job gives to `command.main`, less the work and its plan."""
    return {name: {key: each for key, each in given.items() if key != "plan"} for name, given in declared().items()}


def test_the_keys_of_all_jobs_are_listed(jobs: dict[str, dict[str, Any]]) -> None:
    again = "run: python -m tests.unit.write_job_keys"
    assert FILE.read_text(encoding="utf-8") == as_json(jobs), again
    assert COMPLETION_FILE.read_text(encoding="utf-8") == completion_as_json(jobs), again


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings are meant here, not what they name."""
    monkeypatch.setattr(command, "check_addresses", lambda *given, **more: None)


class Command:
    """A job that is started without its work."""

    def __init__(self, name: str, given: Mapping[str, Any], out: pytest.CaptureFixture[str]) -> None:
        self.name, self.given, self.out = name, given, out

    def told(self, *argv: str) -> str:
        """What a refused command says, without the job's name; empty where it is accepted."""
        status = command.main(self.name, lambda request: "done", argv=argv, **self.given)
        told = self.out.readouterr().err
        assert status == (2 if told else 0), told
        assert len(told.splitlines()) == (1 if told else 0), told
        return told.removeprefix(f"{self.name}: ").rstrip()

    def check_hints(self, told: str, key: str, value: str, rest: tuple[str, ...] = ()) -> list[str]:
        """Every hint is accepted in place of the key or its value; returns the jobs that are named."""
        unknown_value = told.startswith(f"{key}={value}: ")
        meant = re.search(r"did you mean ([^?]*)\?", told)
        for other in meant.group(1).split(", ") if meant else ():
            assert not self.told(*rest, f"{key}={other}" if unknown_value else f"{other}={value}"), (told, other)
        elsewhere = re.search(rf"{A_KEY_OF} (.*?)( and \d+ more)?$", told)
        named = elsewhere.group(1).split(", ") if elsewhere else []
        for component in (each for each in named if "=" in each):
            assert not self.told(*rest, component, f"{key}={value}"), (told, component)
        return [each for each in named if each.startswith("jobs/")]


def as_typed(value: Any) -> str:
    return ",".join(map(as_typed, value)) if isinstance(value, tuple) else "none" if value is None else str(value)


def keys_of(given: Mapping[str, Any]) -> dict[str, str]:
    """All keys of a job with values as they are typed."""
    config = flatten(preset(given["default_preset"])) if "default_preset" in given else {}
    return {key: as_typed(value) for key, value in {**flatten(given["options"]), **config}.items()}


@pytest.mark.seconds
@pytest.mark.parametrize("name", slow_but(NAMES, *EVERY_PUSH))
def test_a_key_of_other_jobs_names_them(
    name: str, jobs: Mapping[str, Mapping[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    own, this = keys_of(jobs[name]), Command(name, jobs[name], capsys)
    others = {key: value for other in NAMES for key, value in keys_of(jobs[other]).items()}
    turn = NAMES.index(name) % 4  # each job meets a quarter of the keys, each key a quarter of the jobs
    for key, value in [*others.items()][turn::4]:
        if key in own or any(each.startswith(f"{key}.") for each in own) or has_key(jobs[name]["options"], key):
            continue
        if "default_preset" in jobs[name] and key.split(".")[0] in RunConfig.__dataclass_fields__:
            continue  # a key of another component: see below
        told = this.told(f"{key}={value}")
        if "is a value" in told:  # `seed` of one job is a group in another
            continue
        named = this.check_hints(told, key, value)
        assert named, told
        for job in named:
            theirs = jobs[Path(job).stem]
            configs = [preset(theirs["default_preset"])] if "default_preset" in theirs else []
            assert any(has_key(each, key) for each in (theirs["options"], *configs)), told


@pytest.mark.seconds
@pytest.mark.parametrize("name", slow_but(NAMES, *EVERY_PUSH))
def test_a_misspelled_key_is_told_as_the_command_takes_it(
    name: str, jobs: Mapping[str, Mapping[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    this, own = Command(name, jobs[name], capsys), keys_of(jobs[name])
    shared = flatten(preset(jobs["train"]["default_preset"])).keys() if name != "train" else ()
    for number, (key, value) in enumerate(own.items()):
        if key in shared:
            continue  # tried with the job that trains
        for wrong in (f"{key}x", f"x{key}")[: 1 if number % 4 else 2]:
            told = this.told(f"{wrong}={value}")
            this.check_hints(told, wrong, value)
            if not this.told(f"{key}={value}"):
                assert f"did you mean {key}?" in told, told


@pytest.mark.seconds
@pytest.mark.parametrize("name", slow_but(["train", "extract_features"], "train"))
def test_keys_and_names_of_components(
    name: str, jobs: Mapping[str, Mapping[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    this, config = Command(name, jobs[name], capsys), preset(jobs[name]["default_preset"])
    kinds = {"features.backbone": "backbone", "text.sentence": "sentence"}
    if name == "train":  # others read the same keys
        kinds |= {f.name: f.metadata["kind"] for f in fields(config) if "kind" in f.metadata}
    for chosen, kind in kinds.items():
        for other in registry.names(kind):
            told = this.told(f"{chosen}={other}x")
            assert f"{chosen}={other}x: unknown; " in told
            this.check_hints(told, chosen, f"{other}x")
            for below, value in flatten(registry.component(kind, other).Config()).items():
                key = f"{chosen}.{below}"
                if key not in flatten(config):
                    this.check_hints(this.told(f"{key}={as_typed(value)}"), key, as_typed(value))
    told = this.told("features.backbone=resnet50")
    assert "a network goes by features.backbone=torchvision features.backbone.arch=resnet50" in told
    assert not this.told("features.backbone=torchvision", "features.backbone.arch=resnet50")
    assert "a network goes by" not in this.told("features.backbone=resnet5")


@pytest.mark.seconds
@pytest.mark.parametrize("name", slow_but(["train", "sweep_alpha", "sweep_eta"], "train"))
def test_presets_that_are_told_are_accepted(
    name: str, jobs: Mapping[str, Mapping[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    this, hinted = Command(name, jobs[name], capsys), 0
    for wrong in (f"{each}x" for each in names()[::12]):
        told = this.told("--preset", wrong)
        meant = re.search(r"did you mean ([^?]*)\?", told)
        for other in meant.group(1).split(", ") if meant else ():
            assert not this.told("--preset", other), told
            hinted += 1
    assert hinted
    assert "unknown; --help lists all" in this.told("--preset", "univse_scenex", "train.epochs=-1")


def test_a_search_space_that_does_not_fit_is_not_told(
    jobs: Mapping[str, Mapping[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    this = Command("sweep_eta", jobs["sweep_eta"], capsys)
    assert "did you mean eta?" in this.told("sweep.space=etta")
    assert "did you mean" not in this.told("--preset", "vsepp_scenes", "sweep.space=etta")


def test_a_key_is_not_told_twice(jobs: Mapping[str, Mapping[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    this = Command("train", jobs["train"], capsys)
    assert "optim.lr?" not in this.told("optim.lr=1", "optim.lrr=2")
    assert "optim.lr?" not in this.told("optim.lrr=fast")
    jobs_with_it = "jobs/compare.py, jobs/evaluate.py, jobs/show_gallery.py"
    assert this.told("measure.splits=test") == f"measure.splits: no such key; {A_KEY_OF} {jobs_with_it}"


def test_a_key_with_keys_below_is_shown_as_an_empty_string() -> None:
    (line,) = [line for line in help_lines(MeasureOptions()) if line.startswith("  on=")]
    assert line.startswith('  on=""  [a string, and keys below] other data than the run\'s, by folder or file')
    assert ".path" not in line
