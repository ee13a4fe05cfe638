"""What the papers say about rows of their tables, as data registered before a reproduction is run, and the verdicts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from vse.config import fingerprint
from vse.evaluation.statistics import Outcome, Sample, Verdict, bootstrap_all, judge

SEEDS = 5  # with fewer a claim is undecided
REPLICATES = 64_000  # with fewer, a p near the border of the correction depends on the random numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The number of a row should be above that of another row, both with their printed names."""

    better: str
    worse: str
    metric: str

    @property
    def negligible(self) -> float:
        """Points below which a difference counts as none: 1, and 3 for sums of several recalls or precisions."""
        return 3.0 if self.metric.endswith(("rsum", "rsum3", "_sum")) else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TableClaim:
    """A statement of a paper about a table. It holds if all of its differences do."""

    name: str
    table: str
    statement: str
    differences: tuple[Difference, ...]


CLAIMS: dict[str, tuple[TableClaim, ...]] = {}
"""By paper, in the order of its tables."""


def add_claim(paper: str, table: str, name: str, statement: str, *differences: Sequence[Difference]) -> None:
    """Register a claim of a paper. It holds if all of its differences do.

    Args:
        paper: A key of `published.PAPERS`.
        table: Number of the table whose rows the claim is about.
        name: Identifies the claim among those of the paper.
        statement: The claim in a sentence, for pages.
        differences: In groups, as `above` returns them.
    """
    own = CLAIMS.setdefault(paper, ())
    assert all(each.name != name for each in own), (paper, name)
    flat = tuple(each for group in differences for each in group)
    CLAIMS[paper] = (*own, TableClaim(name=name, table=table, statement=statement, differences=flat))


def above(better: str | Sequence[str], worse: str | Sequence[str], *metrics: str) -> tuple[Difference, ...]:
    """Each of some rows above each of other rows, on each metric."""
    firsts, seconds = ([rows] if isinstance(rows, str) else rows for rows in (better, worse))
    return tuple(Difference(better=a, worse=b, metric=m) for a, b, m in product(firsts, seconds, metrics))


def registered_hash(paper: str) -> str:
    """Eight digits over the claims of a paper, which show whether they were changed after a measurement."""
    return fingerprint([asdict(each) for each in CLAIMS.get(paper, ())])


Lookup = Callable[[str, Difference], tuple[list[tuple[float, Sample]], float | None] | str]
"""From a table's number and a difference: its effect and the printed difference, or why there is none."""


def verdicts(paper: str, tables: Sequence[str], lookup: Lookup) -> list[dict[str, Any]]:
    """The answers to a paper's claims about some tables, as plain data.

    Holm's correction counts all claims that are registered for the paper, also those about other tables.

    Args:
        paper: A key of `CLAIMS`.
        tables: Numbers of the tables.
        lookup: Gives effects.
    """
    own = [claim for claim in CLAIMS.get(paper, ()) if claim.table in tables]
    tested, printed, reasons = dict[str, tuple[list[Outcome], int]](), dict[str, list[float | None]](), dict[str, str]()
    for claim in own:
        looked_up = [lookup(claim.table, each) for each in claim.differences]
        if reason := next((each for each in looked_up if isinstance(each, str)), None):
            reasons[claim.name] = reason
            continue
        both = [each for each in looked_up if not isinstance(each, str)]
        results = bootstrap_all([effect for effect, _ in both], replicates=REPLICATES)
        printed[claim.name] = [number for _, number in both]
        tested[claim.name] = (
            [
                Outcome(name=_name(one), result=result, margin=0.0, negligible=one.negligible)
                for one, result in zip(claim.differences, results, strict=True)
            ],
            SEEDS,
        )
    answers = judge(tested, registered=len(CLAIMS.get(paper, ())))
    return [_plain(claim, answers.get(claim.name), printed, reasons) for claim in own]


def _name(one: Difference) -> str:
    return f"{one.metric}: {one.better} − {one.worse}"


def _plain(
    claim: TableClaim,
    verdict: Verdict | None,
    printed: Mapping[str, Sequence[float | None]],
    reasons: Mapping[str, str],
) -> dict[str, Any]:
    plain: dict[str, Any] = {"name": claim.name, "table": claim.table, "statement": claim.statement}
    if verdict is None:
        return plain | {"answer": "not measured", "reason": reasons[claim.name]}
    effects = [
        {"difference": name, "printed": was, "ours": [round(float(value), 4) for value in numbers]}
        for (name, *numbers), was in zip(verdict.effects, printed[claim.name], strict=True)
    ]
    return plain | {
        "answer": verdict.answer,
        "p_holds": float(f"{verdict.p_holds:.4g}"),
        "p_fails": float(f"{verdict.p_fails:.4g}"),
        "detectable": round(float(verdict.detectable), 4),
        "seeds": verdict.num_seeds,
        "effects": effects,
    }
