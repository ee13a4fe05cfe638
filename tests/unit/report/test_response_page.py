"""Figures, tables and the page of a sweep of trainings."""

import csv
import dataclasses
import io
import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from tests.levels import slow
from tests.unit.report.responses import conditional, drawn, full_grid, one_at_a_time, point, results
from vse.report import response_figures
from vse.report.importance import importance
from vse.report.response import PAIRS, ResponseResults, front, lines_of
from vse.report.response_figures import front_figure, importance_figure, interaction_figure, pairs_of, response_figure
from vse.report.response_page import best_text, front_text, importance_text, points_csv, points_table, write_response
from vse.storage.folder import Folder

ALL = [one_at_a_time(), full_grid(), drawn(), results([point({"objective.eta_c": v}, 1) for v in (0.1, 2.0)], seeds=1)]


@pytest.mark.seconds
@pytest.mark.parametrize("found", [ALL[0], *slow(ALL[1:])], ids=["one at a time", "grid", "drawn", "one seed"])
def test_the_figure_is_drawn_and_the_same_twice(found: ResponseResults) -> None:
    first, second = response_figure(found), response_figure(found)
    assert first == second
    with Image.open(io.BytesIO(first["png"])) as image:
        assert image.size[0] >= 700  # a single key takes a column
    text = first["svg"].decode()
    for key in found.keys:
        assert key in text
    assert "validation rsum" in text
    assert "test rsum" in text


def with_pairs(found: ResponseResults, seed: int = 0, digits: int = 6) -> ResponseResults:
    """Made-up pair accuracies of every point, rounded so that some are equal."""
    rng = np.random.default_rng(seed)
    points = []
    for each in found.points:
        pairs = np.round(rng.uniform(40, 60) + rng.normal(size=len(each.seeds)), digits).tolist()
        rsum = np.round(each.metrics["val/rsum"], digits).tolist()
        points.append(dataclasses.replace(each, metrics={**each.metrics, "val/rsum": rsum, PAIRS: pairs}))
    return dataclasses.replace(found, points=points)


@pytest.mark.parametrize("digits", [6, -1])
@pytest.mark.parametrize("seed", range(4))
def test_the_front_has_the_points_that_no_other_exceeds(seed: int, digits: int) -> None:
    found = with_pairs(drawn(), seed, digits)
    means = {id(p): (np.mean(p.metrics["val/rsum"]), np.mean(p.metrics[PAIRS])) for p in found.complete}
    naive = {
        key
        for key, (rsum, pairs) in means.items()
        if not any(r >= rsum and p >= pairs and (r, p) != (rsum, pairs) for r, p in means.values())
    }
    assert {id(p) for p in front(found)} == naive
    falling = [means[id(p)] for p in front(found)]
    assert falling == sorted(falling, key=lambda mean: -mean[0])
    assert len(naive) > 1 or digits < 0


@pytest.mark.seconds
def test_a_sweep_under_attack_draws_its_front_and_names_its_points() -> None:
    found = with_pairs(drawn())
    figure = front_figure(found)
    assert figure is not None
    text = figure["svg"].decode()
    assert "Pareto front" in text
    assert "validation pairs (%)" in text
    named = front_text(found)
    assert all(p.label in named for p in front(found))
    notes = [row["note"] for row in points_table(found)["rows"]]
    assert sum("on the front" in note for note in notes) == len(front(found))
    assert front_figure(drawn()) is None
    assert not front(drawn())


@pytest.mark.slow
def test_many_lines_are_not_named_one_by_one() -> None:
    assert "a line for each setting of the other keys" in response_figure(full_grid())["svg"].decode()
    assert "others as in the preset" in response_figure(one_at_a_time())["svg"].decode()


@pytest.mark.seconds
def test_the_axis_holds_every_seed_and_the_band_is_drawn() -> None:
    plain, banded = response_figure(one_at_a_time()), response_figure(one_at_a_time(), band=1.88)
    assert plain != banded
    assert "mean ± 1.9" in banded["svg"].decode()


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("swept", "named", "unnamed"),
    [
        ((0.1, 1.0, 2.0, 4.0, 8.0), ("0.1", "0.5", "1", "2", "4", "8"), ()),  # 0.5 is the preset's
        ((0.001, 0.01, 0.1, 1.0, 10.0), ("0.001", "0.01", "0.1", "1", "10"), ("0.5",)),
        ((0.0, 0.005, 0.01, 1.0), ("0", "0.01", "1"), ("0.005",)),
        ((8.0, 64.0, 1024.0), ("8", "64", "1024"), ("1000",)),  # sizes are powers of two
    ],
)
def test_ticks_have_names_as_far_as_these_have_room(
    swept: tuple[float, ...], named: tuple[str, ...], unnamed: tuple[str, ...]
) -> None:
    text = response_figure(results([point({"objective.eta_c": value + 1e-9}) for value in swept]))["svg"].decode()
    assert all(f">{name}<" in text for name in named)
    assert not any(f">{name}<" in text for name in unnamed)


