"""Results of sweeps of trainings as data: the choice, lines of curves, files."""

import json

import pytest

from tests.unit.report.responses import drawn, full_grid, one_at_a_time, point
from vse.errors import InputError
from vse.report.response import choose, from_dict, is_numeric, lines_of


def test_the_best_is_complete_and_the_first_of_equals() -> None:
    points = [point({"objective.eta_c": v}) for v in (0.1, 2.0)]
    early = point({"objective.eta_c": 2.0}, stopped=True)
    half = point({"objective.eta_c": 2.0}, seeds=1)
    assert choose([*points, *points], 2) == 1
    assert choose([early, half, points[0]], 2) == 2
    assert choose([early, half], 2) is None


def test_one_key_at_a_time_gives_one_line_a_key() -> None:
    found = one_at_a_time()
    ((name, line),) = lines_of(found, "objective.eta_c")
    assert name == ""
    assert [p.values["objective.eta_c"] for p in line] == [0.1, 0.5, 1.0, 2.0, 8.0]  # the preset is on it
    assert len(lines_of(found, "objective.hinge")) == 1
    assert found.at_base() is not None
    assert is_numeric(found, "objective.eta_c")
    assert not is_numeric(found, "objective.hinge")


def test_a_grid_gives_a_line_for_each_setting_of_the_others() -> None:
    lines = lines_of(full_grid(), "objective.eta_c")
    assert len(lines) == 4
    assert all(len(points) == 3 for _, points in lines)
    assert {name for name, _ in lines} == {
        "eta_r=0.5",
        "eta_r=2.0",
        "eta_r=0.5, hinge='sum'",
        "eta_r=2.0, hinge='sum'",
    }


def test_drawn_points_are_on_no_line() -> None:
    assert lines_of(drawn(), "objective.eta_c") == []


def test_files_are_read_back_and_others_refused() -> None:
    found = drawn()
    data = json.loads(json.dumps(found.to_dict()))
    assert from_dict(data) == found
    with pytest.raises(InputError, match="results of version 9"):
        from_dict({**data, "schema": 9})
    with pytest.raises(InputError, match="of kind objective"):
        from_dict({**data, "kind": "alpha"})
