"""The report of a sweep of α: figure, tables, page and results as files."""

from collections.abc import Mapping, Sequence
from typing import Any

from vse.adversaries.attacks import ATTACKS
from vse.display.counts import count
from vse.evaluation.intervals import interval
from vse.evaluation.metrics import WAYS
from vse.report.alpha_figure import alpha_figure, drawn_attacks
from vse.report.curve import AlphaResults, Metrics
from vse.report.files import RESULTS, json_text, write_files
from vse.report.page import Provenance, provenance, render
from vse.report.style import inline
from vse.report.tables import PLAIN, Table, alpha_table, attack_groups, curve_csv
from vse.storage.folder import Folder

SPLIT = "test"


def write_report(
    folder: Folder,
    results: AlphaResults,
    commands: Sequence[str],
    configuration: Mapping[str, Mapping[str, Any]],
    facts: Mapping[str, str],
) -> list[str]:
    """Write figure, tables, page and results of an α sweep.

    Args:
        folder: Where to write.
        results: The sweep.
        commands: Commands that reproduce the sweep.
        configuration: Settings of each arm as dotted keys.
        facts: Further facts for the page.

    Returns:
        The names of the files.
    """
    figure, table = alpha_figure(results, SPLIT), alpha_table(results, SPLIT)
    files = {
        "alpha.png": figure["png"],
        "alpha.svg": figure["svg"],
        "table.csv": table.to_csv(),
        "table.json": json_text(table.to_data()),
        "table.html": render("table.html", table=table),
        "curve.csv": curve_csv(results),
        "report.html": alpha_page(results, table, figure["svg"], provenance(commands, configuration, facts)),
        RESULTS: json_text(results.to_dict()),
    }
    return write_files(folder, files)


def alpha_page(results: AlphaResults, table: Table, svg: bytes, made_with: Provenance) -> str:
    """The page of a sweep of α: headline numbers, the figure, the tables, the rule and its outcome.

    Args:
        results: The sweep.
        table: The result of `alpha_table`, plain and attacked metrics together. The page shows its split.
        svg: The result of `alpha_figure` as SVG.
        made_with: How the results can be reproduced.

    Returns:
        The HTML document.
    """
    arms = [arm.label for arm in (results.reference, results.learned) if arm is not None]
    attacked = table.only(attack_groups(), "Image to sentence under attack")
    any_attack = any(value is not None for row in attacked.rows for value in row.values)
    return render(
        "alpha.html",
        title=f"α sweep {results.name}",
        heading=f"{results.label}: retrieval over α",
        lead=f"How much sentence, how much components? · {results.name}",
        protocol={
            "data": results.data,
            "split": f"{table.split}; α and checkpoints were chosen on validation",
            "candidates": "all images and captions of the split"
            + ("; under attack also the adversaries of every caption" if any_attack else ""),
            "seeds": f"{len(results.seeds)} ({', '.join(map(str, results.seeds))})",
            "systems": " · ".join([results.label, *arms]),
        },
        headline=_headline(results, table.split),
        drawing=inline(svg, "alpha"),
        caption=_caption(results, table.split),
        tables=[table.only(PLAIN, "Plain retrieval"), *([attacked] if any_attack else [])],
        any_attack=any_attack,
        rule=results.rule,
        outcome=_outcome(results),
        runs={f"{arm}, seed {seed}": run for arm, runs in results.runs.items() for seed, run in runs.items()},
        provenance=made_with,
    )


def _headline(results: AlphaResults, split: str) -> list[tuple[str, str]]:
    """The numbers at the chosen α, each with the reference model's."""
    best = results.at(results.chosen)
    assert best is not None, "the chosen alpha is one of the sweep"
    reference = results.reference.metrics if results.reference is not None else {}
    label = results.reference.label if results.reference is not None else ""
    shown = {f"{split} rsum, plain": ["rsum"]}
    shown |= {f"{split} R@1 {sign}": [f"{way}/r1"] for way, sign in WAYS.items()}
    attacks = [f"attack_{attack}/r1" for attack in ATTACKS if f"{split}/attack_{attack}/r1" in best]
    if attacks:
        shown[f"{split} R@1 under attack, mean of {len(attacks)}"] = attacks
    cards = [(f"{results.chosen:g}", "α chosen on validation")]
    for text, names in shown.items():
        value = _mean(best, [f"{split}/{name}" for name in names])
        other = _mean(reference, [f"{split}/{name}" for name in names])
        cards.append((f"{value:.1f}", text + (f" ({label} {other:.1f})" if other is not None else "")))
    return cards


def _mean(metrics: Metrics, names: Sequence[str]) -> float | None:
    """Mean over metrics and seeds; None if one of the metrics was not measured."""
    if not all(name in metrics for name in names):
        return None
    return sum(interval(metrics[name]).mean for name in names) / len(names)


def _caption(results: AlphaResults, split: str) -> str:
    reference = f" {results.reference.label} has no α: dashed." if results.reference is not None else ""
    halves = (
        "Left: among true captions. Right: image to sentence with up to five adversaries of every caption in the pool, "
        "by kind of attack."
        if drawn_attacks(results, split)
        else "Among true captions; no attack was measured at every α."
    )
    return (
        f"R@1 on the {split} split over α, the weight of the sentence vector against the bag of components "
        f"(u_cap = α u_sent + (1 − α) u_comp); {count(len(results.seeds), 'seed')}. {halves}"
        f"{reference} After Fig. 5 of Wu et al., CVPR 2019."
    )


def _outcome(results: AlphaResults) -> str:
    here, configured = results.at(results.chosen), results.at(results.configured)
    text = f"It chose α = {results.chosen:g}; checkpoints were selected at α = {results.configured:g}."
    if here is not None and results.chosen != results.configured and configured is not None:
        chosen_rsum, configured_rsum = interval(here["test/rsum"]), interval(configured["test/rsum"])
        text += f" Test rsum is {chosen_rsum} there and {configured_rsum} at {results.configured:g}."
    return text + " Test data had no part in the choice."
