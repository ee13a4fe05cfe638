"""What a caption about a scene says, as data, and the meanings that the captions of a scene have."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entity:
    """A description: canonical noun and attributes; `count` 1 is "a", at least one; 2 to 5 are exact."""

    noun: str
    attributes: frozenset[str] = frozenset()
    count: int = 1

    def spelled(self) -> str:
        """The same text for the same description."""
        return f"{self.count} {' '.join(sorted(self.attributes))} {self.noun}"


@dataclass(frozen=True, slots=True)
class Relation:
    """Canonical relation `name` of `world.RELATIONS` between two entities, given by their positions."""

    subject: int
    name: str
    object: int


@dataclass(frozen=True, slots=True)
class Meaning:
    """All of its entities exist, as different things, and all of its relations hold between them."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...] = ()

    def same_as(self, other: "Meaning") -> bool:
        """Whether both say the same, whatever the order of entities and relations."""
        return self._spelled() == other._spelled()

    def _spelled(self) -> tuple[object, ...]:
        told = [entity.spelled() for entity in self.entities]
        return sorted(told), sorted((told[r.subject], r.name, told[r.object]) for r in self.relations)
