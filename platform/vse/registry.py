"""Components by name: sources, backbones, families, objectives. A component registers itself, with its own Config."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from vse.errors import InputError, did_you_mean

C = TypeVar("C", bound=type)

_COMPONENTS: dict[str, dict[str, type]] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentConfig:
    """Base of every component's nested `Config`; the class it belongs to is found through the registry.

    `unknown_name_hint` is told where a name is unknown that may be meant for a key of this component: `{key}` stands
    for the key that chooses a component, `{name}` for what was given.
    """

    unknown_name_hint: ClassVar[str] = ""


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


def component(kind: str, name: str, key: str = "") -> Any:
    """The class registered as `name`; `key` is how a user chooses one. Raises InputError that lists the known names."""
    try:
        return _COMPONENTS[kind][name]
    except KeyError:
        known, near = names(kind), did_you_mean(name, names(kind))
        near, key = f"{near} " if near else "", key or kind
        configs: list[type[ComponentConfig]] = [_COMPONENTS[kind][each].Config for each in known]  # type: ignore[attr-defined]  # asserted in register
        hints = [f"; {each.unknown_name_hint.format(key=key, name=name)}" for each in configs if each.unknown_name_hint]
        told = f"{near}known are {', '.join(known) or 'none'}{''.join(hints)}"
        raise InputError(f"{key}={name}: unknown; {told}") from None


def name_of(kind: str, config: ComponentConfig) -> str:
    """The name under which the component that owns `config` is registered."""
    for name, cls in _COMPONENTS.get(kind, {}).items():
        if cls.Config is type(config):  # type: ignore[attr-defined]  # asserted in register
            return name
    raise AssertionError(f"{type(config).__qualname__} belongs to no registered {kind}")


def build(kind: str, config: ComponentConfig, *args: Any, **kwargs: Any) -> Any:
    """Construct the component that owns `config` as `cls(config, *args, **kwargs)`."""
    return component(kind, name_of(kind, config))(config, *args, **kwargs)
