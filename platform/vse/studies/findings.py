"""The findings of a study: means with intervals for every arm, alpha by the rule, verdicts on the registered claims."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from vse.adversaries.attacks import ATTACKS, contrast_classes
from vse.adversaries.univse.generate import WORDS
from vse.config import fingerprint
from vse.evaluation.alpha import AlphaRule, choose_alpha
from vse.evaluation.intervals import interval
from vse.evaluation.per_image import PerImage, counts_of, terms_of
from vse.evaluation.statistics import Sample, bootstrap_all
from vse.studies.claims import CHOSEN_ALPHA, Arm, Claim, RunOf, answer, registered_hash
from vse.studies.planner import Planner
from vse.studies.sweep_claims import SWEEP_CLAIMS
from vse.studies.tables import alpha_key
from vse.studies.trainings import Training, TrainingArchive
from vse.training.code import name_of

PLAIN = ("rsum", "i2t/r1", "i2t/r5", "i2t/r10", "t2i/r1", "t2i/r5", "t2i/r10")
_CONTRAST = (
    *(f"own_pool_{kind}/r1" for kind in contrast_classes()),
    *(f"attack_contrast_{kind}/{metric}" for kind in contrast_classes() for metric in ("r1", "pair_accuracy")),
)
SCHEMA_VERSION = (
    2  # 2: seconds have an interval; the design is hashed; detectable differences are after Holm's correction
)


def row_metrics() -> tuple[str, ...]:
    """What a row of a study's table has: plain retrieval, and retrieval under each attack."""
    return (*PLAIN, *(f"attack_{name}/{metric}" for name in ATTACKS for metric in ("r1", "rsum3", "pair_accuracy")))


class Results:
    """Finished trainings of a study, read as samples. `arms` maps an arm to its trainings, one per seed."""

    def __init__(self, planner: Planner, arms: dict[str, list[Training]]) -> None:
        self.planner, self.arms = planner, arms
        self._cache: dict[tuple[str, str, str, str], list[PerImage]] = {}

    def chosen_alpha(self, arm: str) -> float:
        """Alpha by the rule registered beforehand, on validation, over all seeds of an arm."""
        curves = [
            {float(alpha): metrics for alpha, metrics in summary["alphas"].items()}
            for summary in self.planner.summaries(self.arms[arm])
        ]
        return choose_alpha(curves, AlphaRule(standard_error=self.planner.study.standard_error))

    def learned_alphas(self) -> dict[str, list[float]]:
        """Arm -> alpha at the end of training [mean, low, high] over seeds, of arms that learn it (A.2, Table 4)."""
        learned = {
            name: [s["learned_alpha"] for s in self.planner.summaries(trainings) if "learned_alpha" in s]
            for name, trainings in self.arms.items()
        }
        means = {name: interval(values) for name, values in learned.items() if values}
        return {name: [m.mean, m.mean - m.half, m.mean + m.half] for name, m in means.items()}

    def sample(self, arm: str, split: str, words: str, alpha: float | None, metric: str) -> Sample:
        """Per-image results of a metric over the seeds of an arm.

        Args:
            arm: Name of the arm.
            split: A measured split, or the name of a transfer.
            words: Kind of the words of the adversaries, one of `WORDS`.
            alpha: The α at inference; `CHOSEN_ALPHA` for the choice of the study's rule; None for a family without α.
            metric: Its name without the split.
        """
        if alpha == CHOSEN_ALPHA:
            alpha = self.chosen_alpha(arm)
        both = [counts_of(table, metric) for table in self._tables(arm, split, words, alpha)]
        return Sample(hits=np.stack([hits for hits, _ in both]), queries=both[0][1], images=split)

    def measured(self, arm: str, split: str, words: str, alpha: float | None, metric: str) -> bool:
        """Whether every seed of an arm has a metric. Families that score pair by pair lack some attacks.

        Args:
            arm: Name of the arm.
            split: A measured split, or the name of a transfer.
            words: As for `sample`.
            alpha: The α at inference, not `CHOSEN_ALPHA`; None for a family without α.
            metric: Its name without the split.
        """
        tables = self._tables(arm, split, words, alpha)
        return all(term in table for table in tables for term in terms_of(metric))

    def _tables(self, arm: str, split: str, words: str, alpha: float | None) -> list[PerImage]:
        key = (arm, split, words, alpha_key(alpha))
        if key not in self._cache:
            self._cache[key] = [self.planner.archive.table(training, *key[1:]) for training in self.arms[arm]]
        return self._cache[key]

    def claims(self, words: str, claims: Sequence[Claim]) -> dict[str, Any]:
        """Verdicts, as plain data, on the claims whose arms are done.

        Holm's correction is over all claims of a paper, including the claims that a sweep answers.
        """

        def lookup(arm: Arm, metric: str) -> Sample:
            sample = self.sample(arm.model, arm.split, words, arm.alpha, metric)
            return sample.of_seed(arm.seed) if isinstance(arm, RunOf) else sample

        answers: dict[str, Any] = {}
        for paper in dict.fromkeys(claim.paper for claim in claims):
            of_paper = [claim for claim in claims if claim.paper == paper]
            own = [claim for claim in of_paper if self._answerable(claim, lookup)]
            if own:
                elsewhere = sum(claim.paper == paper for claim in SWEEP_CLAIMS)
                verdicts = answer(lookup, own, registered=len(of_paper) + elsewhere)
                answers |= {name: asdict(verdict) for name, verdict in verdicts.items()}
        return answers

    def _answerable(self, claim: Claim, lookup: Callable[[Arm, str], Sample]) -> bool:
        terms = [(arm, comparison.metric) for comparison in claim.comparisons for _, arm in comparison.terms]
        done = all(len(self.arms.get(arm.model, ())) == self.planner.seeds for arm, _ in terms)
        return done and all(lookup(arm, metric).defined for arm, metric in terms)

    def table(self, words: str) -> list[dict[str, Any]]:
        """One row per arm, split and alpha: each metric as [mean, low, high], a 95 % interval over seeds and images.

        The interval of `seconds`, of training, is over seeds alone.
        """
        study, rows = self.planner.study, []
        attacked = row_metrics() + (_CONTRAST if study.contrast else ())
        for name, trainings in self.arms.items():
            seconds = interval([summary["seconds"] for summary in self.planner.summaries(trainings)])
            taken = [seconds.mean, seconds.mean - seconds.half, seconds.mean + seconds.half]
            for split in (*study.splits, *study.transfers):
                for alpha in study.arms[name].alphas or (None,):
                    samples = {
                        metric: self.sample(name, split, words, alpha, metric)
                        for metric in (attacked if split in study.splits else PLAIN)
                        if self.measured(name, split, words, alpha, metric)
                    }
                    # a small data set may have no adversary of a class
                    samples = {metric: sample for metric, sample in samples.items() if sample.defined}
                    results = bootstrap_all([[(1.0, sample)] for sample in samples.values()], replicates=1000)
                    row = {"arm": name, "split": split, "alpha": alpha, "seeds": len(trainings), "seconds": taken}
                    means = {
                        metric: [one.estimate, *one.interval(method="percentile")]
                        for metric, one in zip(samples, results, strict=True)
                    }
                    rows.append(row | means)
        return rows


