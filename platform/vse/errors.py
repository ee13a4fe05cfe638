"""Exceptions whose text is one line for the user: wrong input, failed storage, diverged trainings."""

import difflib
import errno
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    """A suggestion for an unknown key or name.

    Attributes:
        text: the suggestion.
        changes: keys and values that replace the unknown key; empty if there is nothing to try.
        lead: words in front of the text. Hints with the same lead are listed together.
    """

    text: str
    changes: Mapping[str, Any]
    lead: str = MEANT


class UnknownError(InputError):
    """A key, or the name given as its value, does not exist. A caller that can try the hints filters them by `keeping`.

    Args:
        key: the key, as it was given.
        what: what is unknown, the beginning of the text.
        hints: suggestions, the most alike first.
        valid: the names that exist.
        always: whether these are listed even if there are hints.
        most: how many hints of alike names are shown.
    """

    def __init__(
        self, key: str, what: str, hints: Sequence[Hint], valid: str, *, always: bool = False, most: int = 1
    ) -> None:
        self.key, self.what, self.hints, self.valid = key, what, tuple(hints), valid
        self.always, self.most = always, most
        parts = [self._listed(lead) for lead in dict.fromkeys(hint.lead for hint in hints)]
        if always or not parts:
            parts.append(valid)
        text = f"{what}; {parts[0]}"
        for before, part in itertools.pairwise(parts):
            text += f"{' ' if before.endswith('?') else '; '}{part}"
        super().__init__(text)

    def _listed(self, lead: str) -> str:
        texts = [hint.text for hint in self.hints if hint.lead == lead]
        most = self.most if lead == MEANT else LISTED
        more = f" and {len(texts) - most} more" if lead != MEANT and len(texts) > most else ""
        return f"{lead} {', '.join(texts[:most])}{more}{'?' if lead == MEANT else ''}"

    def keeping(self, accepted: Callable[[Mapping[str, Any]], bool], more: Iterable[Hint] = ()) -> "UnknownError":
        """The same error with the hints whose changes are accepted, and with `more` hints."""
        hints = [*(hint for hint in self.hints if accepted(hint.changes)), *more]
        return UnknownError(self.key, self.what, hints, self.valid, always=self.always, most=self.most)


class CredentialsError(InputError):
    """This process found no credentials for a store. Another node may have some, and this one later.

    Jobs end as for other wrong input; in a sweep it counts as the fault of the trial's node.
    """


class StorageError(OSError):
    """The storage of results failed while a job was working: full, over its quota, read-only or broken.

    Its text is one line that names the file. Jobs print it on stderr and exit with status 1; finished work is kept.
    """


class TakenOver(StorageError):  # noqa: N818  (reads as the finding it is)
    """Another job has taken over the lease of this one, which it believed dead; further writes would mix with its own.

    Its text is one line.
    """


class PlacementError(RuntimeError):
    """No node joined that has the requested resources, though the cluster's limits allow one.

    Its text is one line. Jobs print it on stderr and exit with status 1; finished work is kept.
    """


class WorkersLostError(RuntimeError):
    """A training lost workers or nodes more often than it may replace them, or its workers lack their files.

    Its text is one line. Jobs print it on stderr and exit with status 1; finished work is kept.
    """


class Diverged(RuntimeError):  # noqa: N818  (reads as the finding it is)
    """A loss, a gradient or a score is NaN or infinite; the last checkpoint of a training is older.

    Its text is one line. Jobs print it on stderr and exit with status 1; finished work is kept.
    """


class TrialsFailedError(RuntimeError):
    """Some trials of a sweep failed and all others have ended; the ledger of the sweep has the reasons.

    Its text is one line. Jobs print it on stderr and exit with status 1; finished work is kept.
    """


class NotMadeError(Exception):
    """The output of a stage is missing and the caller may only read; the text is the address of its folder."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`did you mean a?` for the name of `names` most like an unknown one; the empty string if none is alike."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"did you mean {close[0]}?" if close else ""


def first_line(error: BaseException) -> str:
    """The first line of an error's text; the name of its class if it has no text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def grouped_reasons(reasons: Iterable[str]) -> list[list[str]]:
    """Reasons in groups, the largest first. A group differs only in numbers or in the path of an image."""
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
    return _VARIES.sub(lambda match: "…" if match[0].isdigit() else "", group[0])


_FAILURES = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE, errno.EACCES, errno.EPERM}


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its chain of causes: `cause` of errors that Ray brings from other processes, and Python's own."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = getattr(error, "cause", None) or error.__cause__ or error.__context__


def storage_failure(error: BaseException | None) -> str:
    """One line about the storage failure that caused an error; the empty string if storage did not cause it."""
    for each in causes(error):
        if isinstance(each, StorageError):
            return str(each)
        if isinstance(each, OSError) and each.errno in _FAILURES:
            return f"{each.filename or 'a file'}: {each.strerror}"
    return ""


def install(extra: str) -> str:
    """The command that installs an extra of pyproject.toml, for messages."""
    return f"in the folder of the repository, run pip install -c constraints.txt -e '.[{extra}]'"
