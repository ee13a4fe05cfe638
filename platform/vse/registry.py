"""Components by name: sources, backbones, families, objectives. A component registers itself, with its own Config.

Other installed packages add components by entry points of the group `vse.components`. An entry point is called
`KIND.NAME`, such as `family.mean_words`, and names the module that registers it. A package is imported when the names
of that kind are first needed.
"""

import difflib
import functools
import importlib
import logging
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, TypeVar

from vse.errors import Hint, InputError, UnknownError, did_you_mean, first_line

log = logging.getLogger(__name__)

C = TypeVar("C", bound=type)

_COMPONENTS: dict[str, dict[str, type]] = {}
ENTRY_POINTS = "vse.components"
KINDS = ("attack", "backbone", "encoder", "family", "objective", "parser", "preset", "sentence", "source", "task")
"""Kinds of components that entry points may name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentConfig:
    """Base of every component's nested `Config`; the class it belongs to is found through the registry.

    Attributes:
        unknown_name_key: a key of this component and what its values are called: `("arch", "a network goes by")`. If
            an unknown component name is such a value, the error suggests it.
    """

    unknown_name_key: ClassVar[tuple[str, str] | None] = None


def register(kind: str, name: str) -> Callable[[C], C]:
    """Class decorator that makes a component available as `name` among the components of `kind`.

    The class must carry a nested `Config` (frozen dataclass, subclass of `ComponentConfig`) whose defaults are usable.

    Args:
        kind: kind of component, such as `family` or `source`.
        name: its name, as in `model=NAME`.
    """

    def decorate(cls: C) -> C:
        config = getattr(cls, "Config", None)
        assert isinstance(config, type), f"{cls.__name__} lacks a Config"
        assert issubclass(config, ComponentConfig), f"{cls.__name__}.Config must be a ComponentConfig"
        classes = _COMPONENTS.setdefault(kind, {})
        assert name not in classes or _full_name(classes[name]) == _full_name(cls), f"{kind} {name!r} is taken"
        classes[name] = cls
        return cls

    return decorate


def names(kind: str) -> tuple[str, ...]:
    """Registered names of a kind, sorted, those of other installed packages included."""
    load_extensions(kind)
    return tuple(sorted(_COMPONENTS.get(kind, {})))


def component(kind: str, name: str, key: str = "") -> Any:
    """The class registered under a name.

    Args:
        kind: kind of the component, such as `family`.
        name: its name, as the user gave it.
        key: configuration key that names it, for messages; empty for `kind`.

    Raises:
        UnknownError: no component has the name; it lists the names.
        InputError: the package that has the component cannot be imported.
    """
    if name not in _COMPONENTS.get(kind, {}):
        check_extension(kind, name)
    try:
        return _COMPONENTS[kind][name]
    except KeyError:
        key, every = key or kind, names(kind)
        hints = [Hint(near, {key: near}) for near in difflib.get_close_matches(name, every)]
        hints += [hint for other in every if (hint := _as_value(kind, other, key, name)) is not None]
        listed = f"expected {', '.join(every) or 'nothing'}"
        raise UnknownError(key, f"{key}={name}: unknown", hints, listed, always=True) from None


def _as_value(kind: str, other: str, key: str, name: str) -> Hint | None:
    """A hint that an unknown name is a value of another component's key, if that component can be built with it."""
    config: type[ComponentConfig] = _COMPONENTS[kind][other].Config  # asserted in register
    if config.unknown_name_key is None:
        return None
    below, called = config.unknown_name_key
    try:
        build(kind, config(**{below: name}))
    except InputError:
        return None
    return Hint(f"{key}={other} {key}.{below}={name}", {key: other, f"{key}.{below}": name}, called)


def name_of(kind: str, config: ComponentConfig) -> str:
    """The name under which the component that owns `config` is registered."""
    return _name_of(kind, type(config))


@functools.cache
def _name_of(kind: str, config: type) -> str:
    for name, cls in _COMPONENTS.get(kind, {}).items():
        if cls.Config is config:  # asserted in register
            return name
    raise AssertionError(f"{config.__qualname__} belongs to no registered {kind}")


def build(kind: str, config: ComponentConfig, *args: Any, **kwargs: Any) -> Any:
    """Construct the component that owns `config` as `cls(config, *args, **kwargs)`."""
    return component(kind, name_of(kind, config))(config, *args, **kwargs)


def import_modules(package: str) -> None:
    """Import every module of a package, so that the components defined in it are registered.

    Args:
        package: full name of the package, such as `vse.models`. Its `__init__` calls this with `__name__`.
    """
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


def check_extension(kind: str, name: str) -> None:
    """Raises InputError if another package has this component but cannot be imported."""
    if problem := load_extensions(kind).get(name):
        raise InputError(problem)


@functools.cache
def load_extensions(kind: str) -> dict[str, str]:
    """Import the modules that entry points name for a kind, once, and warn of packages that cannot be imported.

    Returns:
        By name of a component, why its package cannot be used.
    """
    problems = dict[str, str]()
    for name, points in _points(kind).items():
        point, *others = points
        if others:
            problems[name] = (
                f"{_origin(point)}: {_origin(others[0])} has the same name; uninstall one of these packages"
            )
            continue
        try:
            point.load()
            if kind in _COMPONENTS and name not in _COMPONENTS[kind]:
                problems[name] = f"{_origin(point)}: registers no {kind} {name}"
        except Exception as error:  # whatever the package does
            problems[name] = f"{_origin(point)}: cannot be imported ({first_line(error)})"
    warn_of_misnamed()
    for problem in problems.values():
        log.warning("%s", problem)
    return problems


def _points(kind: str) -> dict[str, list[EntryPoint]]:
    """The entry points of a kind by the name of their component, in an order that does not depend on the path."""
    points: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=ENTRY_POINTS), key=_origin):
        of_kind, _, name = point.name.partition(".")
        if of_kind == kind and name:
            points.setdefault(name, []).append(point)
    return points


@functools.cache
def warn_of_misnamed() -> None:
    """Warn once of each entry point whose name does not begin with a kind."""
    for point in sorted(entry_points(group=ENTRY_POINTS), key=_origin):
        kind, _, name = point.name.partition(".")
        if kind not in KINDS or not name:
            suggestion = did_you_mean(kind, KINDS) or f"expected one of {', '.join(KINDS)}"
            problem = "its name must begin with a kind of component and a dot"
            log.warning("%s: %s; %s", _origin(point), problem, suggestion)


def _origin(point: EntryPoint) -> str:
    package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "a package"
    return f"{package}: entry point {point.name} = {point.value}"


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
