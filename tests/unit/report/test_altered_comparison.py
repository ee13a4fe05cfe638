"""A comparison says how it was measured, if not as the runs are configured: in names, notes and the protocol."""

import csv
import io
import re

import pytest

from tests.unit.report.pages import SVG, Outline
from tests.unit.report.test_comparison_page import MADE
from vse.config import override
from vse.data.sources.scenes import Scenes
from vse.presets import preset
from vse.report.comparison_build import CompareOptions, arranged, compare_runs
from vse.report.comparison_page import comparison_page, terminal_lines, to_csv, to_data
from vse.stages.measuring.options import MeasureOptions
from vse.stages.train import run_training
from vse.workspace.layout import Workspace

SIZES = {"data.num_train": 30, "data.num_val": 4, "data.num_test": 12, "data.num_shifted": 4, "train.epochs": 1}
NOTE = "altered measurement (folds-3): its numbers are not comparable with unaltered ones"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("altered") / "workspace"))


@pytest.fixture(scope="module")
def runs(place: Workspace) -> tuple[str, ...]:
    return tuple(
        run_training(override(preset("vsepp_tiny"), {**SIZES, "model.dim": dim}), place).run for dim in (32, 48)
    )


@pytest.mark.seconds
def test_folds_are_named_wherever_numbers_are_shown(place: Workspace, runs: tuple[str, ...]) -> None:
    plain = compare_runs(place, CompareOptions(runs=runs, tasks=("retrieval",)))
    found = compare_runs(place, CompareOptions(runs=runs, tasks=("retrieval",), measure=MeasureOptions(folds=3)))
    assert (list(plain.lines), plain.altered, plain.notes) == (["test"], "", ())
    assert (list(found.lines), found.altered, found.notes) == (["folds-3/test"], "folds-3", (NOTE,))
    assert all(line.key.label == "folds-3/test" for line in found.lines["folds-3/test"])
    assert found.lines["folds-3/test"][0].values[0] > plain.lines["test"][0].values[0]  # of fewer candidates
    page = Outline(comparison_page(found, {"folds-3/test": SVG}, MADE)).text
    for words in ("altered measurement folds-3", "split folds-3/test", NOTE, "retrieval: folds-3/test"):
        assert words in page
    text = list(terminal_lines(found))
    assert NOTE in text
    assert any(re.fullmatch(r"folds-3/test: 12 images, \d+ captions in 3 folds; percent; .*", line) for line in text)
    assert any("each query ranks only the images or captions of its own fold" in line for line in text)
    rows = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert all(row["metric"].startswith("folds-3/test/") for row in rows)
    data = to_data(found)
    assert (data["altered"], list(data["splits"])) == ("folds-3", ["folds-3/test"])
    assert "altered" not in Outline(comparison_page(plain, {"test": SVG}, MADE)).text


@pytest.mark.seconds
def test_the_data_that_runs_share_are_read_once(
    place: Workspace, runs: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_runs(place, CompareOptions(runs=runs, tasks=("retrieval",)))
    read, describe = list[str](), Scenes.describe
    monkeypatch.setattr(Scenes, "describe", lambda self: read.append("read") or describe(self))
    compare_runs(place, CompareOptions(runs=runs, tasks=("retrieval",)))
    assert read == ["read"]


@pytest.mark.seconds
def test_every_alteration_has_a_note(place: Workspace, runs: tuple[str, ...]) -> None:
    def notes(**measure: object) -> list[str]:
        return arranged(place, CompareOptions(runs=runs, measure=MeasureOptions(**measure)))[1]

    assert notes() == notes(protocol="coco_1k", splits=("val",)) == []
    assert "(alpha-0.6_components-object_drop-0.3)" in "".join(
        notes(alpha=0.6, components=("object",), drop_components=0.3)
    )
    assert notes(on=("path=a/f30k",)) == ["measured on other data (path=a/f30k), attacked with words of its own"]
    assert len(notes(on=("path=a/f30k",), folds=5)) == 2