def findings(planner: Planner, arms: dict[str, list[Training]], command: str) -> dict[str, Any]:
    """The content of `results.json` of a study, as plain data with rounded numbers.

    Args:
        planner: The study, with the archive of its trainings and a finished search.
        arms: The trainings of each arm, one for each seed. Arms of the claims must be done; other arms enter with their
            finished seeds, and need two.
        command: The command that reproduces the study, for readers.
    """
    done = {
        name: [training for training in trainings if planner.archive.summary(training) is not None]
        for name, trainings in arms.items()
    }
    results = Results(planner, {name: each for name, each in done.items() if len(each) > 1})
    study, chosen = planner.study, planner.chosen()
    assert chosen is not None, "the search is not finished"
    swept = [name for name, arm in study.arms.items() if len(arm.alphas) > 2]
    measured = {*study.splits, *study.transfers}
    claims = [c for c in study.claims if all(arm.split in measured for p in c.comparisons for _, arm in p.terms)]
    rounded = _rounded(
        {
            "schema": SCHEMA_VERSION,
            "study": study.name,
            "command": command,
            "claims_hash": registered_hash(study.claims),
            "design_hash": fingerprint(asdict(study)),
            "seeds": planner.seeds,
            "code": code_behind(planner.archive, [*planner.search(), *(one for each in done.values() for one in each)]),
            "search": chosen,
            "alpha": {name: results.chosen_alpha(name) for name in swept},
            "learned_alpha": results.learned_alphas(),
            "claims": {
                words: {
                    name: {"statement": next(c.statement for c in claims if c.name == name), **verdict}
                    for name, verdict in results.claims(words, claims).items()
                }
                for words in WORDS
            },
            "table": {words: results.table(words) for words in WORDS},
        }
    )
    assert isinstance(rounded, dict)
    return rounded


def code_behind(archive: TrainingArchive, trainings: Sequence[Training]) -> list[str]:
    """The distinct commits under which trainings were trained and measured; "not recorded" if a summary has none."""
    done = [training for training in trainings if archive.summary(training) is not None]
    return sorted({name for one in done for name in list(map(name_of, archive.code_of(one))) or ["not recorded"]})


def _rounded(value: Any) -> Any:
    """Plain data with four decimals, or four significant digits of p values; numpy scalars become Python's."""
    if isinstance(value, dict):
        return {k: float(f"{v:.4g}") if k in ("p_holds", "p_fails") else _rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, float | np.floating):
        return round(float(value), 4)
    return value
