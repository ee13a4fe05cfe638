"""Claims of the papers as data, registered before anything is measured, and how verdicts on them are computed.

The hash of this data is stored with every result and shows whether a claim was changed after the measurement.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from vse.config import fingerprint
from vse.evaluation.statistics import Outcome, Sample, Verdict, bootstrap_all, judge

CHOSEN_ALPHA = -1.0
"""Stands for the α that the sweep's rule chose on validation."""

HEADLINE_SEEDS, SEEDS = 10, 5
# Chance moves a p at the border of Holm's strictest step by a sixth; with 4,000 two verdicts depended on the generator
REPLICATES = 64_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """Runs in a comparison: a preset's family or control, the α it is scored with, and the split."""

    model: str
    split: str = "test"
    alpha: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOf(Arm):
    """A single run of an arm, for claims about single runs instead of their mean."""

    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Sum of weight * metric over arms. The claim is that it exceeds `margin`; below `margin + negligible` refutes it.

    "No worse" is a negative margin, the equivalence margin, and `negligible=0`.
    """

    name: str
    metric: str
    terms: tuple[tuple[float, Arm], ...]
    margin: float = 0.0
    negligible: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A statement of a paper, which holds if all of its comparisons do."""

    name: str
    paper: str
    statement: str
    comparisons: tuple[Comparison, ...]
    seeds: int = HEADLINE_SEEDS


def claim(name: str, paper: str, statement: str, *comparisons: Comparison, seeds: int = SEEDS) -> Claim:
    """A claim by positional arguments.

    Args:
        name: Identifies the claim.
        paper: The paper that makes it, such as `univse`. Holm's correction is over all claims of a paper.
        statement: The claim in a sentence, for pages.
        comparisons: The claim holds if all of them do.
        seeds: Trainings of each arm that the verdict needs.
    """
    return Claim(name=name, paper=paper, statement=statement, comparisons=comparisons, seeds=seeds)


def over(
    better: Arm, worse: Arm, metric: str, *, margin: float = 0.0, negligible: float = 1.0, where: str = ""
) -> Comparison:
    """The comparison `better` - `worse` on a metric.

    Args:
        better: The arm that the paper finds better.
        worse: The other arm.
        metric: Name of the metric without its split.
        margin: In points; the difference must exceed it. Negative for "no worse by more than".
        negligible: In points; a difference below `margin + negligible` refutes the comparison.
        where: Added to the name of the comparison, such as the split.
    """
    return Comparison(
        name=f"{metric}: {better.model} - {worse.model}{where}",
        metric=metric,
        terms=((1.0, better), (-1.0, worse)),
        margin=margin,
        negligible=negligible,
    )


def registered_hash(claims: Sequence[Claim]) -> str:
    """Eight hexadecimal digits over the claims as data."""
    return fingerprint([asdict(claim) for claim in claims])


def answer(
    lookup: Callable[[Arm, str], Sample], claims: Sequence[Claim], *, replicates: int = REPLICATES, registered: int = 0
) -> dict[str, Verdict]:
    """A verdict on each claim.

    Args:
        lookup: Gives the results per image of an arm on a metric, over all seeds.
        claims: Claims of one paper.
        replicates: Replicates of the bootstrap.
        registered: How many claims of the paper are registered, if more than `claims`; Holm's correction counts them.
    """
    tested = {}
    for one in claims:
        effects = [[(weight, lookup(arm, each.metric)) for weight, arm in each.terms] for each in one.comparisons]
        outcomes = [
            Outcome(name=each.name, result=result, margin=each.margin, negligible=each.negligible)
            for each, result in zip(one.comparisons, bootstrap_all(effects, replicates=replicates), strict=True)
        ]
        tested[one.name] = (outcomes, one.seeds)
    return judge(tested, registered=registered)
