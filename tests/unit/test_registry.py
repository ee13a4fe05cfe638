"""Components by name."""

import functools
import importlib
import logging
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from vse import registry
from vse.errors import InputError
from vse.registry import ComponentConfig, register


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_COMPONENTS", {})


def make(name: str, kind: str = "colour") -> type:
    @register(kind, name)
    class Colour:
        @dataclass(frozen=True, kw_only=True, slots=True)
        class Config(ComponentConfig):
            depth: int = 1

        def __init__(self, config: Config, *extra: object, **named: object) -> None:
            self.config, self.extra, self.named = config, extra, named

    Colour.__qualname__ = f"Colour_{name}"
    return Colour


def test_components_are_found_by_name_and_by_their_configuration() -> None:
    red, blue = make("red"), make("blue")
    assert registry.names("colour") == ("blue", "red")
    assert registry.component("colour", "red") is red
    assert registry.name_of("colour", blue.Config()) == "blue"
    built = registry.build("colour", red.Config(depth=3), 1, flag=True)
    assert isinstance(built, red)
    assert (built.config.depth, built.extra, built.named) == (3, (1,), {"flag": True})


def test_kinds_do_not_mix() -> None:
    red = make("red")
    make("red", kind="wine")
    assert registry.component("colour", "red") is red
    with pytest.raises(AssertionError, match="belongs to no registered wine"):
        registry.name_of("wine", red.Config())


def test_an_unknown_name_lists_the_known_ones() -> None:
    make("red")
    make("blue")
    with pytest.raises(InputError, match="colour=green: unknown; expected blue, red"):
        registry.component("colour", "green")
    with pytest.raises(InputError, match="wine=green: unknown; expected nothing"):
        registry.component("wine", "green")
    assert registry.names("wine") == ()


def test_a_component_says_what_an_unknown_name_may_be_meant_for() -> None:
    make("red")

    @register("colour", "mixed")
    class Mixed:
        @dataclass(frozen=True, kw_only=True, slots=True)
        class Config(ComponentConfig):
            unknown_name_key: ClassVar[tuple[str, str] | None] = ("pigment", "a pigment goes by")

            pigment: str = ""

        def __init__(self, config: Config) -> None:
            if config.pigment != "umber":
                raise InputError("no such pigment")

    with pytest.raises(InputError) as caught:
        registry.component("colour", "umber", "picture.colour")
    assert str(caught.value) == (
        "picture.colour=umber: unknown; a pigment goes by picture.colour=mixed picture.colour.pigment=umber; expected "
        "mixed, red"
    )
    with pytest.raises(InputError) as caught:
        registry.component("colour", "mud", "picture.colour")
    assert str(caught.value) == "picture.colour=mud: unknown; expected mixed, red"


def test_a_name_is_given_once() -> None:
    make("red")
    with pytest.raises(AssertionError, match="'red' is taken"):

        @register("colour", "red")
        class Other:
            class Config(ComponentConfig):
                pass


def test_importing_a_module_again_is_no_second_component() -> None:
    def define() -> type:
        @register("colour", "red")
        class Red:
            class Config(ComponentConfig):
                pass

        return Red

    define()
    again = define()
    assert registry.component("colour", "red") is again


@pytest.mark.parametrize("config", [None, 3, dict])
def test_a_component_needs_a_configuration_of_the_right_kind(config: object) -> None:
    with pytest.raises(AssertionError, match="Config"):
        register("colour", "bare")(type("Bare", (), {} if config is None else {"Config": config}))
    assert registry.names("colour") == ()


COMPONENT = """
from vse.registry import ComponentConfig, register

@register("family", "{name}")
class {name}:
    class Config(ComponentConfig):
        pass
"""


def install(folder: Path, package: str, points: str, source: str = "") -> None:
    """A distribution with one module of the same name, as pip would leave it in a folder."""
    distribution = folder / f"{package}-1.0.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (distribution / "entry_points.txt").write_text(f"[vse.components]\n{points}\n")
    (folder / f"{package}.py").write_text(source)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable folder for distributions; what was loaded before is forgotten."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "load_extensions", functools.cache(registry.load_extensions.__wrapped__))
    monkeypatch.setattr(registry, "warn_of_misnamed", functools.cache(registry.warn_of_misnamed.__wrapped__))
    return tmp_path


def test_an_entry_point_registers_a_component_when_its_kind_is_needed(packages: Path) -> None:
    install(packages, "vse_teal", "family.teal = vse_teal", COMPONENT.format(name="teal"))
    assert registry.names("task") == ()
    assert "vse_teal" not in sys.modules
    assert registry.component("family", "teal").__module__ == "vse_teal"
    assert registry.names("family") == ("teal",)


def test_entry_points_may_name_every_kind() -> None:
    sources = Path(registry.__file__).parent.rglob("*.py")
    found = {kind for file in sources for kind in re.findall(r'@register\("(\w+)"', file.read_text(encoding="utf-8"))}
    assert {*found, "attack", "preset"} == set(registry.KINDS)


def test_what_an_entry_point_lacks_is_one_line(packages: Path, caplog: pytest.LogCaptureFixture) -> None:
    install(packages, "vse_a", "family.pink = vse_a", COMPONENT.format(name="pink"))
    install(packages, "vse_b", "family.pink = vse_b", COMPONENT.format(name="pink"))
    install(packages, "vse_c", "family.red = vse_c", COMPONENT.format(name="red"))
    install(packages, "vse_d", "family.gone = vse_d\nfamly.gone = vse_d\nfamily = vse_d", "raise OSError(3, 'no disk')")
    install(packages, "vse_e", "family.nothing = vse_e")
    make("red", kind="family")
    with caplog.at_level(logging.WARNING):
        assert registry.names("family") == ("red",)
        assert registry.names("task") == ()
    point = "1.0: entry point family"
    lines = {
        "pink": (
            f"vse_a {point}.pink = vse_a: vse_b {point}.pink = vse_b has the same name; uninstall one of these packages"
        ),
        "red": f"vse_c {point}.red = vse_c: cannot be imported (family 'red' is taken)",
        "gone": f"vse_d {point}.gone = vse_d: cannot be imported ([Errno 3] no disk)",
        "nothing": f"vse_e {point}.nothing = vse_e: registers no family nothing",
    }
    begins = "its name must begin with a kind of component and a dot; did you mean family?"
    others = [f"vse_d {point} = vse_d: {begins}", f"vse_d 1.0: entry point famly.gone = vse_d: {begins}"]
    assert sorted(caplog.messages) == sorted([*lines.values(), *others])
    for name in ("pink", "gone", "nothing"):
        with pytest.raises(InputError) as caught:
            registry.component("family", name)
        assert str(caught.value) == lines[name]
    assert registry.component("family", "red").__module__ == __name__


def test_a_new_module_of_a_package_registers_its_components(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "colours"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from vse.registry import import_modules\n\nimport_modules(__name__)\n", encoding="utf-8"
    )
    (package / "red.py").write_text(
        "from vse.registry import ComponentConfig, register\n\n\n"
        "@register('colour', 'red')\nclass Red:\n    class Config(ComponentConfig):\n        pass\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("colours")
    assert registry.names("colour") == ("red",)
