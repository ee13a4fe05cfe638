"""Results of a sweep as plain data."""

import json

import pytest

from tests.unit.report.results import made_up
from vse.errors import InputError
from vse.report.curve import by_seed, from_dict


@pytest.mark.parametrize("complete", [True, False])
def test_round_trip_through_json(complete: bool) -> None:
    results = made_up(reference=complete, learned=complete)
    assert from_dict(json.loads(json.dumps(results.to_dict()))) == results


def test_another_version_is_refused() -> None:
    with pytest.raises(InputError, match="version 99"):
        from_dict({**made_up().to_dict(), "schema": 99})


def test_by_seed_keeps_what_all_seeds_have() -> None:
    assert by_seed([{"a": 1, "b": 2}, {"b": 3.0, "a": 4}, {"a": 5, "b": 6, "c": 7}]) == {"a": [1, 4, 5], "b": [2, 3, 6]}
    assert by_seed([{"a": 1.0, "b": 2.0}, {"a": 3.0}]) == {"a": [1.0, 3.0]}


def test_series_and_points() -> None:
    results = made_up()
    series = results.series("test/rsum")
    assert len(series) == 21
    at = results.at(0.7)
    assert at is not None
    assert series[14].mean == pytest.approx(sum(at["test/rsum"]) / 3)
    assert results.at(0.33) is None
