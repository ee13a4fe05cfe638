"""Spaces are read, refused early where they are wrong, and give the same trials every time."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import tune

from vse.config import knob
from vse.errors import InputError
from vse.sweeps.space import (
    Space,
    at_labels,
    canonical_point,
    check_space,
    expand,
    label,
    labels_of,
    leaves,
    load_space,
)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounded:
    weight: float = knob(0.2, "weight", low=0.1, high=0.3)


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
        ("SPACE = {'optim': {'lr': 1}}", "nested spaces are unsupported; write optim.<field>"),
        ("SPACE = {'alpha': {'grid_search': []}}", "alpha: grid_search takes a list of one or more values"),
        ("SPACE = {'alpha': {'grid_search': 5}}", "alpha: grid_search takes a list"),
        ("SPACE = {'alpha': {'grid_search': 'abc'}}", "alpha: grid_search takes a list"),
        ("from ray import tune\nSPACE = {'alpha': tune.choice([])}", "alpha: choice takes a list of one"),
        ("from ray import tune\nSPACE = {'w': tune.choice([{'a': tune.choice([])}])}", "w: a: choice takes a list"),
        ("from ray import tune\nSPACE = {'alpha': tune.sample_from(lambda: 1)}", "sample_from"),
        ("from ray import tune\nSPACE = {'alpha': tune.choice([{'a': 1}, 2])}", "alternatives that are all dicts"),
        (
            "from ray import tune\nSPACE = {'w': tune.choice([{'a': tune.grid_search([1])}])}",
            "a grid inside drawn alternatives",
        ),
        ("from ray import tune\nSPACE = {'w': tune.choice([{'a': {'b': 1}}])}", "nested spaces"),
        ("SPACE = {'alpha': 1}\nINITIAL = {'alpha': 1}", "INITIAL to be a list"),
        (
            "from ray import tune\nSPACE = {'a': tune.uniform(0, 1)}\nINITIAL = [{'a': 2}]",
            "a=2 is not a point of SPACE",
        ),
        (
            "from ray import tune\nSPACE = {'a': tune.randint(0, 2)}\nINITIAL = [{'a': 2}]",
            "a=2 is not a point of SPACE",
        ),
        ("SPACE = {'alpha': object()}", "not plain data"),
        ("raise RuntimeError('broken')", "RuntimeError: broken"),
        ("raise SystemExit('no')", "SystemExit: no"),
        (
            "from ray import tune\nSPACE = {'a': tune.uniform(2, 1)}",
            "a: expected two rising numbers as bounds, got 2 and 1",
        ),
        (
            "from ray import tune\nSPACE = {'a': tune.randint(3, 3)}",
            "a: expected two rising numbers as bounds, got 3 and 3",
        ),
        (
            "from ray import tune\nSPACE = {'a': tune.randint('1', 3)}",
            "a: expected two rising numbers as bounds, got '1' and 3",
        ),
        ("from ray import tune\nSPACE = {'w': tune.choice([{'a': 1}, {}]), 'a': 2}", "a: appears twice in a point"),
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
        (of(alpha=tune.grid_search(["0.5"])), "alpha='0.5': write it as 0.5"),
        (of(types=tune.choice(["a,b"])), r"types='a,b': write it as \['a', 'b'\]"),
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


STEPS = [
    tune.quniform(0.1, 0.3, 0.1),
    tune.quniform(0.05, 0.35, 0.05),
    tune.qloguniform(1e-4, 3e-4, 1e-4),
    tune.quniform(-0.3, -0.1, 0.1),
]


@pytest.mark.parametrize("domain", STEPS)
def test_draws_of_steps_stay_in_their_range(domain: Any) -> None:
    """3 * 0.1 > 0.3: multiples of the step miss the ends of a range by a rounding error."""
    drawn = {point["alpha"] for point in expand(of(alpha=domain), 200)}
    assert min(drawn) == domain.lower
    assert max(drawn) == domain.upper
    step = domain.get_sampler().q
    assert {round(value / step) for value in drawn} == set(
        range(round(domain.lower / step), round(domain.upper / step) + 1)
    )
    assert all(value == pytest.approx(round(value / step) * step, rel=1e-12) for value in drawn)


@pytest.mark.parametrize("domain", STEPS)
def test_a_rounding_error_outside_a_range_is_inside(domain: Any) -> None:
    """As ledgers have it that were written when draws were not moved into their range."""
    ends = {domain.lower, domain.upper}
    step, space = domain.get_sampler().q, {"alpha": domain}
    for k in range(round(domain.lower / step), round(domain.upper / step) + 1):
        labels = labels_of(space, {"alpha": k * step})
        assert labels is not None
        assert domain.lower <= labels["alpha"] <= domain.upper
        assert at_labels(space, {"alpha": k * step}) == labels
    for wrong in (domain.lower - 0.01 * step, domain.upper + 0.01 * step):
        assert wrong not in ends
        assert labels_of(space, {"alpha": wrong}) is None


def test_the_end_of_a_range_may_be_the_end_of_a_setting() -> None:
    check_space(of(weight=tune.quniform(0.1, 0.3, 0.1)), Bounded())


def test_points_have_one_form() -> None:
    assert canonical_point(Config(), {"alpha": 1, "types": ("a", "b")}) == {"alpha": 1.0, "types": ["a", "b"]}
    assert label({"model.alpha": 0.75, "optim.lr": 2e-4, "types": ["a", "b"]}) == "alpha=0.75 lr=0.0002 types=['a','b']"


def test_equal_spaces_are_described_equally() -> None:
    one, two = of(a=tune.uniform(0.0, 1.0), b=tune.choice([1, 2])), of(a=tune.uniform(0.0, 1.0), b=tune.choice([1, 2]))
    assert one.describe() == two.describe()
    assert one.describe() != of(a=tune.loguniform(0.1, 1.0), b=tune.choice([1, 2])).describe()
    assert of(n=tune.qrandint(0, 10, 5)).describe() == {"n": {"integer uniform": [0, 10], "step": 5}}


BRANCHES = {
    "which": tune.grid_search(
        [
            {"optim.lr": tune.grid_search([0.1, 0.2])},
            {"optim.schedule": "cosine", "optim.every": tune.grid_search([1, 2, 3])},
        ]
    ),
    "alpha": tune.grid_search([0.0, 1.0]),
}
DRAWN = {
    "which": tune.choice(
        [{"optim.lr": tune.uniform(0.1, 0.2)}, {"optim.schedule": "cosine", "optim.every": tune.randint(1, 9)}]
    ),
    "alpha": tune.uniform(0.0, 1.0),
}


def test_alternatives_of_a_grid_are_listed_one_after_the_other() -> None:
    space = Space("here", BRANCHES)
    assert space.is_grid
    assert space.keys == ("optim.lr", "optim.schedule", "optim.every", "alpha")
    assert space.varied == ("optim.lr", "optim.every", "alpha")
    assert expand(space) == [
        *({"optim.lr": lr, "alpha": alpha} for lr in (0.1, 0.2) for alpha in (0.0, 1.0)),
        *({"optim.schedule": "cosine", "optim.every": k, "alpha": a} for k in (1, 2, 3) for a in (0.0, 1.0)),
    ]
    check_space(space, Config())


def test_drawn_alternatives_have_their_own_keys_and_extend() -> None:
    space = Space("here", DRAWN)
    assert not space.is_grid
    points = expand(space, 40)
    assert {tuple(point) for point in points} == {("optim.lr", "alpha"), ("optim.schedule", "optim.every", "alpha")}
    assert points[:15] == expand(space, 15)
    check_space(space, Config())
    assert space.describe()["which"] == {
        "choice": [
            {"optim.lr": {"uniform": [0.1, 0.2]}},
            {"optim.schedule": "cosine", "optim.every": {"integer uniform": [1, 9]}},
        ]
    }


@pytest.mark.parametrize("domains", [BRANCHES, DRAWN])
def test_every_point_has_one_place_and_comes_back_from_it(domains: dict[str, Any]) -> None:
    space = Space("here", domains)
    for point in expand(space, 20):
        labels = labels_of(domains, point)
        assert labels is not None
        assert at_labels(domains, labels) == point
    for wrong in ({"alpha": 0.5}, {"optim.lr": 0.1, "optim.every": 1, "alpha": 1.0}, {"optim.lr": 0.9, "alpha": 1.0}):
        assert labels_of(domains, wrong) is None


@pytest.mark.parametrize(
    ("domains", "message"),
    [
        ({"which": tune.choice([{"optim.lr": 0.1}, {"optim.rate": 1}])}, "optim.rate: no such key"),
        ({"which": tune.choice([{"optim.every": tune.randint(0, 3)}])}, "optim.every=0: must be between"),
        ({"alpha": tune.choice([{"optim.lr": 0.1}])}, "alpha: names alternatives but is also a setting"),
    ],
)
def test_wrong_alternatives_are_refused_by_key(domains: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"search space here: .*{message}"):
        check_space(Space("here", domains), Config())


def test_values_of_other_libraries_are_plain_ones() -> None:
    """Else the points of a ledger, which are plain, would be none of the space's, and its results be lost."""
    space = of(
        optim__every=tune.grid_search(list(np.array([5, 10]))),
        types=tune.grid_search([("a",), ("a", "b")]),
        optim__lr=np.float32(0.5),
        alpha=tune.choice(list(np.array([0.25, 0.5]))),
    )
    check_space(space, Config())
    assert space.describe()["optim.every"] == {"grid": [5, 10]}
    for point in expand(space):
        assert labels_of(space.domains, canonical_point(Config(), point)) is not None


