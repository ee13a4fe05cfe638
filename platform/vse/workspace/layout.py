"""The layout of a workspace: the folders of data sets, features, parses, runs, ensembles, sweeps and reports."""

import difflib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vse.config import fingerprint
from vse.data.records import Records
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.workspace.journal import Journal, open_in

LISTED = 20  # names that an error lists if a name is unknown
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class ExternalInputs:
    """What the driver of a job read outside the workspace: the records of a source, digests of files.

    `answers` (plain data by question) are sent with the job to its processes on other nodes. These use the answers and
    never read the inputs themselves, since their node may lack the files or have other versions.
    """

    def __init__(self, answers: Mapping[str, str] | None = None) -> None:
        self.given, self.answers = answers is not None, dict(answers or {})

    def answer(self, question: Sequence[object]) -> str | None:
        """The answer given to this process; None if it has to read the input itself."""
        return self.answers.get(fingerprint(list(question))) if self.given else None

    def keep(self, question: Sequence[object], answer: str) -> str:
        """Keep an answer for the processes of the job, and return it."""
        self.answers[fingerprint(list(question))] = answer
        return answer

    def ask(self, question: Sequence[object], look: Callable[[], str]) -> str:
        """The answer given to this process, else the result of `look`."""
        answer = self.answer(question)
        return self.keep(question, look()) if answer is None else answer


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folders of a workspace. Creating this object touches nothing; `check_writable` writes a probe.

    Attributes:
        root: the folder or s3:// address of the workspace.
        external: what stages read outside the workspace.
    """

    root: Folder
    external: ExternalInputs = field(default_factory=ExternalInputs, compare=False, repr=False)

    @classmethod
    def open(cls, uri: str, answers: Mapping[str, str] | None = None) -> "Workspace":
        """The workspace at `uri`. The default workspace of a job is chosen by `vse.cli.command`.

        Args:
            uri: a folder or an s3:// address.
            answers: in processes on other nodes, the `external.answers` of the job's driver.
        """
        return cls(Folder.open(uri), ExternalInputs(answers))

    def check_writable(self) -> "Workspace":
        """Raises InputError in one line if nothing can be written; returns the workspace."""
        self.root.check_writable()
        return self

    def dataset(self, records: Records) -> Folder:
        """datasets/<name>-<fingerprint>: the records and their annotations."""
        return self.described(f"{records.name}-{records.fingerprint}")

    def described(self, name: str) -> Folder:
        """datasets/<name>."""
        return self._at("datasets", name)

    def features(self, dataset: str, fingerprint: str) -> Folder:
        """features/<dataset>/<fingerprint>; `dataset` as `dataset_name` gives it."""
        return self._at("features", dataset, fingerprint)

    def proposals(self, dataset: str, fingerprint: str) -> Folder:
        """proposals/<dataset>/<fingerprint>: proposed regions of photographs."""
        return self._at("proposals", dataset, fingerprint)

    def language(self, dataset: str, fingerprint: str) -> Folder:
        """language/<dataset>/<fingerprint>: parses, components, adversaries."""
        return self._at("language", dataset, fingerprint)

    def run(self, run: str) -> Folder:
        """runs/<run>: configuration, journal, checkpoints, evaluation."""
        return self._at("runs", run)

    def ensemble(self, name: str) -> Folder:
        """ensembles/<name>: journal and evaluation of several runs scored as one."""
        return self._at("ensembles", name)

    def sweep(self, name: str) -> Folder:
        """sweeps/<name>."""
        return self._at("sweeps", name)

    def report(self, name: str) -> Folder:
        """reports/<name>."""
        return self._at("reports", name)

    def search(self, name: str) -> Folder:
        """searches/<name>."""
        return self._at("searches", name)

    def gallery(self, name: str) -> Folder:
        """galleries/<name>: pages of queries with their best candidates."""
        return self._at("galleries", name)

    def export(self, name: str) -> Folder:
        """exports/<name>: vectors, indexes and networks of a run for other programs."""
        return self._at("exports", name)

    def comparison(self, name: str) -> Folder:
        """comparisons/<name>: differences of runs from the first of them."""
        return self._at("comparisons", name)

    def existing(self, kind: str, name: str, key: str) -> Folder:
        """A folder of the workspace that the user named by a key, such as runs/x.

        Args:
            kind: the folder of the workspace, such as `runs` or `sweeps`.
            name: the folder in it; empty if the user named none.
            key: of the configuration, for the error.

        Raises:
            InputError: There is no such folder. The message lists the folders there are, of many the most alike, or
                names the workspace if there are none.
        """
        names = self.root.child(kind).names()
        if name not in names:
            shown = difflib.get_close_matches(name, names, LISTED, cutoff=0.0) if len(names) > LISTED else names
            more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
            labels = (
                each if _is_finished(kind, self.root.child(kind, each)) else f"{each} (unfinished)" for each in shown
            )
            listed = ", ".join(labels) + more
            if not name:
                raise InputError(f"{key}: name one of {listed}" if names else f"{key}: there are no {kind} yet")
            there = f"there are {listed}"
            if not names:
                exists = self.root.exists()
                there = f"the workspace {self.root} " + ("has none" if exists else "does not exist")
            raise InputError(f"{key}={name}: no such {kind.removesuffix('s')}; {there}")
        return self.root.child(kind, name)

    def journal(self, folder: Folder) -> Journal:
        """The journal of a folder. If the folder is remote, records are kept on this machine first and then copied."""
        return open_in(folder, self.cache().local("journals"))

    def cache(self) -> Folder:
        """The folder of data that can be recomputed: `$VSE_CACHE`, else the workspace's own folder if that is local."""
        chosen = os.environ.get("VSE_CACHE")
        if chosen:
            return Folder.open(chosen)
        if self.root.is_local:
            return self.root.child("cache")
        return Folder.open(os.path.join(os.path.expanduser("~"), ".cache", "vse"))

    def _at(self, *names: str) -> Folder:
        for name in names:
            if not _NAME.fullmatch(name):
                raise InputError(f"{name!r}: use letters, digits, '.', '-' and '_' in names (it becomes a folder)")
        return self.root.child(*names)


def _is_finished(kind: str, folder: Folder) -> bool:
    """Whether the run or sweep in a folder is finished."""
    return folder.exists("result.json" if kind == "runs" else "results.json")


def dataset_name(records: Records) -> str:
    """The name of a data set's features and parses: shared by all its folds, which differ in splits only."""
    return f"{records.name}-{records.content_fingerprint}"
