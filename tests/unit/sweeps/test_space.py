"""Spaces are read, refused early where they are wrong, and give the same trials every time."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from vse.config import knob
from vse.errors import InputError
from vse.sweeps.space import Space, canonical_point, check_space, expand, label, load_space


@dataclass(frozen=True, kw_only=True, slots=True)
class Optim:
    lr: float = knob(2e-4, "learning rate", above=0, high=1)
    every: int = knob(15, "epochs", low=1, high=100)
    schedule: str = knob("step", "rate", choices=("step", "cosine"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    optim: Optim = field(default_factory=Optim)
    alpha: float = knob(0.75, "weight", low=0, high=1)
    types: tuple[str, ...] = knob(("a",), "types", choices=("a", "b"))


def of(**domains: Any) -> Space:
    return Space("here", {key.replace("__", "."): domain for key, domain in domains.items()})


def test_the_shipped_alpha_space() -> None:
    trials = expand(load_space("alpha"))
    assert [t["model.alpha"] for t in trials] == [round(0.05 * i, 2) for i in range(21)]


def test_a_space_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from ray import tune\nSPACE = {'optim.lr': tune.loguniform(1e-4, 1e-2), 'alpha': 0.5}\n")
    space = load_space(str(file))
    assert space.describe() == {"optim.lr": {"loguniform": [1e-4, 1e-2]}, "alpha": 0.5}
    check_space(space, Config())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "expected a dict named SPACE"),
        ("SPACE = {}", "expected a dict named SPACE"),
        ("SPACE = {1: 2}", "expected a dotted key"),
        ("SPACE = {'optim': {'lr': 1}}", "nested spaces are not served; write optim.<field>"),
        ("SPACE = {'alpha': {'grid_search': []}}", "the grid is empty"),
        ("from ray import tune\nSPACE = {'alpha': tune.sample_from(lambda: 1)}", "sample_from"),
        ("from ray import tune\nSPACE = {'alpha': tune.choice([{'a': 1}])}", "conditional"),
        ("SPACE = {'alpha': object()}", "not plain data"),
        ("raise RuntimeError('broken')", "RuntimeError: broken"),
    ],
)
def test_unusable_modules_are_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load_space(str(file))
    assert "\n" not in str(caught.value)
    assert "bad.py" in str(caught.value)


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="did you mean alpha"):
        load_space("alhpa")
    with pytest.raises(InputError, match="no such file"):
        load_space("/nowhere/x.py")


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (of(optim__rate=1.0), "optim.rate: no such key"),
        (of(alpha=tune.grid_search([0.5, 1.5])), "alpha=1.5: must be between 0 and 1"),
        (of(alpha=tune.uniform(0.0, 1.2)), "alpha=1.2: must be between"),
        (of(optim__lr=tune.uniform(0.0, 0.5)), "optim.lr=0.0: must be greater than 0"),
        (of(optim__every=tune.uniform(1.0, 9.0)), "expected an integer"),
        (of(optim__every=tune.randint(0, 5)), "optim.every=0: must be between 1 and 100"),
        (of(optim__every=tune.randint(1, 103)), "optim.every=102"),
        (of(optim__schedule=tune.choice(["step", "linear"])), "optim.schedule=linear: expected one of"),
        (of(optim=tune.choice(["a"])), "is a group"),
        (of(alpha=tune.randn(0.5, 10.0)), "alpha=.*: must be between"),
    ],
)
def test_wrong_spaces_are_refused_by_key(space: Space, message: str) -> None:
    with pytest.raises(InputError, match=f"search space here: .*{message}"):
        check_space(space, Config())


def test_right_spaces_pass() -> None:
    check_space(
        of(
            alpha=tune.quniform(0.0, 1.0, 0.25),
            optim__lr=tune.loguniform(1e-5, 1.0),
            optim__every=tune.qrandint(5, 100, 5),
            optim__schedule=tune.choice(["step", "cosine"]),
            types=tune.grid_search([["a"], ["a", "b"]]),
        ),
        Config(),
    )


@pytest.mark.parametrize("changed", [{"alpha"}, {"optim.lr"}])
def test_a_key_the_user_set_cannot_be_searched(changed: set[str]) -> None:
    with pytest.raises(InputError, match="is set by you and searched by here"):
        check_space(of(alpha=0.5, optim__lr=tune.uniform(0.1, 0.2)), Config(), changed)
    check_space(of(optim__every=3), Config(), changed)


def test_grids_expand_with_the_last_key_fastest() -> None:
    space = of(a=tune.grid_search([1, 2]), b="x", c=tune.grid_search([True, False]))
    assert [tuple(t.values()) for t in expand(space, samples=5)] == [
        (1, "x", True),
        (1, "x", False),
        (2, "x", True),
        (2, "x", False),
    ]


def test_draws_are_keyed_so_that_more_samples_extend() -> None:
    space = of(g=tune.grid_search([1, 2]), u=tune.uniform(0.0, 1.0), n=tune.randint(0, 1000))
    ten, twenty = expand(space, 10), expand(space, 20)
    assert twenty[:20] == ten
    assert len(twenty) == 40
    assert expand(space, 10, seed=1) != ten
    assert ten[0]["u"] == ten[1]["u"]  # both points of the grid meet the same draw
    assert len({t["u"] for t in ten}) == 10
    assert all(type(t["u"]) is float and type(t["n"]) is int for t in ten)


def test_points_have_one_form() -> None:
    assert canonical_point(Config(), {"alpha": 1, "types": ("a", "b")}) == {"alpha": 1.0, "types": ["a", "b"]}
    assert label({"model.alpha": 0.75, "optim.lr": 2e-4, "types": ["a", "b"]}) == "alpha=0.75 lr=0.0002 types=['a','b']"


def test_equal_spaces_are_described_equally() -> None:
    one, two = of(a=tune.uniform(0.0, 1.0), b=tune.choice([1, 2])), of(a=tune.uniform(0.0, 1.0), b=tune.choice([1, 2]))
    assert one.describe() == two.describe()
    assert one.describe() != of(a=tune.loguniform(0.1, 1.0), b=tune.choice([1, 2])).describe()
    assert of(n=tune.qrandint(0, 10, 5)).describe() == {"n": {"integer uniform": [0, 10], "step": 5}}
