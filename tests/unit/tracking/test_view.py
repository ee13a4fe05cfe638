"""What reviewers see in MLflow: few tags, a description with all its parts, nothing secret."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.tracking.test_shipping import client, runs_of
from vse.display.markdown import artifact, block, run
from vse.tracking import view
from vse.tracking.shipping import Shipper, ship_all
from vse.workspace import provenance as environment
from vse.workspace.journal import Journal, JournalState

MOST_TAGS = 12


def sweep_of(workspace: Path, name: str = "alpha-x-0123abcd", **tags: Any) -> Journal:
    book = Journal(workspace / "sweeps" / name / "journal.jsonl")
    settings = {f"sweep.{key}": "1" for key in ("space", "method", "objective", "seeds", "max_cost", "name", "run")}
    known = {f"fingerprint.{stage}": "0123abcd" for stage in ("records", "features", "language")}
    book.start(
        name, tags={"kind": "objective sweep", "preset": "x", **settings, **known, **environment.run_tags(), **tags}
    )
    return book


def shown(workspace: Path, name: str = "alpha-x-0123abcd") -> Any:
    result = ship_all(str(workspace))
    assert result.trouble == ""
    return runs_of(workspace)[name]


@pytest.mark.seconds
def test_a_run_has_few_tags_and_the_rest_is_in_a_file(workspace: Path) -> None:
    sweep_of(workspace, attempts=2, run="r")
    made = shown(workspace)
    tags = {key for key in made.data.tags if not key.startswith("mlflow.")}
    assert len(tags) <= MOST_TAGS + 1  # and the id by which the shipper finds a run again
    assert tags <= {*view.VISIBLE, "vse.run_id"}
    assert len(view.VISIBLE) <= MOST_TAGS
    (kept,) = (file for file in client(workspace).list_artifacts(made.info.run_id) if file.path == view.ENVIRONMENT)
    assert kept.path == "environment.json"
    content = Path(client(workspace).download_artifacts(made.info.run_id, kept.path)).read_text()
    assert '"version.torch"' in content
    assert '"sweep.max_cost": "1"' in content
    assert '"kind"' not in content


@pytest.mark.seconds
def test_the_experiment_opens_as_model_training_with_chosen_columns(workspace: Path) -> None:
    sweep_of(workspace)
    shown(workspace)
    tags = client(workspace).get_experiment_by_name("vse").tags
    assert tags["mlflow.experimentKind"] == "custom_model_development"
    assert "metrics.`test/rsum`" in tags["mlflow.sharedViewState.vse"]
    assert tags["mlflow.note.content"]


@pytest.mark.seconds
def test_a_description_has_its_parts_in_order_and_its_links_lead_somewhere(workspace: Path) -> None:
    book = sweep_of(workspace)
    book.describe("commands", block(["python jobs/sweep_alpha.py"]))
    book.describe("evaluation 2", "second")
    book.describe("asked", f"Trial of {run('alpha-x-0123abcd')}")
    book.describe("result", f"See {artifact('report.html')}")
    book.describe("headline", "**Best: 3**")
    book.note("something_odd happened")
    made = shown(workspace)
    text = made.data.tags["mlflow.note.content"]
    order = [
        "**Best: 3**",
        "**Asked**",
        "**Result**",
        "**Evaluation**",
        "**Commands**",
        "**Notes**",
        "**Environment**",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    experiment = made.info.experiment_id
    assert f"](#/experiments/{experiment}/runs/{made.info.run_id}/artifacts/report.html)" in text
    assert "searchFilter=attributes.run_name%20%3D%20%27alpha-x-0123abcd%27)" in text
    assert "something&#95;odd happened" in text
    assert "artifacts/environment.json)" in text


def test_a_later_text_replaces_an_earlier_one_and_nothing_else_is_sent_twice(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vse.tracking.store import Store

    sent: list[str] = []
    original, as_json = Store.send, Store.send_json
    monkeypatch.setattr(Store, "send", lambda self, *a, **k: (sent.append(k["description"]), original(self, *a, **k)))
    monkeypatch.setattr(Store, "send_json", lambda self, *a: (sent.append("json"), as_json(self, *a)))
    shipper, book = Shipper(str(workspace)), sweep_of(workspace)
    book.describe("headline", "first")
    shipper.ship()
    book.describe("headline", "second")
    shipper.ship()
    book.metrics({"x": 1.0})
    shipper.ship()
    shipper.ship()
    first, json, second, unchanged = sent
    assert first.startswith("first")
    assert json == "json"
    assert second.startswith("second")
    assert unchanged == ""
    assert shown(workspace).data.tags["mlflow.note.content"] == second


def test_no_description_or_tag_holds_a_secret_or_a_control_character(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sesame-" + "x" * 20
    monkeypatch.setenv("DATABASE_PASSWORD", secret)
    book = sweep_of(workspace, preset=f"\x1b]0;title\x07{secret}\u202e", host=f"vm\x00{secret}")
    book.describe("headline", f"{secret} \x1b[2J\x9b31m text \u202e")
    book.note(f"RuntimeError: {secret}\x1b[31m")
    for path in (workspace / "sweeps").rglob("journal.jsonl"):
        assert secret not in path.read_text()
    told = {key: value for key, value in shown(workspace).data.tags.items() if not key.startswith("vse.")}
    for value in told.values():
        assert secret not in value
        assert all(sign.isprintable() or sign == "\n" for sign in value)


def test_a_long_description_is_cut_at_a_line_and_its_block_closed() -> None:
    story = JournalState(texts={"headline": "**Best**", "result": block(f"line {k}" for k in range(3000))})
    text = view.description(story, "1", "a", 8000)
    assert len(text) <= 8000
    assert text.splitlines()[-1].startswith("… (shortened")
    assert sum(line.startswith("```") for line in text.splitlines()) == 2
    one = view.description(JournalState(texts={"result": "x" * 20_000}), "1", "a", 8000)
    assert len(one) <= 8000