@pytest.mark.seconds
def test_drawn_values_are_no_names_of_ticks_however_few() -> None:
    drawn_ones = (1.0512345e-3, 0.0674146234, 0.4701352345, 4.0169158345)
    text = response_figure(results([point({"objective.eta_c": value}) for value in drawn_ones]))["svg"].decode()
    assert all(f">{name}<" in text for name in ("0.001", "0.01", "0.1", "1"))
    assert not any(f"{value:g}" in text for value in drawn_ones)


def test_a_key_and_the_alternative_that_brings_it_do_not_interact() -> None:
    found = [("objective", "optim.lr"), ("objective.margin", "optim.lr"), ("objective.temperature", "optim.lr")]
    assert pairs_of(conditional()) == found
    taken = dataclasses.replace(
        conditional(), base={"objective": "order", "optim.lr": 0.002}
    )  # nothing as in the preset
    assert pairs_of(taken) == found


def test_points_that_no_line_of_a_key_could_reach_are_dots_beside_its_lines() -> None:
    """Two objectives of three have no margin: a line joins these two, and passes the place of the third."""
    points = []
    for dim in (32, 64):
        own = [{"objective": "infonce"}, {"objective": "sigmoid"}]
        own += [{"objective": "ranking", "objective.margin": margin} for margin in (0.1, 0.2)]
        for values in own:
            changes = {**values, "model.dim": dim}
            points.append(dataclasses.replace(point({}), changes=changes, values=changes))
    base = {"objective": "ranking", "objective.margin": 0.2, "model.dim": 256}
    found = dataclasses.replace(one_at_a_time(), points=points, base=base, keys=list(base))
    assert [len(line) for _, line in lines_of(found, "objective")] == [2, 2]
    assert {p.values["objective"] for p in response_figures._loose(found, "objective")} == {"ranking"}
    assert response_figures._loose(found, "objective.margin") == []
    assert response_figures._loose(found, "model.dim") == []
    assert not any(response_figures._loose(one_at_a_time(), key) for key in one_at_a_time().keys)


@pytest.mark.seconds
def test_interactions_are_of_keys_that_were_varied_together() -> None:
    assert pairs_of(one_at_a_time()) == []
    assert interaction_figure(one_at_a_time()) is None
    assert len(pairs_of(drawn())) == 3
    figure = interaction_figure(drawn(), ["objective.eta_c"])
    assert figure is not None
    assert "objective.hinge" in figure["svg"].decode()


@pytest.mark.slow
def test_importance_is_drawn_with_what_it_is_worth() -> None:
    found = importance(drawn(60))
    assert found is not None
    assert importance_figure(found)["png"].startswith(b"\x89PNG")
    assert "that its trees have not seen." in importance_text(found)
    assert "too little" in importance_text(dataclasses.replace(found, explained=-0.3))


def test_the_table_is_ranked_and_marks_what_is_not_whole() -> None:
    early = point({"objective.eta_c": 2.1}, stopped=True)
    half = point({"objective.eta_c": 1.9}, seeds=1)
    found = results([point({"objective.eta_c": v}) for v in (0.1, 2.0)] + [early, half])
    rows = points_table(found)["rows"]
    assert [(row["label"], row["note"]) for row in rows[:2]] == [("eta_c=2.0", "best"), ("eta_c=0.1", "")]
    assert {row["label"]: row["note"] for row in rows[2:]} == {"eta_c=2.1": "ended early", "eta_c=1.9": "1 of 2 seeds"}


def test_the_csv_has_a_line_a_point_and_seed() -> None:
    rows = list(csv.DictReader(io.StringIO(points_csv(full_grid()))))
    assert len(rows) == 24
    assert rows[0].keys() >= {"objective.eta_c", "seed", "objective", "test/rsum", "epochs", "stopped", "run"}
    assert float(rows[1]["objective"]) == float(rows[0]["objective"]) + 1


