"""Claims of the papers about how little a setting matters, registered as data before they are measured (see `claims`).

An arm's model is a setting as `key=value`, everything else as in the preset. Numbers are put on the paper's scale
first: differences count as many times more as the paper's level is above the mean of all arms.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vse.evaluation.statistics import Outcome, Sample, bootstrap_all, judge
from vse.studies.ablation_claims import ABLATION_CLAIMS
from vse.studies.claims import Arm, Claim, Comparison, registered_hash

ETAS = ("objective.eta_c", "objective.eta_o", "objective.eta_a", "objective.eta_r")
ETA_VALUES = (0.1, 1.0, 2.0, 4.0, 8.0)
SEEDS = 5


def arm_name(key: str, value: float) -> str:
    """The name of the arm that changes one key."""
    return f"{key}={value:g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Insensitive:
    """All arms within `within` points of their common mean, which was `level` in the paper."""

    name: str
    paper: str
    statement: str
    keys: tuple[str, ...]
    values: tuple[float, ...]
    metric: str
    level: float
    within: float

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of all arms."""
        return tuple(arm_name(key, value) for key in self.keys for value in self.values)

    def claim(self) -> Claim:
        """As comparisons: every arm less the mean of all above -within, and the other way round."""
        share = 1 / len(self.arms)
        comparisons = []
        for arm in self.arms:
            for sign, way in ((1.0, "below"), (-1.0, "above")):
                terms = tuple(
                    (sign * ((1.0 if other == arm else 0.0) - share), Arm(model=other)) for other in self.arms
                )
                name = f"{self.metric}: {arm} no further than {self.within:g} {way} the mean"
                comparisons.append(
                    Comparison(name=name, metric=self.metric, terms=terms, margin=-self.within, negligible=0.0)
                )
        return Claim(
            name=self.name,
            paper=self.paper,
            statement=self.statement,
            comparisons=tuple(comparisons),
            seeds=SEEDS,
        )


ETA_INSENSITIVE = Insensitive(
    name="eta_insensitive",
    paper="univse_supplement",
    statement="With one of the four weights at 0.1, 1, 2, 4 or 8 and the others fixed, rsum of all 20 models is within "
    "468.2 ± 2 (supplement A.2): each within 2 points of their mean, on the paper's scale.",
    keys=ETAS,
    values=ETA_VALUES,
    metric="rsum",
    level=468.2,
    within=2.0,
)
SWEEP_CLAIMS = (ETA_INSENSITIVE,)
# The least p of a claim that fails is comparisons / replicates, and Holm's correction multiplies it by up to nine
REPLICATES = 16_000


def verdicts(
    samples: Mapping[str, Callable[[str], Sample]],
    claims: Sequence[Insensitive] = SWEEP_CLAIMS,
    replicates: int = REPLICATES,
) -> dict[str, Any]:
    """Verdicts, as plain data, on the claims all of whose arms are there; `samples` gives an arm's results of a metric.

    `effects` are the arms' distances from the mean with 95 % intervals, on the paper's scale. Holm's correction counts
    the paper's claims on ablations too, which a study answers.
    """
    found: dict[str, Any] = {}
    for each in claims:
        if not all(arm in samples for arm in each.arms):
            continue
        raw = {arm: samples[arm](each.metric) for arm in each.arms}
        mean = sum(sample.value() for sample in raw.values()) / len(raw)
        scale = each.level / mean if mean else 1.0
        scaled = {
            arm: Sample(hits=scale * sample.hits, queries=sample.queries, images=sample.images)
            for arm, sample in raw.items()
        }
        registered = each.claim()
        compared = registered.comparisons
        found_effects = bootstrap_all(
            [[(weight, scaled[arm.model]) for weight, arm in one.terms] for one in compared], replicates=replicates
        )
        outcomes = [
            Outcome(name=one.name, result=result, margin=one.margin, negligible=one.negligible)
            for one, result in zip(compared, found_effects, strict=True)
        ]
        of_paper = sum(claim.paper == each.paper for claim in (*ABLATION_CLAIMS, *claims))
        verdict = judge({each.name: (outcomes, registered.seeds)}, registered=of_paper)
        found[each.name] = {
            "statement": each.statement,
            "hash": registered_hash([registered]),
            "mean": mean,
            "scale": scale,
            "margin": each.within / scale,
            "seeds_needed": registered.seeds,
            **asdict(verdict[each.name]),
        }
    return found
