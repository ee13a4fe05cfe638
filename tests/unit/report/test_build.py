"""jobs/report.py: pages of sweeps and of runs, and what it refuses."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.report.results import made_up
from tests.unit.report.test_measured import write
from vse.cli.command import Request
from vse.config import to_dict
from vse.errors import InputError
from vse.presets import preset
from vse.report.build import ReportOptions, build_report, command_of, placed
from vse.report.saliency_figure import SaliencyFigureOptions
from vse.storage.folder import Folder
from vse.training.checkpoint import VERSION
from vse.training.run_journal import Origin, keep_origin


def request(workspace: Path, **options: Any) -> Request:
    return Request(
        job="report",
        workspace=str(workspace),
        preset=None,
        config=None,
        options=ReportOptions(**options),
        changed=frozenset(options),
        tracking=None,
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    sweep = Folder.open(tmp_path).child("sweeps", "curve-00000000")
    sweep.write_json("results.json", made_up().to_dict())
    sweep.write_json("definition.json", {"arms": {"univse": {"optim": {"lr": 0.002}}}})
    sweep.write_json("summary.json", {"command": "python jobs/sweep_alpha.py", "headline": {"alpha": 0.7}})
    for name, rsum in (("univse-s0", 300.0), ("vsepp-s0", 280.0)):
        run = Folder.open(tmp_path).child("runs", name)
        run.write_json("config.json", {"seed": 0})
        run.write_json("result.json", {"metrics": {"val/rsum": rsum, "train/loss": 1.0}})
        write(run, "a", rsum - 10)
        write(run, "b", 1.0, alpha=0.1)
    return tmp_path


@pytest.mark.seconds
def test_of_a_sweep(workspace: Path) -> None:
    path = Path(build_report(request(workspace, sweep="curve-00000000")))
    assert path == workspace / "reports" / "curve-00000000" / "summary.json"
    summary = json.loads(path.read_text())
    assert summary["headline"] == {"alpha": 0.7}
    for name in ("alpha.png", "alpha.svg", "table.csv", "table.json", "table.html", "curve.csv", "report.html"):
        assert Path(summary["outputs"][name.replace(".", "_")]) == path.with_name(name)
        assert path.with_name(name).stat().st_size > 0
    page = path.with_name("report.html").read_text()
    assert f"python jobs/sweep_alpha.py --workspace {workspace}</pre>" in page
    assert "python jobs/report.py sweep=curve-00000000" in page
    assert "0.002" in page


def test_of_runs_as_they_are_configured(workspace: Path) -> None:
    path = Path(build_report(request(workspace, runs=("univse-s0", "vsepp-s0"), name="two")))
    table = json.loads(path.with_name("table.json").read_text())
    assert table == {
        "univse-s0": {"val/rsum": 300.0, "test/rsum": 290.0},
        "vsepp-s0": {"val/rsum": 280.0, "test/rsum": 270.0},
    }
    assert "290.0" in path.with_name("report.html").read_text()


@pytest.mark.seconds
def test_a_column_says_what_its_run_is_and_whether_it_was_evaluated(workspace: Path) -> None:
    for name, changes in (("bare", {}), ("evaluated", {"data": {"name": "table", "file": "some/mine.csv"}, "seed": 3})):
        run = Folder.open(workspace).child("runs", name)
        run.write_json("config.json", to_dict(preset("vsepp_coco")) | changes)
        run.write_json("result.json", {"metrics": {"val/rsum": 300.0}})
    write(run, "a", 1.0, {"sizes": {"test": {"images": 300, "captions": 1466, "folds": 1}}})
    keep_origin(run, Origin("vsepp_coco", ("data", "data.file")))
    path = Path(build_report(request(workspace, runs=("bare", "evaluated", "vsepp-s0"))))
    page = path.with_name("report.html").read_text()
    bare, evaluated, plain = (  # each run is on data of its own, and has a table of its own
        dict(re.findall(r'<tr><th class="model">(.*?)</th><td>(.*?)</td></tr>', table))
        for table in re.findall(r"<caption>.*?</table>", page, re.DOTALL)
    )
    assert bare.items() >= {"family": "vsepp", "data set": "karpathy, dataset_coco.json", "seed": "0"}.items()
    assert evaluated.items() >= {"preset": "vsepp_coco +2 keys", "data set": "table, mine.csv", "seed": "3"}.items()
    assert evaluated["test"] == "300 images, 1,466 captions"
    assert "family" not in plain
    assert page.count("not evaluated: ") == 1
    assert f"not evaluated: bare; python jobs/evaluate.py run=bare --workspace {workspace}<" in page


def test_ensembles_are_said_to_be_told_elsewhere(workspace: Path) -> None:
    Folder.open(workspace).child("ensembles", "ensemble-01234567").write_json("journal.json", {})
    for given in ("ensemble-01234567", "ensembles/ensemble-01234567", f"{workspace}/ensembles/ensemble-01234567"):
        with pytest.raises(InputError, match=r"is an ensemble.* below .*/ensemble-01234567/evaluation$"):
            build_report(request(workspace, runs=(given,)))


@pytest.mark.seconds
def test_papers_numbers_stand_beside_runs_on_their_data(workspace: Path) -> None:
    run = Folder.open(workspace).child("runs", "vsepp-coco-s0")
    run.write_json("config.json", to_dict(preset("vsepp_coco")))
    metrics = {"test/coco_1k_folds": {"rsum": 444.4, "i2t/r1": 57.0}}
    write(run, "a", 0.0, {"metrics": metrics}, protocol="coco_1k_folds")
    path = Path(build_report(request(workspace, runs=("vsepp-coco-s0", "vsepp-s0"))))
    page = path.with_name("report.html").read_text()
    evaluate = "python jobs/evaluate.py run=vsepp-coco-s0 tasks=retrieval measure.protocol=coco_1k_folds"
    assert f"{evaluate} --workspace {workspace}</pre>" in page
    assert "<h2>Published</h2>" in page
    assert "the setting of vsepp-coco-s0 · UniVSE, Table 1" in page
    path = Path(build_report(request(workspace, runs=("vsepp-s0",))))
    assert "<h2>Published</h2>" not in path.with_name("report.html").read_text()


@pytest.mark.seconds
def test_a_data_set_is_known_by_the_name_that_it_has_in_the_workspace(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a folder that holds dataset_coco.json the configuration need not name the file."""
    run = Folder.open(workspace).child("runs", "vsepp-karpathy-s0")
    config = to_dict(preset("vsepp_coco"))
    run.write_json("config.json", {**config, "data": {**config["data"], "root": "/photographs", "file": ""}})
    write(run, "a", 0.0, {"metrics": {"test/coco_5k": {"rsum": 400.0}}}, protocol="coco_5k")

    def page() -> tuple[str, str]:
        path = Path(build_report(request(workspace, runs=("vsepp-karpathy-s0",))))
        return path.with_name("report.html").read_text(), capsys.readouterr().err

    text, told = page()
    assert "<h2>Published</h2>" not in text
    said = "vsepp-karpathy-s0: measured by coco_5k, but no published numbers are shown"
    assert said in text
    assert told.startswith(f"note: {said}")
    kept = run.child("checkpoints", "epoch-0001")
    kept.write_json("context.json", {"fingerprints": {"records": "01234567"}})
    kept.write_json("progress.json", {"version": VERSION, "epoch": 1, "best": 1})
    kept.commit_manifest(["context.json", "progress.json"])
    Folder.open(workspace).child("datasets", "coco-01234567").write_json("manifest.json", {})
    text, told = page()
    assert "<h2>Published</h2>" in text
    assert told == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "name either one sweep or some runs"),
        ({"sweep": "a", "runs": ("b",)}, "name either one sweep or some runs"),
        ({"sweep": "nope"}, "sweep=nope: no such sweep; there are curve-00000000"),
        ({"runs": ("univse-s0", "nope")}, "runs=nope: no such run; there are"),
    ],
)
def test_refusals(workspace: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_report(request(workspace, **options))


def test_an_unfinished_sweep_is_refused(workspace: Path) -> None:
    Folder.open(workspace).child("sweeps", "young-00000000").write_json("definition.json", {})
    with pytest.raises(InputError, match="sweep=young-00000000: has no results yet"):
        build_report(request(workspace, sweep="young-00000000"))


def test_the_command_holds_what_was_set(workspace: Path) -> None:
    given = request(workspace, runs=("a", "b"), name="it's")
    assert command_of(given) == f"python jobs/report.py 'name=it'\"'\"'s' runs=a,b --workspace {workspace}"


def test_texts_that_were_given_one_by_one_stay_apart(workspace: Path) -> None:
    """A sentence may contain a comma, so joined texts would be other ones."""
    sentences = ("a red ball, shiny", "two dogs")
    given = replace(
        request(workspace), options=SaliencyFigureOptions(caption=sentences), changed=frozenset({"caption"})
    )
    parts = shlex.split(command_of(given))[2:]
    assert parts == [*(f"caption={text}" for text in sentences), "--workspace", str(workspace)]


def test_a_command_names_the_workspace_unless_it_is_the_default(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied from a page without it, a command would work in ./workspace: train again, or find no such run."""
    runs = ("univse-s0", "vsepp-s0")
    command = "python jobs/evaluate.py run=univse-s0 tasks=retrieval"
    page = Path(build_report(request(workspace, runs=runs))).with_name("report.html")
    assert f"{command} --workspace {workspace}</pre>" in page.read_text()
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("VSE_WORKSPACE", "elsewhere")  # the default is what it is in a shell without it
    assert request(workspace / "elsewhere").elsewhere == ("--workspace", str(workspace / "elsewhere"))
    default = request(workspace / "workspace", runs=runs)
    assert command_of(default) == "python jobs/report.py runs=univse-s0,vsepp-s0"
    Folder.open(workspace).local("runs").rename(workspace / "moved")
    (workspace / "workspace").mkdir()
    (workspace / "moved").rename(workspace / "workspace" / "runs")
    page = Path(build_report(default)).with_name("report.html").read_text()
    assert f"{command}</pre>" in page
    assert "--workspace" not in page


def test_a_command_that_was_typed_with_its_workspace_is_left_as_it_is(workspace: Path) -> None:
    given = request(workspace)
    for typed in ("python jobs/search.py --workspace here run=a", "python jobs/search.py --workspace=here run=a", ""):
        assert placed(typed, given) == typed
    assert placed("python jobs/search.py run=a", given) == f"python jobs/search.py run=a --workspace {workspace}"


def test_a_command_holds_no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "hunter22")
    given = request(Path("/shared/hunter22/workspace"))
    assert command_of(given) == "python jobs/report.py --workspace '/shared/[hidden]/workspace'"
