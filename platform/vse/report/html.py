"""One self-contained HTML page: styles inline, figures embedded, nothing fetched from anywhere."""

import base64
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from vse.adversaries.univse.attacks import ATTACKS
from vse.display.escaping import visible
from vse.evaluation.intervals import interval
from vse.report.curve import AlphaResults, Metrics
from vse.report.metric_names import WAYS
from vse.report.tables import PLAIN, Table, attack_groups, plain_table


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """How results came about: the commands that make them again, settings as dotted keys, versions, and free facts."""

    commands: Sequence[str]
    configuration: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, str]
    facts: Mapping[str, str] = field(default_factory=dict)


def alpha_page(results: AlphaResults, table: Table, figure_png: bytes, provenance: Provenance) -> str:
    """The page of a sweep of α: what was run, the figure, the table, the rule and its outcome, the commands."""
    best = results.at(results.chosen)
    assert best is not None, "the chosen alpha is one of the sweep"
    cards = [(f"{results.chosen:g}", "α chosen on validation")]
    cards += _cards(results, best, table.split)
    arms = ", ".join(filter(None, [results.label, *_other_arms(results)]))
    seeds = f"{len(results.seeds)} seed{'s' if len(results.seeds) > 1 else ''}"
    body = [
        header(
            f"{results.label}: how much sentence, how much components?",
            f"Sweep of α on {results.data} · {seeds} · {arms} · {results.name}",
        ),
        f'<div class="cards">{"".join(card(value, text) for value, text in cards)}</div>',
        "<h2>Retrieval over α</h2>",
        figure(figure_png, _figure_text(results, table.split)),
        "<h2>Numbers</h2>",
        f'<div class="panel">{table.only(PLAIN, "Plain retrieval").to_html()}</div>',
        f'<div class="panel">{table.only(attack_groups(), "Image to sentence under attack").to_html()}</div>',
        '<p class="lead">rsum3: R@1 + R@5 + R@10. pairs: share of adversaries that score lower for the image than the '
        "caption they were made from, ties one half.</p>",
        "<h2>The rule and its outcome</h2>",
        f"<blockquote>{html.escape(results.rule)}</blockquote>",
        f"<p>{html.escape(_outcome(results))}</p>",
        "<h2>Made again</h2>",
        f"<pre>{html.escape(chr(10).join(provenance.commands))}</pre>",
        "<h2>Made with</h2>",
        provenance_parts(provenance),
        _runs(results),
    ]
    return page(f"α sweep {results.name}", body)


