"""From the ledger of an α sweep to its results: curves by seed, the choice, and what journals tell of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from vse.adversaries.univse.attacks import ATTACKS
from vse.config import fingerprint
from vse.evaluation.alpha import AlphaRule, attacks_of, choose_alpha
from vse.evaluation.intervals import interval
from vse.report.curve import AlphaResults, Arm, by_seed
from vse.sweeps.ledger import Entry, Ledger, trial_id

LABELS = {"vsepp": "VSE++", "univse": "UniVSE"}
CHARTED = ("rsum", "i2t/r1", "t2i/r1", "attack_object/r1", "attack_attribute/r1", "attack_relation/r1")


def rule_text(rule: AlphaRule) -> str:
    """The rule as a sentence; it is written down with the sweep before any result."""
    close = (
        "one standard error over seeds"
        if rule.standard_error
        else f"{rule.within:g} point{'' if rule.within == 1 else 's'}"
    )
    return (
        f"Among all α whose {rule.split} rsum, mean over seeds, is within {close} of the best, take the largest sum of "
        "R@1 + R@5 + R@10 over the object, attribute and relation attacks (adversaries that share words with training "
        f"negatives) on {rule.split}, mean over seeds; ties go to the larger α."
    )


def gather(
    name: str,
    family: str,
    data: str,
    seeds: Sequence[int],
    alphas: Sequence[float],
    configured: float,
    rule: AlphaRule,
    points: Mapping[tuple[float, int], Mapping[str, float]],
    arms: Mapping[str, Sequence[Mapping[str, Any]]],
    runs: dict[str, dict[str, str]],
) -> AlphaResults:
    """Results from finished trials: `points` are metrics by (α, seed), `arms` the measured trials of `reference` and
    `learned` by seed, each {"label", "metrics", "alpha" where it learned one}."""
    curves = [{alpha: points[alpha, seed] for alpha in alphas} for seed in seeds]
    made = {
        arm: Arm(
            label=str(found[0]["label"]),
            metrics=by_seed([each["metrics"] for each in found]),
            alphas=[float(each["alpha"]) for each in found if "alpha" in each],
        )
        for arm, found in arms.items()
        if found
    }
    return AlphaResults(
        name=name,
        label=LABELS.get(family, family),
        data=data,
        seeds=list(seeds),
        alphas=list(alphas),
        points=[by_seed([curve[alpha] for curve in curves]) for alpha in alphas],
        chosen=choose_alpha(curves, rule),
        configured=configured,
        rule=rule_text(rule) + _absent(curves, rule),
        reference=made.get("reference"),
        learned=made.get("learned"),
        runs=runs,
    )


def _absent(curves: Sequence[Mapping[float, Mapping[str, float]]], rule: AlphaRule) -> str:
    """What the rule had to do without."""
    there = attacks_of(curves, rule.split)
    absent = [attack for attack in ATTACKS if attack not in there]
    return f" {rule.split} has no adversaries of {' and '.join(absent)}: the sum is without them." if absent else ""


def digest(entries: Sequence[Entry]) -> str:
    """Eight digits over the results of the trials: what is drawn from them is drawn again only if they change."""
    return fingerprint([[entry.id, entry.result] for entry in sorted(entries, key=lambda entry: entry.id)])


def headline(results: AlphaResults, split: str = "test") -> dict[str, float]:
    """The numbers a reader wants first: the chosen α and the metrics there beside the reference model's."""
    found: dict[str, float] = {"alpha": results.chosen}
    here = results.at(results.chosen)
    assert here is not None
    for metric in CHARTED:
        key = f"{split}/{metric}"
        if key in here:
            found[key] = interval(here[key]).mean
        if results.reference is not None and key in results.reference.metrics:
            found[f"reference/{key}"] = interval(results.reference.metrics[key]).mean
    return found


def charted(results: AlphaResults) -> list[tuple[int, dict[str, float]]]:
    """The curve as metrics of the parent run: step = 100 α, or 1000 α and so on for finer grids, so that a chart over
    steps is the curve."""
    found, scale = [], 100
    while len({round(scale * alpha) for alpha in results.alphas}) < len(results.alphas):
        scale *= 10
    for alpha, point in zip(results.alphas, results.points, strict=True):
        keys = [f"{split}/{metric}" for split in ("val", "test") for metric in CHARTED]
        values = {f"curve/{key}": interval(point[key]).mean for key in keys if key in point}
        found.append((round(scale * alpha), values))
    return found


def child_id(parent: str, changes: Mapping[str, Any]) -> str:
    """Permanent id of a trial's run: the sweep and the trial, nothing else."""
    return f"{parent}-{trial_id(changes)}"


def facts_of(ledger: Ledger) -> dict[str, str]:
    """What the trials cost."""
    seconds: dict[str, list[float]] = {}
    for entry in ledger:
        if entry.state == "finished":
            kind = str(entry.changes.get("arm", "")) if entry.changes["kind"] == "train" else ""
            seconds.setdefault(f"{entry.changes['kind']} {kind}".strip(), []).append(entry.seconds)
    return {
        f"{kind} trials": f"{len(spent)}, {sum(spent) / len(spent):.1f} s each on average"
        for kind, spent in seconds.items()
    }
