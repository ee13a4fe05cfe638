"""Exceptions reported to the user as one line: the input is wrong, the place of results fails, a training diverged."""

import difflib
import errno
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_REASONS = 4  # that a line names
_VARIES = re.compile(r"\d+|^.*: (?=leaves its root)")  # sizes, positions, the path of one image


class InputError(ValueError):
    """A request that cannot be served; its text is one line naming the file, field or key and what would be right.

    Jobs print the text on stderr and exit with status 2.
    """


class DamagedError(InputError):
    """A file of the workspace is not what was written; its text is one line that names it.

    Stages catch it and make the file again.
    """


MEANT = "did you mean"
PRESET = "--preset"  # of which a hint may speak too
LISTED = 5  # keys or names of one hint


@dataclass(frozen=True, slots=True)
class Hint:
    """What may be meant by a key or name that is not known.

    changes: keys with the values to give in its place; none if there is nothing to try. said: how the hint is told,
    behind `lead`, which it may share with others.
    """

    said: str
    changes: Mapping[str, Any]
    lead: str = MEANT


class UnknownError(InputError):
    """A key, or the name that is a key's value, is not known. Whoever can try its hints keeps those that are accepted.

    Args:
        key: the key, as it was given.
        what: what is unknown, the beginning of the text.
        hints: what may be meant, the most alike first.
        known: what is known instead.
        always: whether this is told next to hints too.
        most: how many hints of those that are alike are told.
    """

    def __init__(
        self, key: str, what: str, hints: Sequence[Hint], known: str, *, always: bool = False, most: int = 1
    ) -> None:
        self.key, self.what, self.hints, self.known = key, what, tuple(hints), known
        self.always, self.most = always, most
        told = [self._told(lead) for lead in dict.fromkeys(hint.lead for hint in hints)]
        if always or not told:
            told.append(known)
        text = f"{what}; {told[0]}"
        for before, part in itertools.pairwise(told):
            text += f"{' ' if before.endswith('?') else '; '}{part}"
        super().__init__(text)

    def _told(self, lead: str) -> str:
        said = [hint.said for hint in self.hints if hint.lead == lead]
        most = self.most if lead == MEANT else LISTED
        more = f" and {len(said) - most} more" if lead != MEANT and len(said) > most else ""
        return f"{lead} {', '.join(said[:most])}{more}{'?' if lead == MEANT else ''}"

    def keeping(self, accepted: Callable[[Mapping[str, Any]], bool], more: Iterable[Hint] = ()) -> "UnknownError":
        """The same error with those of its hints whose changes are accepted, and with `more` of them."""
        hints = [*(hint for hint in self.hints if accepted(hint.changes)), *more]
        return UnknownError(self.key, self.what, hints, self.known, always=self.always, most=self.most)


class CredentialsError(InputError):
    """This process found no credentials for a store. Another node may have some, and this one later.

    Jobs end as for other wrong input; in a sweep it counts as the fault of the trial's node.
    """


class StorageError(OSError):
    """Where results go has failed while a job was working: full, over its quota, read-only or broken.

    Its text is one line that names the file. Jobs print it on stderr and exit with status 1; finished work is kept.
    """


class TakenOver(StorageError):  # noqa: N818  (reads as the finding it is)
    """Another job works on what this one held, which it gave up for dead: whatever this one wrote would mix with that.

    Its text is one line.
    """


class PlacementError(RuntimeError):
    """No node came that could run what was asked for, though the cluster's limits allow it.

    Its text is one line. Jobs print it on stderr and exit with status 1; finished work is kept.
    """


class WorkersLostError(RuntimeError):
    """Workers of a training, or their nodes, were lost more often than they are replaced, or lack what they were given.

    Its text is one line. Jobs print it on stderr and exit with status 1; finished work is kept.
    """


class Diverged(RuntimeError):  # noqa: N818  (reads as the finding it is)
    """A loss, a gradient or a score is NaN or infinite; the last checkpoint of a training is from before that.

    Its text is one line. Jobs print it on stderr and exit with status 1; finished work is kept.
    """


class TrialsFailedError(RuntimeError):
    """Some trials of a sweep have failed, each for the reason that the sweep's ledger keeps; all others have ended.

    Its text is one line. Jobs print it on stderr and exit with status 1; finished work is kept.
    """


class NotMadeError(Exception):
    """What a stage makes is not there, and the caller may only read; its text is the folder's address."""


def did_you_mean(name: str, known: Iterable[str], *, above: str = "", below: str = "", most: int = 1) -> str:
    """The question that names up to `most` known names like an unknown one, each between `above` and `below`; empty
    where none is."""
    close = difflib.get_close_matches(name, list(known), n=most)
    return f"did you mean {', '.join(above + each + below for each in close)}?" if close else ""


def first_line(error: BaseException) -> str:
    """The first line of what an error says; its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def grouped_reasons(reasons: Iterable[str]) -> list[list[str]]:
    """Reasons in groups, the largest first; those that differ in numbers or in the path of an image alone are one."""
    kinds: dict[str, list[str]] = {}
    for reason in reasons:
        kinds.setdefault(_VARIES.sub("", reason), []).append(reason)
    return sorted(kinds.values(), key=len, reverse=True)


def by_reason(reasons: Iterable[str]) -> str:
    """How often each reason occurs, `3 x one, 1 x other`, the most frequent ones first, and `...` for the rest."""
    groups = grouped_reasons(reasons)
    lines = [f"{len(group)} x {_shared(group)}" for group in groups[:_REASONS]]
    return ", ".join(lines + ["..."] * (len(groups) > _REASONS))


def _shared(group: list[str]) -> str:
    """A reason; what varies in a group of several as an ellipsis."""
    if len(set(group)) == 1:
        return group[0]
    return _VARIES.sub(lambda found: "…" if found[0].isdigit() else "", group[0])


_FAILURES = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.EACCES, errno.EPERM}


def storage_failure(error: BaseException | None) -> str:
    """The line to say where an error, or one it came from, is the failure of a disk; empty if it is not.

    Looks through what Ray wraps around errors of other processes (`cause`) and through Python's own chains.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, StorageError):
            return str(error)
        if isinstance(error, OSError) and error.errno in _FAILURES:
            return f"{error.filename or 'a file'}: {error.strerror}"
        error = getattr(error, "cause", None) or error.__cause__ or error.__context__
    return ""