def test_a_key_of_an_alternative_that_the_user_set_cannot_be_searched() -> None:
    with pytest.raises(InputError, match=r"optim\.every: is set by you"):
        check_space(Space("here", DRAWN), Config(), {"optim.every"})


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("eta", "univse_scenes"),
        ("eta_joint", "univse_tiny"),
        ("margin", "relational_attention_scenes"),
        ("margin_joint", "relational_attention_scenes"),
        ("lambdas", "jwae_mse_scenes"),
        ("lambdas_joint", "jwae_mh_scenes"),
    ],
)
def test_shipped_spaces_fit_their_presets(name: str, preset: str) -> None:
    from vse import presets

    space, config = load_space(name), presets.preset(preset)
    check_space(space, config)
    assert all(key in space.keys for key, _ in leaves(space.domains))
    for point in expand(space, 5):
        canonical_point(config, point)


def test_the_etas_of_the_supplement() -> None:
    """A.2: each of four weights at five values, the others fixed: 20 models."""
    points = expand(load_space("eta"))
    assert len(points) == 20
    assert all(len(point) == 1 for point in points)
    assert {key for point in points for key in point} == {f"objective.eta_{k}" for k in "coar"}
    assert {value for point in points for value in point.values()} == {0.1, 1.0, 2.0, 4.0, 8.0}
