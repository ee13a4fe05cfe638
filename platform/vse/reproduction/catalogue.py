"""The papers' tables as data. Each has a file of its paper in `papers`; its rows and numbers are in `published.csv`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from vse.config import typed
from vse.errors import InputError, did_you_mean
from vse.evaluation import tasks
from vse.evaluation.metrics import RECALLS, Metric
from vse.report.published import PAPERS, PublishedRow, read_published
from vse.reproduction.options import PUBLISHED

TOTAL = "attack_total/rsum3"  # of UniVSE's three attacks, which no single task measures
ATTACK_SUMS = tuple(f"attack_{kind}/rsum3" for kind in ("object", "attribute", "relation"))  # whose sum that is


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperProtocol:
    """How a paper measures a table, if this is more than a number of test images. It is used at scale=published.

    Args:
        paper: What the paper measures.
        here: What the other scales measure.
        keys: Of the paper's protocol, below `measure`.
    """

    paper: str
    here: str
    keys: Mapping[str, Any]

    def note(self, scale: str) -> str:
        """A sentence on the protocol that holds at a scale."""
        if scale != PUBLISHED:
            return f"The paper measures {self.paper}. Here {self.here}."
        keys = " ".join(f"measure.{key}={typed(value)}" for key, value in self.keys.items())
        return f"Measured by the paper's protocol: {self.paper} ({keys})."


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperTable:
    """A table of a paper: the tasks that measure its columns, and the parts that cannot be reproduced.

    Args:
        paper: A key of `published.PAPERS`.
        number: As printed.
        title: What it shows.
        tasks: The tasks that measure its columns.
        derived: Systems without a training. Their numbers are metrics of the first measured row: (part of the name of a
            metric, its replacement).
        subsets: Whether the paper's own rows are subsets of components, which one task measures together.
        protocol: How the paper measures it; None if its rows say it all.
        lacks: The rows or columns that are missing, by scale.
        needs: By metric, what data must have for it. It is shown if the metric was not measured.
    """

    paper: str
    number: str
    title: str
    tasks: tuple[str, ...]
    derived: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    subsets: bool = False
    protocol: PaperProtocol | None = None
    lacks: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The table's name on pages."""
        return f"{PAPERS[self.paper].name}, Table {self.number}"

    def notes(self, scale: str) -> tuple[str, ...]:
        """What a page says of its protocol."""
        return () if self.protocol is None else (self.protocol.note(scale),)

    @property
    def rows(self) -> tuple[PublishedRow, ...]:
        """The printed rows."""
        return tuple(row for row in read_published() if (row.paper, row.table) == (self.paper, self.number))


TABLES: dict[tuple[str, str], PaperTable] = {}


def add_table(paper: str, number: str, title: str, *of_tasks: str, **more: Any) -> None:
    """Register a table of a paper in `TABLES`. A number may be registered once.

    Args:
        paper: A key of `published.PAPERS`.
        number: As printed.
        title: What the table shows.
        of_tasks: Names of the tasks that measure its columns.
        more: Further fields of `PaperTable`.
    """
    assert (paper, number) not in TABLES, (paper, number)
    TABLES[paper, number] = PaperTable(paper=paper, number=number, title=title, tasks=of_tasks, **more)


def tables_of(paper: str, numbers: Sequence[str]) -> tuple[PaperTable, ...]:
    """Tables of a paper, all of them if none is named.

    Raises:
        InputError: There is no such paper or table.
    """
    from vse.reproduction import papers  # noqa: F401  # they register themselves

    if paper not in PAPERS:
        suggestion = did_you_mean(paper, PAPERS) or f"expected one of {', '.join(PAPERS)}"
        raise InputError(f"paper={paper}: unknown; {suggestion}")
    there = [number for of, number in TABLES if of == paper]
    for number in numbers:
        if number not in there:
            raise InputError(f"table={number}: {PAPERS[paper].name} has tables {', '.join(there)} of results")
    return tuple(TABLES[paper, number] for number in dict.fromkeys(numbers or there))


@cache
def metric_of(name: str, words: str = "shared", head: str = "") -> Metric:
    """The metric of a column, with the kind of words of the adversaries. Raises KeyError for one that is not measured.

    Args:
        name: As in `published.csv`.
        words: `measure.attacks.words`.
        head: Begins the metrics of a subset of components; empty for the configured ones.
    """
    if head:
        return _named(f"{head}/total" if name == TOTAL else f"{head}/{name}")
    behind = "" if words == "shared" else f"/{words}"
    if name == TOTAL:
        kinds = ("object", "attribute", "relation")
        terms = tuple(f"attack_{kind}{behind}/r{k}" for kind in kinds for k in RECALLS)
        return Metric(name=name, heading="sum of rsum3", group="all three attacks", terms=terms)
    if name.startswith("attack_"):
        head, _, last = name.partition("/")
        name = f"{head}{behind}/{last}"
    return _named(name)


def _named(name: str) -> Metric:
    return _metrics()[name]


@cache
def _metrics() -> dict[str, Metric]:
    """All metrics by name; if several tasks have one, the metric of the first."""
    every = [metric for task in map(tasks.task, tasks.names()) for metric in task().metrics]
    return {metric.name: metric for metric in reversed(every)}
