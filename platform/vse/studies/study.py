"""A study: arms over seeds, registered before any of them is trained.

Each family is searched over the same number of configurations, on one seed that is used for nothing else. Validation
rsum chooses; controls take the configuration that was chosen for their family.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vse.studies.claims import Claim

Changes = Mapping[str, Any]


def grid(first: str, ones: Sequence[Any], second: str, twos: Sequence[Any]) -> tuple[Changes, ...]:
    """Changes of two keys: every value of one with every value of the other, the second key fastest.

    Args:
        first: Dotted key of the configuration.
        ones: Its values.
        second: The other key.
        twos: Its values.
    """
    return tuple({first: a, second: b} for a in ones for b in twos)


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyArm:
    """Runs of one setting, one per seed: a preset, with the settings chosen for `family`, and `changes` on top."""

    preset: str
    family: str
    changes: Changes = field(default_factory=dict)
    alphas: tuple[float, ...] = ()
    longer: str = ""  # the arm whose training time this one matches by more epochs


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """Arms over seeds. `folds` > 0 searches by cross-validation inside training and validation images; without a
    `search` every arm is its preset."""

    name: str
    arms: Mapping[str, StudyArm]
    search: Mapping[str, Sequence[Changes]]
    data: Changes
    splits: tuple[str, ...]
    seeds: int
    claims: tuple[Claim, ...]
    search_seed: int = 100
    folds: int = 0
    standard_error: bool = False  # the rule for alpha on small sets of photographs
    contrast: int = 0  # of VSE-C's adversaries, so many of each class and caption; 0: UniVSE's attacks only
    transfers: Mapping[str, Changes] = field(default_factory=dict)  # test splits of other data, and what leads there
    photographs: bool = False  # of images and weights that the user names

    @property
    def answering(self) -> tuple[str, ...]:
        """The arms that answer the claims: the first two. They are run first, and findings need them done."""
        return tuple(self.arms)[:2]
