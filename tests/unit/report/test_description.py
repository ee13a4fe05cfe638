"""The descriptions of results: headline with interval, tables, where the page is, and names as they are."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.report.responses import point, results
from tests.unit.report.results import made_up
from vse.evaluation.intervals import interval
from vse.report.description import (
    alpha_headline,
    alpha_text,
    evaluation_headline,
    evaluation_text,
    files_text,
    page_link,
    response_headline,
    response_text,
    trial_text,
)
from vse.storage.folder import Folder


def test_an_alpha_sweep_says_its_choice_with_intervals() -> None:
    found = made_up()
    here = found.at(found.chosen)
    assert here is not None
    assert found.reference is not None
    theirs = interval(found.reference.metrics["test/rsum"])
    told = alpha_headline(found)
    assert told.startswith(f"**α = 0.7 chosen on validation: test rsum {interval(here['test/rsum'])}**")
    assert f"(VSE&#43;&#43; {theirs}), 3 seeds." in told
    assert "±" in told
    assert "VSE" not in alpha_headline(made_up(reference=False))
    assert "±" not in alpha_headline(made_up(seeds=1))


def test_an_alpha_sweeps_table_has_all_models_and_what_is_missing() -> None:
    told = alpha_text(made_up(), ["seed=4: RuntimeError: no <luck>"])
    rows = [line for line in told.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1
    assert rows[0].startswith("| model | rsum | i2t, R&#64;1 | t2i, R&#64;1 | object attack, R&#64;1 |")
    assert [row.split("|")[1].strip() for row in rows[2:]] == [
        "VSE&#43;&#43;",
        "UniVSE α = 0.75 &#40;as configured&#41;",
        "UniVSE α = 0.7 &#40;chosen&#41;",
        "UniVSE α = 1 &#40;u&#95;sent alone&#41;",
        "UniVSE, learned α &#40;α = 0.61, 0.66, 0.58&#41;",
    ]
    assert "**Missing:** seed=4: RuntimeError: no &#60;luck&#62;" in told


def test_a_sweep_of_trainings_says_the_best_point_beside_the_preset() -> None:
    points = [point({}), point({"objective.eta_c": 2.0}), point({"objective.hinge": "sum"}, stopped=True)]
    found = replace(results(points), failed={"eta_c=*8* seed=1": "RuntimeError: [x](y)"}, left=2)
    best, base = found.chosen(), found.at_base()
    assert best is not None
    assert base is not None
    assert response_headline(found) == (
        f"**Best: eta&#95;c=2.0, objective {best.objective}** (preset {base.objective}), 2 seeds."
    )
    told = response_text(found)
    assert "- eta&#95;c=&#42;8&#42; seed=1: RuntimeError: &#91;x&#93;&#40;y&#41;" in told
    assert "a higher cap continues" in told
    assert "2 seeds; mean over seeds ± 95 % interval, best first:" in told
    assert "±" not in response_text(results([point({}, seeds=1)], seeds=1))
    assert f"| {best.objective} |" in told
    assert "hinge" not in told  # ended early, so it is no result yet
    assert response_headline(results([point({}, stopped=True)])) == "No point has finished with all seeds yet."


def test_the_page_is_linked_and_its_place_named(tmp_path: Path) -> None:
    folder = Folder.open(tmp_path / "sweeps" / "x_[y]")
    told = page_link(folder)
    assert told.startswith("Page: [report.html](artifact:report.html); in the workspace: ")
    assert "x&#95;&#91;y&#93;/report.html" in told
    assert files_text(["alpha.png", "alpha.svg", "report.html"]) == (
        "Files: [alpha.png](artifact:alpha.png), [report.html](artifact:report.html)"
    )


def test_an_evaluation_says_what_the_terminal_says_and_its_command() -> None:
    assert evaluation_headline({"test": 291.61}) == "**Evaluated: test rsum 291.6**"
    told = evaluation_text(["test: 100 images, 507 captions", "  rsum  291.6"], "python jobs/evaluate.py run=a_b")
    assert "test: 100 images, 507 captions" in told
    assert "python jobs/evaluate.py run=a_b" in told
    assert len(re.findall("^```$", told, re.MULTILINE)) == 4
    assert "and 60 more lines" in evaluation_text([str(k) for k in range(100)], "c")


@pytest.mark.parametrize("training", ["", "univse-scenes-s0-01234567"])
def test_a_trial_leads_to_its_sweep_and_its_training(training: str) -> None:
    told = trial_text("alpha=0.4 seed=1", "alpha-x-0123abcd", training, {"test/rsum": 300.0})
    assert "(run:alpha-x-0123abcd)" in told
    assert ("(run:univse" in told) == bool(training)
    assert "test rsum 300.0" in told
