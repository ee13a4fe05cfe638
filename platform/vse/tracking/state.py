"""What a machine knows of what it shipped to one MLflow: a JSON file, whose loss costs one look at what is there."""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Sent:
    """How far a run has been shipped: MLflow's id of it and of its parent; of its journal the first `offset` bytes,
    their SHA-256 and the tag that the file had (`Folder.info`); the tags of its other files. `refused`: MLflow will not
    have it."""

    run_id: str
    offset: int = 0
    digest: str = hashlib.sha256().hexdigest()
    tag: str = ""
    parent: str = ""
    files: dict[str, str] = field(default_factory=dict)
    refused: bool = False

    def begins(self, data: bytes) -> bool:
        """Whether what was shipped is how this journal begins; a run that was made anew has another one."""
        return hashlib.sha256(data[: self.offset]).hexdigest() == self.digest

    def reached(self, data: bytes, tag: str) -> None:
        """All of this journal has been shipped."""
        self.offset, self.digest, self.tag = len(data), hashlib.sha256(data).hexdigest(), tag


def read_state(file: Path) -> dict[str, Sent]:
    """By a run's folder, oldest first; nothing where the file is lost or torn."""
    try:
        return {key: Sent(**entry) for key, entry in json.loads(file.read_text()).items()}
    except (FileNotFoundError, ValueError, TypeError, AttributeError):
        return {}


def write_state(file: Path, sent: dict[str, Sent]) -> None:
    """Replace the file in one step."""
    unfinished = file.with_suffix(".new")
    unfinished.write_text(json.dumps({key: asdict(state) for key, state in sent.items()}))
    os.replace(unfinished, file)


def newest(sent: dict[str, Sent]) -> str:
    """MLflow's id of the run to ask for: a store that lacks it, made anew or brought back from a copy, has to be filled
    again. What was refused may be deleted for good, and is asked for only if there is nothing else."""
    return max(reversed(sent.values()), key=lambda state: not state.refused).run_id
