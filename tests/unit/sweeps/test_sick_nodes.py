"""Nodes that end trials by their own fault, on a clock that is made up."""

import logging

import pytest

from vse.sweeps.sick_nodes import AWAY, ENDS, PAUSE, UNKNOWN, SickNodes


class Nodes(SickNodes):
    """On a clock that a test moves."""

    def __init__(self, alone: bool = False) -> None:
        self.now = 0.0
        super().__init__(lambda: alone, clock=lambda: self.now)

    def full(self, node: str) -> str:
        return self.ill(node, f"host-{node}", "StorageError", "/data: no space left on device")


def test_a_node_is_left_out_after_two_ends_and_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes()
    assert not nodes.rests()
    assert nodes.full("a") == "here"
    assert (nodes.left_out(), nodes.rests()) == ([], True)
    nodes.now = PAUSE
    assert not nodes.rests()
    assert nodes.full("a") == "here"
    assert nodes.left_out() == ["a"]
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line == "no trial starts on node host-a for 15 minutes: /data: no space left on device"
    nodes.now += AWAY
    assert nodes.left_out() == []
    assert nodes.full("a") == "here"
    assert nodes.left_out() == ["a"]  # one more is enough
    nodes.well("a")
    assert nodes.left_out() == []


def test_what_two_nodes_say_is_no_nodes_fault() -> None:
    nodes = Nodes()
    assert nodes.full("a") == "here"
    assert nodes.ill("b", "host-b", "InputError", "torch finds no GPU on host-b") == "here"  # another trouble
    assert nodes.full("b") == "everywhere"


def test_trials_that_end_well_in_between_show_that_it_is_not_everywhere() -> None:
    nodes = Nodes()
    for _ in range(ENDS):
        assert nodes.full("a") == "here"
    nodes.well("c")
    assert nodes.full("b") == "here"
    assert nodes.left_out() == ["a"]
    assert nodes.full("b") == "here"
    assert nodes.left_out() == ["a", "b"]


def test_the_only_node_has_nobody_to_be_compared_with() -> None:
    nodes = Nodes(alone=True)
    assert nodes.full("a") == "alone"
    assert (nodes.left_out(), nodes.rests()) == ([], False)


def test_where_the_node_is_not_known_more_ends_are_needed() -> None:
    nodes = Nodes()
    assert [nodes.full("") for _ in range(UNKNOWN)] == ["here"] * (UNKNOWN - 1) + ["everywhere"]
    assert nodes.left_out() == []
