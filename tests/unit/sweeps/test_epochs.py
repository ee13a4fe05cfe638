"""Epochs of running trials are part of a sweep's progress."""

import pytest

from vse.sweeps.epochs import EpochCounter, Epochs


def test_epochs_of_running_and_ended_trials_add_up() -> None:
    counter = EpochCounter()
    counter.reported("a", Epochs(3, 10))
    counter.reported("b", Epochs(1, 5))
    assert (counter.parts.share, counter.parts.count) == (pytest.approx(0.5), 4)
    counter.reported("a", Epochs(4, 10))
    counter.ended("a")
    assert (counter.parts.share, counter.parts.count) == (pytest.approx(0.2), 5)


def test_epochs_of_earlier_processes_are_done_but_say_nothing_of_the_rate() -> None:
    counter = EpochCounter()
    counter.reported("a", Epochs(6, 10, 5))
    parts = counter.parts
    assert (parts.share, parts.earlier, parts.count) == (0.6, 0.5, 1)
    counter.ended("a")
    assert (counter.parts.share, counter.parts.earlier, counter.parts.count) == (0, 0.5, 1)


def test_a_retried_trial_counts_its_epochs_once() -> None:
    counter = EpochCounter()
    counter.reported("a", Epochs(4, 10))
    counter.ended("a", retried=True)
    counter.reported("a", Epochs(7, 10, 4))
    assert (counter.parts.share, counter.parts.count) == (0.7, 7)
    counter.ended("a")
    assert (counter.parts.earlier, counter.parts.count) == (0.4, 7)


def test_a_trial_without_epochs_changes_nothing() -> None:
    counter = EpochCounter()
    counter.ended("measure")
    assert (counter.parts.share, counter.parts.earlier, counter.parts.count) == (0, 0, 0)
