"""Components by name: sources, backbones, families, objectives. A component registers itself, with its own Config."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from vse.errors import InputError

C = TypeVar("C", bound=type)

_COMPONENTS: dict[str, dict[str, type]] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentConfig:
    """Base of every component's nested `Config`; the class it belongs to is found through the registry."""


def register(kind: str, name: str) -> Callable[[C], C]:
    """Class decorator that makes a component available as `name` among the components of `kind`.

    The class must carry a nested `Config` (frozen dataclass, subclass of `ComponentConfig`) whose defaults are usable.
    """

    def decorate(cls: C) -> C:
        config = getattr(cls, "Config", None)
        assert isinstance(config, type), f"{cls.__name__} lacks a Config"
        assert issubclass(config, ComponentConfig), f"{cls.__name__}.Config must be a ComponentConfig"
        known = _COMPONENTS.setdefault(kind, {})
        assert name not in known or known[name].__qualname__ == cls.__qualname__, f"{kind} {name!r} is taken"
        known[name] = cls
        return cls

    return decorate


def names(kind: str) -> tuple[str, ...]:
    """Registered names of a kind, sorted."""
    return tuple(sorted(_COMPONENTS.get(kind, {})))


def component(kind: str, name: str) -> Any:
    """The class registered as `name`; raises InputError that lists the known names."""
    try:
        return _COMPONENTS[kind][name]
    except KeyError:
        raise InputError(f"{kind}={name}: unknown; known are {', '.join(names(kind)) or 'none'}") from None


def name_of(kind: str, config: ComponentConfig) -> str:
    """The name under which the component that owns `config` is registered."""
    for name, cls in _COMPONENTS.get(kind, {}).items():
        if cls.Config is type(config):  # type: ignore[attr-defined]  # asserted in register
            return name
    raise AssertionError(f"{type(config).__qualname__} belongs to no registered {kind}")


def build(kind: str, config: ComponentConfig, *args: Any, **kwargs: Any) -> Any:
    """Construct the component that owns `config` as `cls(config, *args, **kwargs)`."""
    return component(kind, name_of(kind, config))(config, *args, **kwargs)
