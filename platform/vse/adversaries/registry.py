"""The attacks by name. An attack is a function in a file of `adversaries/attacks/` that a decorator registers here.

There are two types. UniVSE's draw one random edit of a caption at a time. VSE-C's list all places of a caption with
everything that may be put in there. Stages, metrics, keys, tables and figures follow these registries, in their order:
attacks of the paper first, then others by name. No attack changes what another one draws.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from vse.adversaries.univse.editor import Change, Editor
from vse.adversaries.vsec.reading import Reading
from vse.adversaries.vsec.slots import Slot

Draw = Callable[[Editor], Change | None]
"""Draws one edit of an editor's caption. None if the drawn place or word does not fit; it is then called again."""
FindSlots = Callable[[Reading], Iterator[Slot]]
"""Yields the places of a caption that may be changed, each with all of its alternatives."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """An attack of UniVSE's type. Kept adversaries are made again if `revision` or the word lists change."""

    name: str
    draw: Draw
    paper_rank: int | None = None
    revision: int = 1
    lists: Any = None


@dataclass(frozen=True, kw_only=True)
class ContrastAttack:
    """An attack of VSE-C's type. Results are reported for its class, such as `relation`, which may have several."""

    name: str
    slots: FindSlots
    of_class: str
    paper_rank: int | None = None
    revision: int = 1
    lists: Any = None


ATTACKS: dict[str, Attack] = {}
CONTRAST_ATTACKS: dict[str, ContrastAttack] = {}
D = TypeVar("D", bound=Draw)
F = TypeVar("F", bound=FindSlots)
A = TypeVar("A", Attack, ContrastAttack)


def attack(name: str, *, paper_rank: int | None = None, revision: int = 1, lists: Any = None) -> Callable[[D], D]:
    """Decorator that registers a function as an attack of UniVSE's type.

    Args:
        name: Metrics are called `attack_<name>/...`.
        paper_rank: Position among the attacks of the paper; None for any other attack.
        revision: Raise it whenever the same caption gives other adversaries.
        lists: The attack's own word lists, as `read_lists` returns them.
    """

    def decorate(draw: D) -> D:
        _add(ATTACKS, Attack(name=name, draw=draw, paper_rank=paper_rank, revision=revision, lists=lists))
        return draw

    return decorate


def contrast_attack(
    name: str, *, of_class: str = "", paper_rank: int | None = None, revision: int = 1, lists: Any = None
) -> Callable[[F], F]:
    """Decorator that registers a function as an attack of VSE-C's type.

    Args:
        name: Metrics are called `attack_contrast_<class>/...`, and `attack_contrast_<name>/...` if the class has
            several attacks.
        of_class: The class of the attack; by default one of its own name.
        paper_rank: Position among the attacks of the paper; None for any other attack.
        revision: Raise it whenever the same caption gives other candidates.
        lists: The attack's own word lists, as `read_lists` returns them.
    """

    def decorate(slots: F) -> F:
        of = of_class or name
        entry = ContrastAttack(
            name=name, slots=slots, of_class=of, paper_rank=paper_rank, revision=revision, lists=lists
        )
        _add(CONTRAST_ATTACKS, entry)
        return slots

    return decorate


def _add(attacks: dict[str, A], entry: A) -> None:
    assert entry.name not in attacks, f"attack {entry.name!r} is taken"
    ordered = sorted([*attacks.values(), entry], key=lambda a: (a.paper_rank is None, a.paper_rank or 0, a.name))
    attacks.clear()
    attacks.update((each.name, each) for each in ordered)


def of_paper() -> tuple[str, ...]:
    """Names of UniVSE's own attacks (supplement B.2)."""
    return tuple(name for name, each in ATTACKS.items() if each.paper_rank is not None)


def contrast_classes(*, of_paper: bool = False) -> dict[str, tuple[str, ...]]:
    """Names of the attacks of VSE-C's type by class; `of_paper` leaves out attacks that are not of the paper."""
    classes: dict[str, tuple[str, ...]] = {}
    for name, each in CONTRAST_ATTACKS.items():
        if each.paper_rank is not None or not of_paper:
            classes[each.of_class] = (*classes.get(each.of_class, ()), name)
    return classes


def identity(attacks: Iterable[Attack | ContrastAttack], *shared: Any) -> list[Any]:
    """Plain data for fingerprints: the attacks with their revisions and word lists, and word lists that they share."""
    listed = [asdict(lists) for lists in shared]
    return [*listed, *([each.name, each.revision, asdict(each.lists) if each.lists else None] for each in attacks)]
