"""The trainings of a study and the one file that keeps their results.

`trainings.zip` has two entries per training: NAME.json, its summary, and NAME.parquet, its results per image. Entries
are sorted and carry no times, so the same trainings give the same bytes. Any zip or Parquet reader opens them.
"""

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vse.config import canonical, fingerprint
from vse.errors import DamagedError, InputError
from vse.evaluation.per_image import PerImage
from vse.presets.catalogue import from_data
from vse.storage.files import as_json
from vse.storage.folder import Folder
from vse.studies.tables import unpack
from vse.training.code import Code
from vse.training.config import RunConfig

ARCHIVE = "trainings.zip"
REVISION = 3  # of what is measured, adversaries included


@dataclass(frozen=True)
class Training:
    """One training of a study: its configuration and what is measured afterwards.

    `splits` is empty for trainings of the search, whose validation metrics suffice; `alphas` is empty for families
    without an alpha. `contrast` is the number of VSE-C adversaries per class and caption that attack as well.
    `transfers` maps the name of other data's test split to the changes that lead there.
    """

    label: str
    config: RunConfig
    alphas: tuple[float, ...] = ()
    splits: tuple[str, ...] = ()
    contrast: int = 0
    transfers: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = ()

    @cached_property
    def measured(self) -> dict[str, Any]:
        """What is measured, as plain data."""
        transfers = {name: dict(changes) for name, changes in self.transfers}
        request = {"alphas": self.alphas, "splits": self.splits, "contrast": self.contrast, "transfers": transfers}
        return canonical({"revision": REVISION, **request})

    @cached_property
    def name(self) -> str:
        """The name of its entries: the label and a fingerprint of everything else."""
        return f"{self.label}-{fingerprint([self.measured, self.config])}"


class TrainingArchive:
    """Results of finished trainings, read from and written to `trainings.zip` of a folder.

    Raises DamagedError if the file is there but cannot be read.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._entries: dict[str, bytes] = {}
        self._summaries: dict[str, dict[str, Any]] = {}
        self._names: dict[str, str] = {}
        self._tag = ""
        self._read()

    @property
    def address(self) -> str:
        """Path or address of the file."""
        return self.folder.address(ARCHIVE)

    def summary(self, training: Training) -> dict[str, Any] | None:
        """The summary of a training, None if it is not done."""
        name = self._name(training)
        return None if name is None else self._summaries[name]

    def table(self, training: Training, split: str, words: str, alpha: str) -> PerImage:
        """The results per image of a finished training.

        Args:
            training: It must be done.
            split: A measured split, or the name of a transfer.
            words: Kind of the words of the adversaries.
            alpha: The `alpha_key`; "none" for a family without α.
        """
        name = self._name(training)
        assert name is not None, f"{training.name} is not done"
        return unpack(self._entries[f"{name}.parquet"], split, words, alpha)

    def code_of(self, training: Training) -> list[Code]:
        """The code that trained and measured it; empty if it is not done or its summary does not say."""
        summary = self.summary(training) or {}
        return [*summary.get("trained_by", ()), *([summary["measured_by"]] if "measured_by" in summary else ())]

    def add(self, training: Training, summary: Mapping[str, Any], tables: bytes = b"") -> None:
        """Add a finished training and replace the file at once. Keeps what other processes have added since.

        Args:
            training: The training.
            summary: Its metrics and how they came about, as plain data.
            tables: Its results per image, as `tables.pack` gives them; empty for a training of the search.
        """
        with self.folder.locked():
            self._read()
            self._entries[f"{training.name}.json"] = as_json({**summary, "measured": training.measured})
            if tables:
                self._entries[f"{training.name}.parquet"] = tables
            self.folder.write_bytes(ARCHIVE, zipped(self._entries))
            self._read()

    def _name(self, training: Training) -> str | None:
        """The name of its entries. They may carry an older fingerprint: the recorded settings decide."""
        if training.name not in self._names:
            same = (name for name, summary in self._summaries.items() if _is_of(summary, training))
            name = training.name if training.name in self._summaries else next(same, None)
            if name is None:
                return None
            self._names[training.name] = name
        return self._names[training.name]

    def _read(self) -> None:
        info = self.folder.info(ARCHIVE)
        if info is None or info.tag == self._tag:
            return
        try:
            with zipfile.ZipFile(io.BytesIO(self.folder.read_bytes(ARCHIVE))) as archive:
                self._entries = {name: archive.read(name) for name in archive.namelist()}
            self._summaries = {
                name.removesuffix(".json"): json.loads(data)
                for name, data in self._entries.items()
                if name.endswith(".json")
            }
        except (zipfile.BadZipFile, ValueError) as error:
            raise DamagedError(f"{self.address}: damaged or not a file of trainings ({error})") from None
        self._names, self._tag = {}, info.tag


def _is_of(summary: Mapping[str, Any], training: Training) -> bool:
    """Whether a summary is of this training: the same label, measures and configuration.

    A setting that the summary lacks, because it was introduced later, counts as its default.
    """
    if summary["label"] != training.label or summary["measured"] != training.measured:
        return False
    try:
        return from_data(summary["configuration"]) == training.config
    except InputError:  # it has a setting that no longer exists
        return False


def zipped(entries: Mapping[str, bytes]) -> bytes:
    """A zip file whose bytes depend only on names and contents. Tables are stored, as they are compressed already."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in sorted(entries):
            info = zipfile.ZipInfo(name)  # its date is 1 January 1980
            info.compress_type = zipfile.ZIP_DEFLATED if name.endswith(".json") else zipfile.ZIP_STORED
            archive.writestr(info, entries[name], compresslevel=9)
    return stream.getvalue()
