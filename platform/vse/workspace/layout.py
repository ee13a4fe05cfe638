"""The layout of a workspace: which stage writes where (datasets, features, language, runs, ensembles, sweeps, ...)."""

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

LISTED = 20  # names that are told where one is unknown
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Found:
    """What a job's driver found outside the workspace: which records a source gives, what is in files.

    `answers` (by question, plain data) go with the job to its processes on other nodes. These are told and do not look,
    since they may not have the files, or may have other ones.
    """

    def __init__(self, answers: Mapping[str, str] | None = None) -> None:
        self.told, self.answers = answers is not None, dict(answers or {})

    def answer(self, question: Sequence[object]) -> str | None:
        """What this process was told; None if it has to look itself."""
        return self.answers.get(fingerprint(list(question))) if self.told else None

    def keep(self, question: Sequence[object], answer: str) -> str:
        """Note what was found for processes that are told; returns it."""
        self.answers[fingerprint(list(question))] = answer
        return answer

    def ask(self, question: Sequence[object], look: Callable[[], str]) -> str:
        """What this process was told, else what it sees."""
        answer = self.answer(question)
        return self.keep(question, look()) if answer is None else answer


@dataclass(frozen=True, slots=True)
class Workspace:
    """Folders by what they hold. Making one touches nothing; `check_writable` does, in one probe.

    found: what stages see outside, or are told of it.
    """

    root: Folder
    found: Found = field(default_factory=Found, compare=False, repr=False)

    @classmethod
    def open(cls, uri: str, found: Mapping[str, str] | None = None) -> "Workspace":
        """The workspace at `uri`; which one a job takes when none is named, `vse.cli.command` says.

        found: the `found.answers` of the job's driver, in processes on other nodes.
        """
        return cls(Folder.open(uri), Found(found))

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

    def comparison(self, name: str) -> Folder:
        """comparisons/<name>: runs held against the first of them."""
        return self._at("comparisons", name)

    def logs(self, session: str, host: str) -> Folder:
        """logs/<session>/<host>: what Ray wrote on a node of a cluster."""
        return self._at("logs", session, host)

    def existing(self, kind: str, name: str, key: str) -> Folder:
        """`kind`/`name`, such as runs/x, that the user named by `key`. Raises InputError that lists what there is, of
        many the most alike."""
        known = self.root.child(kind).names()
        if name not in known:
            shown = difflib.get_close_matches(name, known, LISTED, cutoff=0.0) if len(known) > LISTED else known
            more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
            named = (
                each if _is_finished(kind, self.root.child(kind, each)) else f"{each} (unfinished)" for each in shown
            )
            there = ", ".join(named) + more or "none"
            if not name:
                raise InputError(f"{key}: name one of {there}" if known else f"{key}: there are no {kind} yet")
            raise InputError(f"{key}={name}: no such {kind.removesuffix('s')}; there are {there}")
        return self.root.child(kind, name)

    def journal(self, folder: Folder) -> Journal:
        """The journal of what is told in a folder; kept on this machine first, and copied, where the folder is not."""
        return open_in(folder, self.cache().local("journals"))

    def cache(self) -> Folder:
        """Where this machine keeps what it can make again: `$VSE_CACHE`, else the workspace's own folder if local."""
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
    """Whether the run or sweep in a folder came to its end."""
    return folder.exists("result.json" if kind == "runs" else "results.json")


def dataset_name(records: Records) -> str:
    """The name of a data set's features and parses: shared by all its folds, which differ in splits only."""
    return f"{records.name}-{records.content_fingerprint}"
