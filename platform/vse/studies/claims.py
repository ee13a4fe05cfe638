"""Claims of the papers, registered as data before anything is measured, and how evidence answers them.

The hash of this data is stored with every result, so that a claim cannot be changed to fit what came out.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from vse.config import fingerprint
from vse.evaluation.statistics import Outcome, Sample, Verdict, bootstrap_all, judge

CHOSEN_ALPHA = -1.0
"""Stands for the α that the sweep's rule chose on validation."""

PLATEAU = (0.6, 0.65, 0.7, 0.75, 0.8)
HEADLINE_SEEDS = 10
# Chance moves a p at the border of Holm's strictest step by a sixth; with 4,000 two verdicts hung on the generator
REPLICATES = 64_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """Runs that a comparison looks at: a preset's family or control, the α it is scored with, and the split."""

    model: str
    split: str = "test"
    alpha: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOf(Arm):
    """One of an arm's runs, where a claim is about single runs and not about their mean."""

    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Sum of weight * metric over arms, wanted above `margin`; shown to be below `margin + negligible` it is refuted.

    "No worse" is a negative margin with nothing negligible: the equivalence margin.
    """

    name: str
    metric: str
    terms: tuple[tuple[float, Arm], ...]
    margin: float = 0.0
    negligible: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """What a paper says, and the comparisons that must all come out for it to hold."""

    name: str
    paper: str
    statement: str
    comparisons: tuple[Comparison, ...]
    seeds: int = HEADLINE_SEEDS


UNIVSE = Arm(model="univse", alpha=CHOSEN_ALPHA)
VSEPP = Arm(model="vsepp")
SHIFTED = "shifted"


def _robust(attack: str) -> Claim:
    return Claim(
        name=f"robust_{attack}",
        paper="univse",
        statement=f"Under {attack} attack UniVSE finds more true captions than VSE++ (Table 2).",
        comparisons=(
            Comparison(
                name=f"attack_{attack}/rsum3: UniVSE - VSE++",
                metric=f"attack_{attack}/rsum3",
                terms=((1.0, UNIVSE), (-1.0, VSEPP)),
                negligible=1.5,
            ),
        ),
    )


def _plateau(metric: str, margin: float, negligible: float) -> tuple[Comparison, ...]:
    return tuple(
        Comparison(
            name=f"{metric}: alpha {alpha} - alpha 1",
            metric=metric,
            terms=((1.0, Arm(model="univse", alpha=alpha)), (-1.0, Arm(model="univse", alpha=1.0))),
            margin=margin,
            negligible=negligible,
        )
        for alpha in PLATEAU
    )


UNIVSE_CLAIMS = (
    _robust("object"),
    _robust("attribute"),
    _robust("relation"),
    Claim(
        name="alpha_free",
        paper="univse",
        statement="Every alpha from 0.6 to 0.8 costs at most one point of plain rsum against alpha = 1 (Fig. 5a).",
        comparisons=_plateau("rsum", margin=-1.0, negligible=0.0),
    ),
    Claim(
        name="alpha_robust",
        paper="univse",
        statement="Every alpha from 0.6 to 0.8 finds more true captions under attack than alpha = 1 (Fig. 5b).",
        comparisons=_plateau("attacks/rsum3", margin=0.0, negligible=4.5),
    ),
    Claim(
        name="shift_hurts_less",
        paper="univse",
        statement="Breaking the training set's co-occurrence bias costs UniVSE less rsum than VSE++ (section 4.2).",
        comparisons=(
            Comparison(
                name="rsum: loss of VSE++ - loss of UniVSE",
                metric="rsum",
                terms=(
                    (1.0, VSEPP),
                    (-1.0, Arm(model="vsepp", split=SHIFTED)),
                    (-1.0, UNIVSE),
                    (1.0, Arm(model="univse", split=SHIFTED, alpha=CHOSEN_ALPHA)),
                ),
                negligible=3.0,
            ),
        ),
    ),
)


def registered_hash(claims: Sequence[Claim] = UNIVSE_CLAIMS) -> str:
    """Eight hexadecimal digits over the claims as data."""
    return fingerprint([asdict(claim) for claim in claims])


def answer(
    lookup: Callable[[Arm, str], Sample],
    claims: Sequence[Claim] = UNIVSE_CLAIMS,
    *,
    level: float = 0.05,
    replicates: int = REPLICATES,
    nested: bool = False,
    registered: int = 0,
) -> dict[str, Verdict]:
    """A verdict on each claim; `lookup` gives an arm's per-image results of a metric over all seeds.

    Holm's correction is over the claims given, which are of one paper, or over `registered` where that has more.
    """
    tested = {}
    for claim in claims:
        effects = [
            [(weight, lookup(arm, comparison.metric)) for weight, arm in comparison.terms]
            for comparison in claim.comparisons
        ]
        results = bootstrap_all(effects, replicates=replicates, nested=nested)
        outcomes = [
            Outcome(name=one.name, result=result, margin=one.margin, negligible=one.negligible)
            for one, result in zip(claim.comparisons, results, strict=True)
        ]
        tested[claim.name] = (outcomes, claim.seeds)
    return judge(tested, level, registered)
