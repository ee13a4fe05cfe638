"""Verdicts of people on adversaries: is it a grammatical sentence, and is it false of the image?

A verdict names its adversary by the edit and the hash of (image, caption), so that verdicts on captions and photographs
that may not be passed on can be kept and counted by anybody, and be read by those who have the data set.
"""

import hashlib
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from vse.adversaries.univse.edits import Edit
from vse.errors import InputError

NORMAL = 1.959964  # 97.5 % of the standard normal distribution lie below


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """One adversary of one sample. `grammatical` and `false` are None until somebody has looked.

    sample: which draw it belongs to. edits: (start, end, replacement) in characters of the caption, where `@a:b` stands
    for characters [a, b) of the caption itself.
    """

    sample: str
    paradigm: str
    item: str
    edits: tuple[tuple[int, int, str], ...]
    grammatical: bool | None = None
    false: bool | None = None

    @property
    def is_good(self) -> bool:
        """Whether it is both."""
        return bool(self.grammatical and self.false)


def item_hash(image: str, caption: str) -> str:
    """Sixteen hexadecimal digits that name a caption of an image."""
    return hashlib.sha256(f"{image}\0{caption}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def without_caption(edits: Iterable[Edit], caption: str) -> tuple[tuple[int, int, str], ...]:
    """Edits as a verdict holds them: phrases of the caption that move are named by their place, not quoted."""
    found = []
    for edit in edits:
        at = caption.lower().find(edit.replacement.lower()) if " " in edit.replacement else -1
        moved = f"@{at}:{at + len(edit.replacement)}"
        found.append((edit.start, edit.end, moved if at >= 0 else edit.replacement))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `total` with Wilson's interval of 95 % (Wilson, JASA 22, 1927), from 0 to 1."""

    hits: int
    total: int

    @property
    def value(self) -> float:
        """The share itself; NaN of nothing."""
        return self.hits / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """(low, high); (0, 1) of nothing."""
        if not self.total:
            return 0.0, 1.0
        n, p, z = self.total, self.value, NORMAL
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return centre - half if self.hits else 0.0, centre + half if self.hits < n else 1.0

    def text(self) -> str:
        """In percent, for people."""
        low, high = self.interval
        return f"{100 * self.value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """What was found of one paradigm in one sample."""

    sample: str
    paradigm: str
    grammatical: Share
    false: Share
    good: Share


def tally(verdicts: Sequence[Verdict]) -> list[Tally]:
    """A row for every sample and paradigm, in order of first appearance. Raises InputError where one is not judged."""
    blank = [v for v in verdicts if v.grammatical is None or v.false is None]
    if blank:
        raise InputError(f"verdicts: {len(blank)} of {len(verdicts)} are not filled in, the first for {blank[0].item}")
    rows = []
    for sample, paradigm in dict.fromkeys((v.sample, v.paradigm) for v in verdicts):
        here = [v for v in verdicts if (v.sample, v.paradigm) == (sample, paradigm)]
        grammatical, false, good = (
            Share(sum(bool(getattr(v, name)) for v in here), len(here)) for name in ("grammatical", "false", "is_good")
        )
        rows.append(Tally(sample=sample, paradigm=paradigm, grammatical=grammatical, false=false, good=good))
    return rows


def to_json_lines(verdicts: Iterable[Verdict]) -> str:
    """One verdict a line."""
    return "".join(f"{json.dumps(asdict(verdict), ensure_ascii=False)}\n" for verdict in verdicts)


def from_json_lines(text: str, where: str) -> list[Verdict]:
    """Read back what `to_json_lines` wrote; raises InputError naming `where` and the line."""
    found = []
    for number, line in enumerate(io.StringIO(text), 1):
        try:
            row = json.loads(line)
            edits = tuple((int(start), int(end), str(new)) for start, end, new in row.pop("edits"))
            verdict = Verdict(edits=edits, **row)
            if any(not isinstance(mark, bool | None) for mark in (verdict.grammatical, verdict.false)):
                raise TypeError("grammatical and false are true, false or null")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{where}, line {number}: not a verdict as this version writes it ({error})") from None
        found.append(verdict)
    return found


def table(rows: Sequence[Tally]) -> list[str]:
    """Lines for people: one a row, in percent with 95 % intervals."""
    form = "{:<14}{:<20}{:>5}  {:<20}{:<20}{}"
    lines = [form.format("sample", "paradigm", "n", "grammatical", "false", "both")]
    for row in rows:
        shares = (row.grammatical.text(), row.false.text(), row.good.text())
        lines.append(form.format(row.sample, row.paradigm, row.good.total, *shares))
    return lines