@pytest.mark.seconds
@pytest.mark.parametrize("found", [ALL[0], *slow(ALL[1:])], ids=["one at a time", "grid", "drawn", "one seed"])
def test_the_whole_report(tmp_path: Path, found: ResponseResults) -> None:
    claim = {
        "statement": "It hardly matters.",
        "answer": "undecided",
        "margin": 1.9,
        "mean": 300.0,
        "num_seeds": 2,
        "seeds_needed": 5,
        "effects": [["rsum: eta_c=8 no further than 2 below the mean", -3.0, -4.0, -2.0]],
    }
    found = dataclasses.replace(found, claims={"insensitive": claim}, failed={"eta_c=3": "<ValueError>"}, left=4)
    commands, elsewhere = ["python jobs/sweep_eta.py"], ("--workspace", "s3://bucket/vse")
    names = write_response(Folder.open(tmp_path), found, commands, {"a": {"b": 1}}, {"best.json": "{}"}, elsewhere)
    assert {"response.png", "response.svg", "points.csv", "report.html", "results.json", "best.json"} <= set(names)
    assert all((tmp_path / name).stat().st_size > 0 for name in names)
    page = (tmp_path / "report.html").read_text()
    for text in ("It hardly matters.", "undecided with 2 seed(s) of 5", "eta_c=8, -3.0 [-4.0, -2.0]", "The cap ended"):
        assert text in page
    assert "&lt;ValueError&gt;" in page
    assert f"python jobs/train.py --preset {tmp_path}/best.json --workspace s3://bucket/vse" in page
    assert 'src="http' not in page


@pytest.mark.seconds
def test_the_best_point_and_the_cards_are_for_people(tmp_path: Path) -> None:
    values = (0.1, 1.9387012345678912)
    found = results([point({"objective.eta_c": v}) for v in values])
    worst, best = sorted(p.objective.mean for p in found.points)
    write_response(Folder.open(tmp_path), found, [], {}, {"best.json": "{}"})
    page = (tmp_path / "report.html").read_text()
    assert "<p>objective.eta_c = 1.939 (preset 0.5): validation rsum " in page
    assert f"<b>{best - worst:.1f}</b><span>validation rsum: best minus worst point</span>" in page
    write_response(Folder.open(tmp_path), results([point({"objective.eta_c": 1.0})]), [], {}, {})
    assert "minus worst" not in (tmp_path / "report.html").read_text()


def test_lines_of_seeds_follow_the_seed_where_one_is_missing() -> None:
    whole, half = point({"objective.eta_c": 1.0}, seeds=2), point({"objective.eta_c": 2.0}, seeds=1)
    half = dataclasses.replace(half, seeds=[1])
    figure = Figure()
    axis = figure.add_subplot()
    response_figures._line(axis, [whole, half], "objective.eta_c", "objective", float, 0)
    first, second = (np.asarray(line.get_ydata(), float).tolist() for line in axis.lines[:2])
    assert (first[0], math.isnan(first[1])) == (whole.metrics["objective"][0], True)
    assert second == [whole.metrics["objective"][1], half.metrics["objective"][0]]


def test_no_point_is_missing_from_a_panel() -> None:
    """Of points that were drawn, a few may differ in one key alone. Of one key at a time, points of other keys stand at
    the preset's value of this one, and in their own panels."""
    hinges = [{"objective.eta_c": v, "objective.hinge": "sum"} for v in (0.2, 0.3)]
    changes = [{"objective.eta_c": v} for v in (1.0, 2.0)] + [{**h, "objective.eta_r": v} for v, h in enumerate(hinges)]
    found = results([point(each) for each in changes], "hyperopt")
    places = {key: sorted(_shown(found, key)) for key in found.keys}
    assert places == {
        "objective.eta_c": [0.2, 0.3, 1.0, 2.0],
        "objective.eta_r": [0.0, 1.0, 1.0, 1.0],
        "objective.hinge": [0, 0, 1, 1],
    }
    assert sorted(_shown(one_at_a_time(), "objective.eta_r")) == [0.1, 1.0, 8.0]


def _shown(found: ResponseResults, key: str) -> list[float]:
    """Where points stand on the axis of a key, on lines or beside them."""
    axis = Figure().add_subplot()
    response_figures._response(axis, found, key, "objective", {}, 0.0)
    marked = [line for line in axis.lines if line.get_marker() == "o"]
    return [float(x) for line in marked for x in np.asarray(line.get_xdata())]


def test_keys_that_the_preset_has_not_are_said_to_be_so() -> None:
    found = one_at_a_time()
    best = found.chosen()
    assert best is not None
    (key,) = best.changes
    without = dataclasses.replace(found, base={k: v for k, v in found.base.items() if k != key})
    assert "(not in the preset)" in best_text(without)
    assert "(preset 0.5)" in best_text(found)


@pytest.mark.seconds
def test_a_sweep_in_which_nothing_has_finished_has_a_page(tmp_path: Path) -> None:
    nothing = dataclasses.replace(one_at_a_time(), points=[], best=None, failed={"eta_c=1": "ValueError: no"})
    write_response(Folder.open(tmp_path), nothing, [], {}, {})
    assert "No point is complete yet" in (tmp_path / "report.html").read_text()
