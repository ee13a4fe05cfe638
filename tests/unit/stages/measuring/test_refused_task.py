"""A task that ends without numbers takes none from the others, and what can be known beforehand a dry run says."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.asked import asked
from vse.data.records import Image, Records
from vse.data.sources.scenes import Scenes
from vse.errors import InputError
from vse.evaluation.task import Subject
from vse.evaluation.tasks import attacks, retrieval, true_pairs
from vse.evaluation.tasks.gaussian_codes import GaussianCodesTask
from vse.stages.measuring.checks import foresee_measure
from vse.stages.measuring.stage import measure_run
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

CHANGES = {"data.num_val": 4, "data.num_test": 6, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 32}


def raising(error: type[BaseException]) -> Callable[..., Any]:
    def measure(*arguments: Any) -> Any:
        raise error("a file is missing")

    return measure


@pytest.mark.seconds
@pytest.mark.parametrize("refused", ["retrieval", "attacks", "true_pairs"])
def test_the_other_tasks_are_kept(
    place: Workspace, vsepp: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refused: str
) -> None:
    modules: dict[str, Any] = {"retrieval": retrieval, "attacks": attacks, "true_pairs": true_pairs}
    tasks = {name: vars(modules[name])[f"{name.title().replace('_', '')}Task"] for name in modules}
    options = {"splits": ("test", "val"), "drop_seed": 1 + sorted(tasks).index(refused)}  # numbers of this test alone
    others = [name for name in tasks if name != refused]
    with monkeypatch.context() as patch:
        patch.setattr(tasks[refused], "measure", raising(InputError))
        with pytest.raises(InputError, match=r"^a file is missing$"):
            measure_run(vsepp, place, *asked(*tasks, **options))
    assert f"tasks={refused}: ends without numbers: a file is missing" in caplog.text
    for name in others:
        monkeypatch.setattr(tasks[name], "measure", lambda *_: pytest.fail("measured again"))
    kept = measure_run(vsepp, place, *asked(*others, **options))
    assert {name.split("/")[0] for name in kept} == {"test", "val"}
    assert kept.items() < measure_run(vsepp, place, *asked(*tasks, **options)).items()


@pytest.mark.seconds
def test_a_task_that_has_ended_is_kept_if_the_next_is_killed(
    place: Workspace, vsepp: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(attacks.AttacksTask, "measure", raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            measure_run(vsepp, place, *asked("retrieval", "attacks", splits=("shifted",)))
    monkeypatch.setattr(retrieval.RetrievalTask, "measure", lambda *_: pytest.fail("measured again"))
    assert measure_run(vsepp, place, *asked("retrieval", "attacks", splits=("shifted",)))


@pytest.mark.seconds
def test_a_dry_run_says_what_a_key_needs(place: Workspace, univse: Folder) -> None:
    options = asked("retrieval", "grounding", grounding__map="attention")
    lines = list(foresee_measure([univse], place, *options))
    assert "tasks: retrieval" in lines
    assert "grounding: n/a: needs attention over regions, which SCAN has, or measure.grounding.map=similarity" in lines
    assert measure_run(univse, place, *options) == measure_run(univse, place, *asked("retrieval"))


def test_codes_of_few_images_are_not_compared_with_the_prior() -> None:
    images = tuple(Image(str(k), f"{k}.png", "test" if k < 3 else "val") for k in range(7))
    family: Any = SimpleNamespace(image_codes=len, caption_codes=len)

    def missing(*splits: str) -> str:
        subject = Subject((family,), Scenes, Records("made up", images, ()), own_data=True, splits=splits)
        return GaussianCodesTask().missing(subject)

    assert missing("val") == ""
    assert missing("val", "test") == "4 images, but split test has 3"


@pytest.mark.seconds
def test_numbers_of_a_run_that_may_only_be_read_are_kept(
    place: Workspace, vsepp: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a colleague's run, whose files keep the time of their last request."""
    options = asked("retrieval", splits=("test", "shifted"))
    first = measure_run(vsepp, place, *options)

    def refuse(folder: Folder, name: str, data: bytes) -> None:
        raise InputError(f"{folder}: cannot write {name} (Permission denied)")

    monkeypatch.setattr(Folder, "write_bytes", refuse)
    monkeypatch.setattr(retrieval.RetrievalTask, "measure", lambda *_: pytest.fail("measured again"))
    assert measure_run(vsepp, place, *options) == first
