"""Configurations: overrides, ranges, plain data, fingerprints."""

import json
import math
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse import config as configuration
from vse import registry
from vse.cli.keys import help_lines
from vse.config import (
    canonical,
    dotted,
    fingerprint,
    flatten,
    from_dict,
    group,
    knob,
    override,
    part,
    spelled_out,
    to_dict,
    typed,
    validate,
)
from vse.errors import InputError
from vse.registry import ComponentConfig, register


@pytest.fixture(autouse=True)
def _components(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_COMPONENTS", {})
    register("loss", "hinge")(Hinge)
    register("loss", "softmax")(Softmax)


class Hinge:
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        margin: float = knob(0.2, "distance kept", low=0)
        mining: str = knob("hardest", choices=("hardest", "sum"))


class Softmax:
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        temperature: float = knob(0.07, above=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Optim:
    lr: float = knob(2e-4, "learning rate", above=0)
    betas: tuple[float, float] = knob((0.9, 0.999), low=0, high=1)
    clip: float | None = knob(2.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    name: str = knob("run")
    seed: int = knob(0, "seed", low=0)
    amp: bool = knob(False)
    split: Literal["val", "test"] = knob("val")
    sizes: tuple[int, ...] = knob((1, 2), low=1)
    tags: tuple[str, ...] = knob(())
    optim: Optim = field(default_factory=Optim)
    loss: ComponentConfig = part("loss", Hinge.Config(), "objective")


def test_numbers_of_numpy_are_numbers() -> None:
    changed = override(Run(), {"seed": np.int64(3), "optim.lr": np.float32(0.5)})
    assert (type(changed.seed), type(changed.optim.lr), changed.seed, changed.optim.lr) == (int, float, 3, 0.5)
    with pytest.raises(InputError, match=r"^seed=True: expected an integer$"):
        override(Run(), {"seed": np.bool_(True)})


def test_keys_are_changed_in_a_copy() -> None:
    start = Run()
    changed = override(start, {"optim.lr": 1e-3, "seed": 7, "loss.margin": 0.5})
    assert (changed.optim.lr, changed.seed, changed.loss) == (1e-3, 7, Hinge.Config(margin=0.5))
    assert start == Run()
    with pytest.raises(FrozenInstanceError):
        start.seed = 3  # pyrefly: ignore[read-only]  # that it cannot be set is the point


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("name", "12", "12"),
        ("name", "a=b", "a=b"),
        ("seed", "7", 7),
        ("seed", "7.0", 7),
        ("seed", "1e3", 1000),
        ("amp", "true", True),
        ("amp", "False", False),
        ("split", "test", "test"),
        ("sizes", "3", (3,)),
        ("sizes", "3,4", (3, 4)),
        ("sizes", "[3, 4]", (3, 4)),
        ("sizes", "", ()),
        ("tags", "a, b", ("a", "b")),
        ("tags", "[a, b]", ("a", "b")),
        ("tags", "[a]/b,c[0]", ("[a]/b", "c[0]")),
        ("tags", "391895", ("391895",)),
        ("tags", "[1, 2.50]", ("1", "2.50")),
        ("tags", '["a, b", "1"]', ("a, b", "1")),
        ("optim.lr", "1e-3", 1e-3),
        ("optim.lr", "1", 1.0),
        ("optim.betas", "0.5,0.9", (0.5, 0.9)),
        ("optim.clip", "none", None),
        ("optim.clip", "3", 3.0),
    ],
)
def test_text_becomes_the_declared_type(key: str, text: str, value: Any) -> None:
    found = flatten(override(Run(), {key: text}))[key]
    assert found == value
    assert type(found) is type(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    sentences: tuple[str, ...] = knob((), "what is asked for", repeated=True)
    run: Run = field(default_factory=Run)


@pytest.mark.parametrize("text", ["a dog, and a cat", '["a dog"]', "[a, b]", "a = b", ""])
def test_items_of_a_repeated_key_are_taken_as_they_stand(text: str) -> None:
    for value, expected in ((text, (text,)), ([text, "another, too"], (text, "another, too"))):
        found = validate(override(Asked(), {"sentences": value}))
        assert found.sentences == expected
        assert from_dict(Asked(), to_dict(found)) == found
    line = help_lines(Asked())[0]
    assert line == "  sentences=[]  [a string; may be given several times] what is asked for"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("sede", 1, ["sede", "did you mean seed"]),
        ("optim.lrr", 1, ["optim.lrr", "did you mean optim.lr?"]),
        ("optim.speed", 1, ["optim.speed", "expected optim.lr, "]),
        ("seed.x", 1, ["seed.x", "no keys below"]),
        ("optim.lr.x", 1, ["optim.lr.x: optim.lr is a value"]),
        ("optim", 1, ["optim", "optim.lr"]),
        ("seed", "1.5", ["seed=1.5", "an integer"]),
        ("seed", True, ["seed=True", "an integer"]),
        ("seed", "inf", ["seed=inf", "an integer"]),
        ("seed", -1, ["seed=-1", ">= 0"]),
        ("amp", "yes", ["amp=yes", "true or false"]),
        ("amp", 1, ["amp=1"]),
        ("split", "train", ["split=train", "val or test"]),
        ("name", 3, ["name=3", "a string"]),
        ("optim.lr", "fast", ["optim.lr=fast", "a number"]),
        ("optim.lr", "nan", ["optim.lr=nan"]),
        ("optim.lr", "inf", ["optim.lr=inf", "a number"]),
        ("optim.lr", 10**400, ["a number"]),
        ("seed", "1" + "0" * 400, ["an integer"]),
        ("optim.lr", 0, ["optim.lr=0", "greater than 0"]),
        ("optim.betas", "0.9", ["optim.betas"]),
        ("optim.betas", "0.9,2", ["between 0 and 1"]),
        ("optim.clip", "tight", ["a number or none"]),
        ("sizes", "1,x", ["sizes"]),
        ("sizes", "1,0", ["sizes=0", ">= 1"]),
        ("loss", "huber", ["loss=huber", "hinge, softmax"]),
        ("loss", 3, ["loss", "name of a loss"]),
        ("loss.mining", "none", ["hardest, sum"]),
        ("loss.temperature", 1, ["loss.temperature"]),
    ],
)
def test_a_wrong_key_type_or_range_names_the_key(key: str, value: Any, words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        override(Run(), {key: value})
    assert all(word in str(error.value) for word in words), error.value
    assert "\n" not in str(error.value)


def test_a_component_is_swapped_before_its_keys_are_set() -> None:
    for order in (["loss", "loss.temperature"], ["loss.temperature", "loss"]):
        values = {"loss": "softmax", "loss.temperature": "0.1"}
        assert override(Run(), {key: values[key] for key in order}).loss == Softmax.Config(temperature=0.1)
    kept = override(Run(), {"loss.margin": 0.5})
    assert override(kept, {"loss": "hinge"}).loss == Hinge.Config(margin=0.5)
    assert override(kept, {"loss": "softmax"}).loss == Softmax.Config()


@dataclass(frozen=True, kw_only=True, slots=True)
class Grouped:
    seed: int = knob(0)
    optim: Optim = group(Optim(), {"slow": Optim(), "fast": Optim(lr=0.1, clip=None)}, "how it learns")


def test_a_name_stands_for_all_keys_of_a_group() -> None:
    leaves = {"optim.lr": 0.1, "optim.betas": (0.9, 0.999), "optim.clip": None}
    assert spelled_out(Grouped(), {"seed": "1", "optim": "fast"}) == {"seed": "1", **leaves}
    own = spelled_out(Grouped(), {"optim.lr": "0.2", "optim": "fast"})  # a key of its own wins, in either order
    assert override(Grouped(), own).optim == Optim(lr=0.2, clip=None)
    assert from_dict(Grouped(), {"optim": "fast", "seed": 2}) == Grouped(seed=2, optim=Optim(lr=0.1, clip=None))
    assert spelled_out(Run(), {"optim.lr": 1, "absent.key": 2}) == {"optim.lr": 1, "absent.key": 2}
    for value in ("quick", 3):
        with pytest.raises(InputError, match=rf"^optim={value}: expected slow or fast, or a key below it, as optim\.<"):
            spelled_out(Grouped(), {"optim": value})
    with pytest.raises(InputError, match="optim: is a group"):  # a search space gives single keys
        override(Grouped(), {"optim": "fast"})
    assert "  optim  [slow or fast] a named set of the keys below, which may follow it" in help_lines(Grouped())
    assert len(help_lines(Grouped())) == len(flatten(Grouped())) + 1


def test_flatten_is_what_override_takes() -> None:
    changed = override(Run(), {"loss": "softmax", "optim.clip": None, "sizes": (5,), "seed": 3})
    assert flatten(changed)["loss"] == "softmax"
    assert override(Run(), flatten(changed)) == changed


def test_dotted_names_the_leaves_of_plain_data() -> None:
    assert dotted({"a": 1, "b": {"c": [2, {"d": 3}], "e": {"f": None}}, "g": {}}) == {
        "a": 1,
        "b.c": [2, {"d": 3}],
        "b.e.f": None,
    }
    assert override(Run(), spelled_out(Run(), dotted({"loss": "softmax", "optim": {"clip": None}}))) == override(
        Run(), {"loss": "softmax", "optim.clip": None}
    )


runs = st.builds(
    Run,
    name=st.text(max_size=8),
    seed=st.integers(0, 2**40),
    amp=st.booleans(),
    split=st.sampled_from(["val", "test"]),
    sizes=st.lists(st.integers(1, 99), max_size=4).map(tuple),
    tags=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    optim=st.builds(
        Optim,
        lr=st.floats(1e-9, 10),
        betas=st.tuples(st.floats(0, 1), st.floats(0, 1)),
        clip=st.none() | st.floats(-5, 5),
    ),
    loss=st.builds(Hinge.Config, margin=st.floats(0, 3)) | st.builds(Softmax.Config, temperature=st.floats(0.01, 5)),
)


def test_equal_numbers_have_equal_fingerprints():
    assert fingerprint({"clip": -0.0}) == fingerprint({"clip": 0.0})
    assert fingerprint({"clip": 0.0}) != fingerprint({"clip": 0})


@pytest.mark.seconds
@given(runs)
def test_plain_data_and_back_is_the_same(run: Run) -> None:
    data = json.loads(json.dumps(to_dict(run)))
    back = from_dict(Run(), data)
    assert back == run
    assert fingerprint(back) == fingerprint(run)
    assert validate(back) is back


@pytest.mark.seconds
@given(runs)
def test_every_leaf_survives_the_command_line(run: Run) -> None:
    """`flatten` -> text as a user would type it -> `override`; texts that read as other types stay texts."""
    leaves = flatten(run)
    as_json = {key: value if isinstance(value, str) else json.dumps(value) for key, value in leaves.items()}
    assert override(Run(), as_json) == run
    assert override(Run(), {key: typed(value) for key, value in leaves.items()}) == run


def test_a_list_is_typed_with_commas_or_as_json() -> None:
    assert typed(("a b", "c")) == "a b,c"
    assert typed((0.5, 1e-05)) == "0.5,1e-05"
    assert typed(("a, b", "ü")) == '["a, b", "ü"]'


def test_a_file_names_itself_and_the_key() -> None:
    with pytest.raises(InputError, match=r"my\.json: optim\.lrr"):
        from_dict(Run(), {"optim": {"lrr": 1}}, "my.json")
    with pytest.raises(InputError, match="loss=huber"):
        from_dict(Run(), {"loss": {"name": "huber", "margin": 1}})
    assert from_dict(Run(), {"loss": {"margin": 1}}).loss == Hinge.Config(margin=1.0)
    assert from_dict(Run(), {"loss": "softmax"}).loss == Softmax.Config()
    with pytest.raises(InputError, match="seed"):
        from_dict(Run(), {"seed": {"x": 1}})


def test_fingerprints_follow_values_and_nothing_else() -> None:
    assert fingerprint({"a": 1, "b": [1, 2]}) == fingerprint({"b": (1, 2), "a": 1})
    assert fingerprint({"lr": 1.0}) != fingerprint({"lr": 2.0})
    assert fingerprint(override(Run(), {"optim.lr": "1"})) == fingerprint(override(Run(), {"optim.lr": 1}))
    assert fingerprint(override(Run(), {"loss": "softmax"})) != fingerprint(Run())
    assert fingerprint(Run(optim=Optim(lr=1, betas=(0, 1)))) == fingerprint(
        override(Run(), {"optim.lr": 1, "optim.betas": "0,1"})
    )
    assert fingerprint(override(Run(), {"optim.clip": "-0"})) == fingerprint(override(Run(), {"optim.clip": 0}))
    assert len(fingerprint({})) == 8
    assert fingerprint({"text": "α"}) == fingerprint({"text": "α"})
    assert canonical({2: {3, 1}}) == {"2": [1, 3]}
    with pytest.raises(AssertionError, match="plain data"):
        canonical({"x": object()})


def test_validate_finds_what_a_constructor_let_through() -> None:
    with pytest.raises(InputError, match="seed=-3"):
        validate(Run(seed=-3))
    with pytest.raises(InputError, match=r"optim\.lr"):
        validate(Run(optim=Optim(lr=math.inf * 0)))
    with pytest.raises(InputError, match=r"loss\.mining=worst"):
        validate(Run(loss=Hinge.Config(mining="worst")))


def test_help_says_key_type_default_and_meaning() -> None:
    lines = help_lines(Run())
    assert "  seed=0  [an integer] seed" in lines
    assert "  optim.lr=0.0002  [a number] learning rate" in lines
    assert '  loss="hinge"  [hinge or softmax] objective' in lines
    assert '  loss.mining="hardest"  [hardest or sum]' in lines
    thirds = help_lines(Run(optim=Optim(lr=1 / 3, betas=(2 / 3, 0.9))))
    assert "  optim.lr=0.333333  [a number] learning rate" in thirds
    assert "  optim.betas=[0.666667, 0.9]  [a list of numbers]" in thirds
    assert len(lines) == len(flatten(Run()))


def test_a_field_of_an_unsupported_type_is_the_programmers_error() -> None:
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Odd:
        table: dict[str, int] = knob(None)

    with pytest.raises(AssertionError, match="not supported"):
        override(Odd(), {"table": {}})


def test_walk_gives_every_leaf_its_declared_type() -> None:
    types = {key: hint for key, _, hint, _ in configuration.walk(Run())}
    assert types["seed"] is int
    assert types["loss"] is str
    assert types["optim.clip"] == float | None
