"""What the processes of an α sweep hold while they score codes."""

import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from vse.sweeps import alpha_trials


def test_codes_of_a_split_are_gone_before_the_next_ones_come(monkeypatch: pytest.MonkeyPatch) -> None:
    class Codes:
        images = captions = owner = attacks = None

        @property
        def codes(self) -> "Codes":
            return self

    alive: list[Any] = []

    def opened(folder: Any) -> Codes:
        assert [codes for codes in alive if codes() is not None] == []
        made = Codes()
        alive.append(weakref.ref(made))
        return made

    point = SimpleNamespace(alpha=0.5, metrics=lambda split: {f"{split}/rsum": 1.0})
    monkeypatch.setattr("vse.sweeps.code_files.open_codes", opened)
    monkeypatch.setattr("vse.stages.trained.load_run", lambda run: SimpleNamespace(family=None))
    monkeypatch.setattr("vse.evaluation.alpha.evaluate_alphas", lambda *given: [point])
    found = alpha_trials._curves.__wrapped__("/w", "run", (("val", "a"), ("test", "b")), (0.5,))
    assert found == {0.5: {"val/rsum": 1.0, "test/rsum": 1.0}}
    assert len(alive) == 2
