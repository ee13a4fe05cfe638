"""The preset a run was configured from, kept beside the run for readers: it decides no number and no fingerprint."""

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vse.config import flatten, typed
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace
from vse.workspace.redaction import redact_text

FILE = "preset.json"
TAG = "preset"


@dataclass(frozen=True, slots=True)
class Origin:
    """A preset as the command named it, and the keys that were set to other values beside it; the seed is none."""

    preset: str
    changed: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = len(self.changed)
        return f"{self.preset} +{count} key{'s' if count > 1 else ''}" if count else self.preset

    def command(self, config: Any, workspace: str) -> str:
        """The command that trains this configuration again."""
        values = flatten(config)
        settings = [f"{key}={typed(values[key])}" for key in (*self.changed, "seed") if key in values]
        parts = ["python", "jobs/train.py", "--preset", self.preset, *settings, "--workspace", redact_text(workspace)]
        return shlex.join(parts)

    @classmethod
    def told(cls, preset: str | None, beside: Sequence[str]) -> "Origin | None":
        """Of a command line, if it has a preset; credentials in a preset's address are hidden."""
        if preset is None:
            return None
        return cls(redact_text(preset), tuple(sorted(key for key in beside if key != "seed")))


def keep_origin(run: Folder, origin: Origin) -> bool:
    """Write it into a run's folder unless that has one: the same run may be reached from several presets, and the first
    stays. Returns whether it was written."""
    if read_origin(run) is not None:
        return False
    run.write_json(FILE, {"preset": origin.preset, "changed": list(origin.changed)})
    return True


def name_finished(workspace: Workspace, run: Folder, origin: Origin) -> None:
    """Keep and tell the preset of a finished run that has none; where nothing can be written, it stays without."""
    with contextlib.suppress(OSError, InputError):
        if keep_origin(run, origin):
            journal = workspace.journal(run)
            with journal.together():
                journal.tags({TAG: str(origin)})


def read_origin(run: Folder) -> Origin | None:
    """None for runs trained without a preset's name, as those of sweeps and studies are, or before it was kept."""
    try:
        data = run.read_json(FILE)
        return Origin(str(data["preset"]), tuple(map(str, data["changed"])))
    except (FileNotFoundError, InputError, KeyError, TypeError):
        return None
