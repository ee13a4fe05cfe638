"""The public interface: its examples run, its names load lazily, its errors name what is wrong."""

import doctest
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vse
import vse.api
from vse.errors import InputError
from vse.stages.measuring.stage import measure_run
from vse.workspace.journal import read


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> vse.Run:
    return vse.train("vsepp_tiny", tmp_path_factory.mktemp("api") / "workspace", train__epochs=1)


@pytest.mark.process
def test_importing_the_package_imports_no_library() -> None:
    code = (
        "import sys, vse; print(sorted({'torch', 'ray', 'mlflow', 'numpy', 'pandas'} & sys.modules.keys()), dir(vse));"
        "print(vse.presets.names())"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("[] ")
    assert all(name in printed for name in (*vse.__all__, "'vsepp_tiny'"))


def test_every_public_name_is_documented() -> None:
    assert set(vse.__all__) <= vars(vse.api).keys()
    for name in vse.__all__:
        assert getattr(vse, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        vse.__getattr__("nothing")


def test_errors_that_docstrings_name_can_be_imported() -> None:
    assert issubclass(vse.InputError, ValueError)
    assert issubclass(vse.Diverged, RuntimeError)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text()
    assert [name for name in vse.__all__ if f".{name}\n" not in page] == []


@pytest.mark.seconds
def test_the_examples_of_the_docstrings_run(run: vse.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(run.workspace.root.uri).parent)
    names = {"vse": vse}
    runner, finder = doctest.DocTestRunner(), doctest.DocTestFinder(recurse=False)
    for function in (vse.train, vse.evaluate, vse.outcomes, vse.load, vse.runs):
        for test in finder.find(function, function.__name__, globs=names):
            test.globs = names
            assert test.examples, function
            failures = runner.run(test, clear_globs=False)
            assert failures.failed == 0, function


@pytest.mark.seconds
def test_a_finished_run_is_not_trained_again(run: vse.Run) -> None:
    again = vse.train(
        vse.preset("vsepp_tiny", **{"train.epochs": 1}), run.workspace, on_epoch=lambda _: pytest.fail("trained again")
    )
    assert (again.name, again.metrics, again.history) == (run.name, run.metrics, run.history)
    assert [each.name for each in vse.runs(run.workspace)] == [run.name]
    assert run.parameters["train.epochs"] == 1
    assert run.parameters["model"] == "vsepp"
    assert run.history[0]["val/rsum"] == run.metrics["val/rsum"]


@pytest.mark.seconds
def test_a_loaded_model_embeds_and_scores(run: vse.Run, tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (64, 64), "red").save(tmp_path / "red.png")
    model = vse.load(run.name, run.workspace)
    images, captions = model.encode_images([tmp_path / "red.png"]), model.encode_captions(["a red ball", "dogs"])
    scores = model.scores([tmp_path / "red.png"], ["a red ball", "dogs"])
    np.testing.assert_allclose(scores, images @ captions.T, atol=1e-5)
    assert vse.evaluate(run, tasks=" retrieval ") == vse.evaluate(run, tasks=["retrieval"])
    assert len(vse.outcomes(run, tasks="retrieval")) == len(vse.outcomes(run, tasks=["retrieval"]))


@pytest.mark.seconds
def test_a_split_has_images_that_can_be_opened_and_encoded(run: vse.Run) -> None:
    test = run.split("test")
    assert len(test.captions) == len(test.caption_to_image)
    picture = vse.open_image(test.images[0].uri)
    assert picture.mode == "RGB"
    model = vse.load(run)
    scores = model.scores([image.uri for image in test.images], [caption.text for caption in test.captions])
    first = (scores.argmax(1)[:, None] == np.arange(len(test.captions))) & (
        test.caption_to_image == np.arange(len(test.images))[:, None]
    )
    assert 100 * first.any(1).mean() == pytest.approx(vse.evaluate(run)["test/i2t/r1"])


@pytest.mark.seconds
@pytest.mark.slow
def test_adversaries_are_those_of_the_attacks(run: vse.Run) -> None:
    frame = vse.adversarial_captions(run)
    assert list(frame) == ["attack", "image", "caption", "adversary"]
    assert {"object", "attribute", "relation"} <= set(frame["attack"])
    rows = frame.to_dict("records")
    assert all(row["caption"] != row["adversary"] for row in rows)
    queries = vse.outcomes(run, tasks=["attacks"]).to_dict("records")
    counted = sum(row["adversaries"] for row in queries if row["task"] == "attack_object")
    assert counted == sum(row["attack"] == "object" for row in rows)


@pytest.mark.seconds
@pytest.mark.slow
def test_results_without_rows_are_one_line(run: vse.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^tasks=true_pairs: has no rows of single queries, only numbers"):
        vse.outcomes(run, tasks=["true_pairs"])
    assert len(vse.adversarial_captions(run, words="published"))
    nothing = SimpleNamespace(texts={"object": ()}, caption={"object": np.array([], int)})
    monkeypatch.setattr(vse.api, "attack_split", lambda *given: nothing)
    with pytest.raises(InputError, match=r"^split=test: no attack finds a word to change in its captions$"):
        vse.adversarial_captions(run)


@pytest.mark.seconds
def test_what_was_measured_is_in_the_journal_once(run: vse.Run) -> None:
    """Also if it was measured before without a record, as in a process that was killed."""
    path = run.folder.local("journal.jsonl")

    def records() -> int:
        return sum('"test/rsum"' in line for line in path.read_text().splitlines())

    value = vse.evaluate(run)["test/rsum"]
    vse.evaluate(run)
    assert read(path).latest()["test/rsum"] == value
    assert records() == 1
    other = vse.train("vsepp_tiny", run.workspace, train__epochs=1, seed=1)
    value = measure_run(other.folder, other.workspace)["test/rsum"]
    assert "test/rsum" not in read(other.folder.local("journal.jsonl")).latest()
    vse.compare([run, other])
    assert read(other.folder.local("journal.jsonl")).latest()["test/rsum"] == value
    assert records() == 1


@pytest.mark.seconds
def test_names_of_metrics_begin_with_what_was_altered(run: vse.Run) -> None:
    assert all(name.startswith("folds-2/test/") for name in vse.evaluate(run, folds=2))
    assert "val/rsum" in vse.evaluate(run, splits=["val"])


@pytest.mark.seconds
def test_runs_are_compared_with_the_first(run: vse.Run) -> None:
    other = vse.train("vsepp_tiny", run.workspace, train__epochs=1, seed=1)
    frame = vse.compare([run, other])
    row = next(row for row in frame.to_dict("records") if row["metric"] == "rsum")
    assert row["baseline"] == pytest.approx(vse.evaluate(run)["test/rsum"])
    assert row["difference"] == pytest.approx(row["value"] - row["baseline"])
    assert row["low"] <= row["difference"] <= row["high"]
    with pytest.raises(InputError, match="name two runs or more"):
        vse.compare([run])


def test_wrong_names_are_one_line(run: vse.Run) -> None:
    untyped: Any = vse
    elsewhere = vse.Workspace.open("elsewhere")
    for call, text in (
        (lambda: vse.preset("vsepp_tinny"), "did you mean vsepp_tiny"),
        (lambda: vse.preset("vsepp_tiny", optim__rate=1), "optim.rate: no such key"),
        (lambda: vse.preset("vsepp_tiny", optim__lr=1.0, **{"optim.lr": 2.0}), "^optim.lr: given twice, also as opt"),
        (lambda: vse.train("vsepp_tiny", "elsewhere", text__parser__pipeline="nope"), "^text.parser.pipeline=nope: ne"),
        (lambda: vse.runs("elsewhere"), r"^workspace=.*/elsewhere: no such workspace$"),
        (lambda: vse.load("none", run.workspace), "run=none: no such run; there are vsepp-scenes-"),
        (lambda: vse.load(run, optim__lr=1.0), "^optim.lr: only training reads it; name keys of model, features or "),
        (lambda: vse.load(run, seed=5), "^seed: only training reads it"),
        (lambda: vse.load(run, text__min_count=7), "^text.min_count: only training reads it"),
        (lambda: vse.compare([run, replace(run, workspace=elsewhere)]), "^runs: vsepp.* is in .*, and the first in "),
        (lambda: vse.evaluate(run, tasks=["speed"]), "tasks=speed"),
        (lambda: vse.evaluate(run, splits=["nowhere"]), "no split 'nowhere'"),
        (lambda: vse.evaluate(run, splits=["nowhere"], adversaries__contrast="published"), "no split 'nowhere'"),
        (lambda: vse.evaluate(run, adversaries__contrast="paper"), "contrast=paper: expected ours or published"),
        (lambda: untyped.preset(3), "^config: expected the name of a preset or a configuration, got int$"),
        (lambda: untyped.train(None), "^config: expected the name of a preset or a configuration, got NoneType$"),
        (lambda: untyped.evaluate(run, tasks=3), "^tasks: expected a list of names of tasks, got one int$"),
        (lambda: untyped.evaluate(run, tasks=[3]), "^tasks: expected names of tasks, got int$"),
        (lambda: untyped.evaluate([run]), "^run: expected a run or its name, got list$"),
        (lambda: vse.compare(run.name, run.workspace), "^runs: expected a list of runs or their names, got one str$"),
        (lambda: untyped.compare(run), "^runs: expected a list of runs or their names, got one Run$"),
        (lambda: untyped.compare([run, 3]), "^runs: expected runs or their names, got int$"),
        (lambda: vse.open_image("nope.png"), r"^image nope\.png: file is missing$"),
        (lambda: vse.open_image("https://x.org/a.png"), "a.png: web addresses are not read; download the file$"),
        (lambda: vse.adversarial_captions(run, words="foo"), "^words=foo: expected shared, disjoint or published$"),
    ):
        with pytest.raises(InputError, match=text):
            call()
