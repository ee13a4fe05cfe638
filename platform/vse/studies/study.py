"""What a study is: arms over seeds, written down before any of them is trained.

Search effort is equal: as many configurations for one family as for the other, on one seed that serves nothing else,
chosen by validation rsum. Controls take the configuration that was chosen for their family.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vse.studies.claims import UNIVSE_CLAIMS, Claim

Changes = Mapping[str, Any]


def grid(first: str, ones: Sequence[Any], second: str, twos: Sequence[Any]) -> tuple[Changes, ...]:
    """Changes of two keys: every value of one with every value of the other."""
    return tuple({first: a, second: b} for a in ones for b in twos)


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyArm:
    """A family of runs, one a seed: a preset, what the search chose for `family`, and `changes` on top."""

    preset: str
    family: str
    changes: Changes = field(default_factory=dict)
    alphas: tuple[float, ...] = ()
    longer: str = ""  # as many seconds as this arm takes, by more epochs: the equal-wall-clock comparison


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
    search_seed: int = 100
    folds: int = 0
    standard_error: bool = False  # the rule for alpha on small sets of photographs
    claims: tuple[Claim, ...] = UNIVSE_CLAIMS
    contrast: int = 0  # of VSE-C's adversaries, so many of each class and caption; 0: UniVSE's attacks only
    transfers: Mapping[str, Changes] = field(default_factory=dict)  # test splits of other data, and what leads there
    photographs: bool = False  # of images and weights that the user names

    @property
    def answering(self) -> tuple[str, ...]:
        """The arms that answer the claims: the first two. They are run first, and findings need them done."""
        return tuple(self.arms)[:2]
