"""People's verdicts on adversaries: is it a grammatical sentence, and is it false of the image?

A verdict names its adversary by the edit and the hash of (image, caption). So verdicts on data sets that may not be
redistributed can be published and counted. Their adversaries can be read with the data set.
"""

import hashlib
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from vse.adversaries.univse.editor import Edit
from vse.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A verdict on one adversary of one sample. `grammatical` and `false` are None until they are filled in.

    `edits` are (start, end, replacement) in characters of the caption, where `@a:b` stands for characters [a, b) of
    the caption itself.
    """

    sample: str
    paradigm: str
    item: str
    edits: tuple[tuple[int, int, str], ...]
    grammatical: bool | None = None
    false: bool | None = None


def item_hash(image: str, caption: str) -> str:
    """Sixteen hexadecimal digits that name a caption of an image."""
    return hashlib.sha256(f"{image}\0{caption}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def without_caption(edits: Iterable[Edit], caption: str) -> tuple[tuple[int, int, str], ...]:
    """Edits in the form of a verdict: a moved phrase of the caption is given by its position."""
    anonymous = []
    for edit in edits:
        at = caption.lower().find(edit.replacement.lower()) if " " in edit.replacement else -1
        moved = f"@{at}:{at + len(edit.replacement)}"
        anonymous.append((edit.start, edit.end, moved if at >= 0 else edit.replacement))
    return tuple(anonymous)


@dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `total` with Wilson's 95 % interval (Wilson, JASA 22, 1927), from 0 to 1."""

    hits: int
    total: int

    @property
    def value(self) -> float:
        """hits / total; NaN if there is nothing to count."""
        return self.hits / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """(low, high); (0, 1) if there is nothing to count."""
        from scipy.stats import binomtest  # takes a second to import

        if not self.total:
            return 0.0, 1.0
        low, high = binomtest(self.hits, self.total).proportion_ci(method="wilson")
        return float(low), float(high)

    def text(self) -> str:
        """In percent, for people."""
        low, high = self.interval
        return f"{100 * self.value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """The verdicts on one paradigm in one sample, counted. `good` adversaries are grammatical and false."""

    sample: str
    paradigm: str
    grammatical: Share
    false: Share
    good: Share


def tally(verdicts: Sequence[Verdict]) -> list[Tally]:
    """A row per sample and paradigm, in order of first appearance. Raises InputError for a blank verdict."""
    blank = [v for v in verdicts if v.grammatical is None or v.false is None]
    if blank:
        raise InputError(f"verdicts: {len(blank)} of {len(verdicts)} are not filled in, the first for {blank[0].item}")
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict.sample, verdict.paradigm), []).append(verdict)
    return [
        Tally(
            sample=sample,
            paradigm=paradigm,
            grammatical=Share(sum(bool(v.grammatical) for v in group), len(group)),
            false=Share(sum(bool(v.false) for v in group), len(group)),
            good=Share(sum(bool(v.grammatical and v.false) for v in group), len(group)),
        )
        for (sample, paradigm), group in groups.items()
    ]


def to_json_lines(verdicts: Iterable[Verdict]) -> str:
    """One verdict per line."""
    return "".join(f"{json.dumps(asdict(verdict), ensure_ascii=False)}\n" for verdict in verdicts)


def from_json_lines(text: str, where: str) -> list[Verdict]:
    """Verdicts from the lines of `to_json_lines`. Raises InputError naming `where` and the line."""
    verdicts = []
    for number, line in enumerate(io.StringIO(text), 1):
        try:
            row = json.loads(line)
            edits = tuple((int(start), int(end), str(new)) for start, end, new in row.pop("edits"))
            verdict = Verdict(edits=edits, **row)
            if any(not isinstance(mark, bool | None) for mark in (verdict.grammatical, verdict.false)):
                raise TypeError("grammatical and false are true, false or null")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{where}, line {number}: not a valid verdict ({error})") from None
        verdicts.append(verdict)
    return verdicts


def table(rows: Sequence[Tally]) -> list[str]:
    """Lines for people: one per row, in percent with 95 % intervals."""
    form = "{:<14}{:<20}{:>5}  {:<20}{:<20}{}"
    lines: list[str] = [form.format("sample", "paradigm", "n", "grammatical", "false", "both")]
    for row in rows:
        shares = (row.grammatical.text(), row.false.text(), row.good.text())
        lines.append(form.format(row.sample, row.paradigm, row.good.total, *shares))
    return lines
