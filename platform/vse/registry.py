"""Components by name: sources, backbones, families, objectives. A component registers itself, with its own Config."""

import difflib
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from vse.errors import Hint, InputError, UnknownError

C = TypeVar("C", bound=type)

_COMPONENTS: dict[str, dict[str, type]] = {}


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
    """

    def decorate(cls: C) -> C:
        config = getattr(cls, "Config", None)
        assert isinstance(config, type), f"{cls.__name__} lacks a Config"
        assert issubclass(config, ComponentConfig), f"{cls.__name__}.Config must be a ComponentConfig"
        classes = _COMPONENTS.setdefault(kind, {})
        assert name not in classes or classes[name].__qualname__ == cls.__qualname__, f"{kind} {name!r} is taken"
        classes[name] = cls
        return cls

    return decorate


def names(kind: str) -> tuple[str, ...]:
    """Registered names of a kind, sorted."""
    return tuple(sorted(_COMPONENTS.get(kind, {})))


def component(kind: str, name: str, key: str = "") -> Any:
    """The class registered as `name`; a user chooses it by `key`. Raises UnknownError that lists the names."""
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
    config: type[ComponentConfig] = _COMPONENTS[kind][other].Config  # type: ignore[attr-defined]  # asserted in register
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
    for name, cls in _COMPONENTS.get(kind, {}).items():
        if cls.Config is type(config):  # type: ignore[attr-defined]  # asserted in register
            return name
    raise AssertionError(f"{type(config).__qualname__} belongs to no registered {kind}")


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