def metrics_page(
    title: str,
    lead: str,
    rows: Mapping[str, Mapping[str, float]],
    provenance: Provenance,
    published: str = "",
    facts: Mapping[str, Mapping[str, str]] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """The page of chosen runs: facts of each and all their metrics side by side, below them `notes` on runs and HTML of
    what is `published` beside such."""
    table = plain_table(rows, "one column a run; recalls in percent, ranks 1-based", facts)
    body = [
        header(title, lead),
        f'<div class="panel scroll" tabindex="0">{table}</div>',  # keys scroll it too
        f'<p class="lead">{"<br>".join(map(html.escape, notes))}</p>' if notes else "",
        published,
        "<h2>Made again</h2>",
        f"<pre>{html.escape(chr(10).join(provenance.commands))}</pre>",
        "<h2>Made with</h2>",
        provenance_parts(provenance),
    ]
    return page(title, body)


def page(title: str, body: Iterable[str]) -> str:
    """A whole document around a body. Control characters of data are shown, as a terminal shows them."""
    style = resources.files("vse.report").joinpath("page.css").read_text(encoding="utf-8")
    return visible(
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n<main>\n" + "\n".join(body) + "\n</main>\n</body>\n</html>\n"
    )


def header(title: str, lead: str) -> str:
    """The head of a page, with one line below its title."""
    return f'<header><h1>{html.escape(title)}</h1><p class="lead">{html.escape(lead)}</p></header>'


def card(value: str, text: str) -> str:
    """A headline number with what it is."""
    return f'<div class="card"><b>{html.escape(value)}</b><span>{html.escape(text)}</span></div>'


def _other_arms(results: AlphaResults) -> list[str]:
    return [arm.label for arm in (results.reference, results.learned) if arm is not None]


def _attacked(metrics: Metrics, names: Sequence[str]) -> float | None:
    """Mean over attacks and seeds of R@1; None where one of them was not measured, or there is none."""
    if not names or not all(name in metrics for name in names):
        return None
    return sum(interval(metrics[name]).mean for name in names) / len(names)


def _cards(results: AlphaResults, best: Metrics, split: str) -> list[tuple[str, str]]:
    """The headline numbers at the chosen α, each beside the reference model's."""
    other = results.reference.metrics if results.reference is not None else {}
    label = results.reference.label if results.reference is not None else ""
    cards = []
    shown = {"rsum": "rsum, plain"} | {f"{way}/r1": f"R@1 {sign}" for way, sign in WAYS.items()}
    for name, text in shown.items():
        key = f"{split}/{name}"
        beside = f" ({label} {interval(other[key]).mean:.1f})" if key in other else ""
        cards.append((f"{interval(best[key]).mean:.1f}", f"{split} {text}{beside}"))
    attacks = [name for attack in ATTACKS if (name := f"{split}/attack_{attack}/r1") in best]
    attacked = _attacked(best, attacks)
    if attacked is not None:
        theirs = _attacked(other, attacks)
        beside = f" ({label} {theirs:.1f})" if theirs is not None else ""
        cards.append((f"{attacked:.1f}", f"{split} R@1 under attack, mean of {len(attacks)}{beside}"))
    return cards


def figure(png: bytes, text: str) -> str:
    """An embedded picture whose caption serves readers of the page's text as well."""
    data = base64.b64encode(png).decode()
    return (
        f'<figure class="panel"><img alt="{html.escape(text, quote=True)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{html.escape(text)}</figcaption></figure>"
    )


def _figure_text(results: AlphaResults, split: str) -> str:
    reference = f" {results.reference.label} has no α: dashed." if results.reference is not None else ""
    return (
        f"R@1 on the {split} split over α, the weight of the sentence vector against the bag of components "
        f"(u_cap = α u_sent + (1 − α) u_comp). Left: among true captions. Right: image to sentence with up to five "
        f"adversaries of every caption in the pool, by kind of attack.{reference} After Fig. 5 of Wu et al., CVPR 2019."
    )


def _outcome(results: AlphaResults) -> str:
    here, configured = results.at(results.chosen), results.at(results.configured)
    text = f"It chose α = {results.chosen:g}; checkpoints were selected at α = {results.configured:g}."
    if here is not None and results.chosen != results.configured and configured is not None:
        ours, theirs = interval(here["test/rsum"]), interval(configured["test/rsum"])
        text += f" Test rsum is {ours} there and {theirs} at {results.configured:g}."
    return text + " Test data had no part in the choice."


def provenance_parts(provenance: Provenance) -> str:
    """How results came about, folded up but for the facts."""
    parts = []
    if provenance.facts:
        parts.append(details("Facts", provenance.facts, True))
    for name, values in provenance.configuration.items():
        parts.append(details(f"Configuration: {name}", {k: json.dumps(v) for k, v in values.items()}))
    parts.append(details("Versions", provenance.versions))
    return "\n".join(parts)


def _runs(results: AlphaResults) -> str:
    rows = {f"{arm}, seed {seed}": run for arm, runs in results.runs.items() for seed, run in runs.items()}
    return details("Training runs", rows) if rows else ""


def details(title: str, values: Mapping[str, Any], shown: bool = False) -> str:
    """Keys and values under a title that unfolds them."""
    rows = "".join(
        f'<tr><th class="model">{html.escape(str(key))}</th><td>{html.escape(str(value))}</td></tr>'
        for key, value in values.items()
    )
    opened = " open" if shown else ""
    return f"<details{opened}><summary>{html.escape(title)}</summary><table><tbody>{rows}</tbody></table></details>"
