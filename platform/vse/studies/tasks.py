"""A task of a study: one training with its measurement, and the result that it leaves.

The result is a file named by everything that makes it, so that a study may be stopped at any moment, continued, and
given more seeds. Results may be kept outside the workspace: a study then goes on in another workspace, or on another
machine, with what is missing.
"""

from dataclasses import dataclass
from typing import Any

from vse.config import fingerprint
from vse.storage.folder import Folder
from vse.training.code import Code
from vse.training.config import RunConfig

REVISION = 3  # of what is measured: adversaries included


@dataclass(frozen=True)
class Task:
    """One training: configuration, what to measure of it, and the name of its result file.

    `alphas` is empty for families without an alpha; `splits` is empty for trainings of the search, which have their
    validation numbers; `contrast`: so many of VSE-C's adversaries of each class and caption attack too; `transfers`:
    test splits of other data, a name and the changes that lead there. `results`: the folder of the result's files.
    """

    label: str
    config: RunConfig
    alphas: tuple[float, ...]
    splits: tuple[str, ...]
    workspace: str
    results: str
    contrast: int = 0
    transfers: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = ()

    @property
    def name(self) -> str:
        """Stable over restarts, workspaces and machines."""
        more = [each for each in (self.contrast, self.transfers) if each]
        return f"{self.label}-{fingerprint([REVISION, self.config, self.alphas, self.splits, *more])}"


def read_summary(task: Task) -> dict[str, Any] | None:
    """The result of a task, None where it is not done."""
    folder = Folder.open(task.results)
    return folder.read_json(f"{task.name}.json") if folder.exists(f"{task.name}.json") else None


def code_of(task: Task) -> list[Code]:
    """By which code a task was trained and measured; empty where it is not done or does not say."""
    found = read_summary(task) or {}
    return [*found.get("trained_by", ()), *([found["measured_by"]] if "measured_by" in found else ())]
