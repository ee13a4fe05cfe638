"""Claims of the papers about how little a setting matters, registered as data before they are measured (see `claims`).

An arm's model is a setting as `key=value`, everything else as in the preset. Numbers are put on the paper's scale:
they are multiplied by the paper's level over the mean of all arms.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vse.evaluation.statistics import Sample
from vse.studies.claims import Arm, Claim, Comparison, answer, claim, registered_hash
from vse.studies.univse_claims import ABLATION_CLAIMS

ETAS = ("objective.eta_c", "objective.eta_o", "objective.eta_a", "objective.eta_r")
ETA_VALUES = (0.1, 1.0, 2.0, 4.0, 8.0)


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
        """As comparisons: every arm minus the mean of all is above -within, and the mean minus every arm too."""
        share = 1 / len(self.arms)
        comparisons = [
            Comparison(
                name=f"{self.metric}: {arm} no further than {self.within:g} {way} the mean",
                metric=self.metric,
                terms=tuple((sign * ((1.0 if other == arm else 0.0) - share), Arm(model=other)) for other in self.arms),
                margin=-self.within,
                negligible=0.0,
            )
            for arm in self.arms
            for sign, way in ((1.0, "below"), (-1.0, "above"))
        ]
        return claim(self.name, self.paper, self.statement, *comparisons)


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
    """Verdicts on the claims whose arms all have samples. Holm's correction also counts claims on ablations.

    Args:
        samples: By arm (`arm_name`), a function that returns the sample of a metric.
        claims: The registered claims. Those without all arms have no verdict.
        replicates: Draws of the bootstrap over images.

    Returns:
        By name of the claim, its verdict as plain data. `effects` are the arms' distances from the mean with 95 %
        intervals, on the paper's scale.
    """
    answers: dict[str, Any] = {}
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
        of_paper = sum(other.paper == each.paper for other in (*ABLATION_CLAIMS, *claims))
        verdict = answer(
            lambda arm, _, scaled=scaled: scaled[arm.model], [each.claim()], replicates=replicates, registered=of_paper
        )
        answers[each.name] = {
            "statement": each.statement,
            "hash": registered_hash([each.claim()]),
            "mean": mean,
            "scale": scale,
            "margin": each.within / scale,
            "seeds_needed": each.claim().seeds,
            **asdict(verdict[each.name]),
        }
    return answers
