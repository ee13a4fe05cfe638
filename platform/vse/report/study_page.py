"""A study's findings for readers: its claims with verdicts, every arm's numbers, and who resists which attack."""

import csv
import html
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vse.adversaries.univse.attacks import ATTACKS
from vse.adversaries.vsec.rules import CLASSES
from vse.evaluation.intervals import Interval
from vse.report.html import Provenance, figure, header, page, provenance_parts
from vse.report.metric_names import RECALLS, WAYS
from vse.report.tables import Column, Row, Table
from vse.studies.labels import label_of

Findings = Mapping[str, Any]
KEYS = ("arm", "split", "alpha", "seeds")
SPLITS = {
    "test": "drawn as the training images were",
    "shifted": "the training set's co-occurrences are broken",
    "drawing": "the second drawing, never trained on",
    "wording": "the second wording, never trained on",
}
_FIGURE_TEXT = (
    "One line a system, the best rsum on top. Marks are means, lines 95 % intervals over seeds and images; attacks are "
    "UniVSE's, with words that training negatives may have had."
)
_TESTED = (
    "Verdicts are at 5 %, Holm's correction over all registered claims of a paper; what could be seen is after it, "
    "with a power of 80 %. Checkpoints and rates were chosen on validation at each family's configured α; other α "
    "score the same weights."
)
_PAIRS_TEXT = (
    "The sum of recalls over the share of training pairs that are known, the rest left out, or used as images and "
    "captions that belong to nobody; bands are 95 % intervals over seeds and images."
)
WORDS = {
    "shared": "words that training negatives may have had",
    "disjoint": "nouns, attributes and relations that training negatives never had",
}


def plain_columns() -> tuple[Column, ...]:
    """Retrieval among true captions."""
    recalls = [Column(f"{way}/{key}", title, sign) for way, sign in WAYS.items() for key, title in RECALLS.items()]
    return (Column("rsum", "rsum", "plain"), *recalls, Column("seconds", "s", "training", least=True))


def attack_columns(rows: Sequence[Findings]) -> tuple[Column, ...]:
    """R@1 under each attack and the share of pairs that come out right, of the attacks that were measured."""
    named = [(f"attack_{kind}", kind, "UniVSE's attacks") for kind in ATTACKS]
    named += [(f"attack_contrast_{kind}", kind, "VSE-C's attacks") for kind in CLASSES]
    own = [Column(f"own_pool_{kind}/r1", kind, "VSE-C's, own pool: R@1") for kind in CLASSES]
    return tuple(column for column in own if any(column.metric in row for row in rows)) + tuple(
        Column(f"{attack}/{metric}", kind, f"{group}: {title}")
        for metric, title in (("r1", "R@1"), ("pair_accuracy", "pairs right"))
        for attack, kind, group in named
        if any(f"{attack}/{metric}" in row for row in rows)
    )


def table(rows: Sequence[Findings], split: str, columns: tuple[Column, ...], title: str) -> Table:
    """The arms' numbers on one split; intervals are those of the study's bootstrap, drawn as their half width."""
    found = []
    for row in rows:
        if row["split"] == split:
            note = "" if row["alpha"] is None else f"α = {row['alpha']:g}"
            values = tuple(_interval(row.get(column.metric), row["seeds"]) for column in columns)
            found.append(Row(label_of(row["arm"]), note, values))
    return Table(title, split, columns, tuple(found))


def _interval(found: Sequence[float] | None, seeds: int) -> Interval | None:
    if found is None:
        return None
    mean, low, high = found
    return Interval(mean, (high - low) / 2, seeds)


def to_csv(findings: Findings) -> str:
    """One line an arm, split, α, kind of words and metric, with mean and interval."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["words", *KEYS, "metric", "mean", "low", "high"])
    for words, rows in findings["table"].items():
        for row in rows:
            head = ["" if row[key] is None else row[key] for key in KEYS]
            writer.writerows([words, *head, name, *each] for name, each in row.items() if name not in KEYS)
    return out.getvalue()


def study_page(findings: Findings, systems: bytes, provenance: Provenance, pairs: bytes | None = None) -> str:
    """The page of a study; `systems` and `pairs` are its figures as PNG."""
    rows = findings["table"]["shared"]
    splits = list(dict.fromkeys(row["split"] for row in rows))
    arms = len({row["arm"] for row in rows})
    body = [
        header(
            f"Study {findings['study']}",
            f"{arms} arms · up to {findings['seeds']} seeds · claims {findings['claims_hash']}, design "
            f"{findings['design_hash']} · percent, ± half of a 95 % interval over seeds and images",
        ),
        "<h2>All systems</h2>",
        figure(systems, _FIGURE_TEXT),
        *(["<h2>With fewer pairs</h2>", figure(pairs, _PAIRS_TEXT)] if pairs else ()),
        "<h2>Claims</h2>",
        *(_claims(verdicts, words) for words, verdicts in findings["claims"].items() if verdicts),
        f"<p>{html.escape(_TESTED)}</p>",
        *(f"<p>{html.escape(line)}</p>" for line in _learned(findings)),
        "<h2>Retrieval</h2>",
        *(
            f'<div class="panel">{table(rows, split, plain_columns(), _about(split)).to_html()}</div>'
            for split in splits
        ),
        "<h2>Who resists which attack</h2>",
        *_attacked(findings, splits),
        "<h2>Made again</h2>",
        f"<pre>{html.escape(chr(10).join(provenance.commands))}</pre>",
        "<h2>Made with</h2>",
        f"<p>Trained and measured by {html.escape(', '.join(findings['code']))}.</p>",
        provenance_parts(provenance),
    ]
    return page(f"study {findings['study']}", body)


def _learned(findings: Findings) -> Iterable[str]:
    for arm, (mean, low, high) in findings["learned_alpha"].items():
        yield f"{label_of(arm)}: α ended at {mean:.2f} [{low:.2f}, {high:.2f}]."


def _attacked(findings: Findings, splits: Sequence[str]) -> Iterable[str]:
    for split in splits:
        for words, rows in findings["table"].items():
            columns = attack_columns([row for row in rows if row["split"] == split])
            if columns:
                title = f"{_about(split)}; {WORDS[words]}"
                yield f'<div class="panel">{table(rows, split, columns, title).to_html()}</div>'


def _about(split: str) -> str:
    return f"split {split}: {SPLITS[split]}" if split in SPLITS else f"split {split}"


def _claims(verdicts: Mapping[str, Mapping[str, Any]], words: str) -> str:
    lines = [
        f"<table><caption>attacks with {html.escape(WORDS[words])}</caption>",
        '<thead><tr><th class="model">claim</th><th class="model">answer</th><th class="model">differences</th></tr>',
        "</thead><tbody>",
    ]
    for name, verdict in verdicts.items():
        effects = "<br>".join(
            html.escape(f"{what}: {mean:+.1f} [{low:.1f}, {high:.1f}]") for what, mean, low, high in verdict["effects"]
        )
        seen = ""
        if verdict["answer"] == "undecided":
            seen = f'<span class="note">{verdict["detectable"]:.1f} could be seen</span>'
        lines.append(
            f'<tr><th class="model said">{html.escape(name.replace("_", " "))}'
            f'<span class="note wide">{html.escape(verdict["statement"])}</span></th>'
            f'<td class="said">{html.escape(verdict["answer"])}{seen}</td><td class="said">{effects}</td></tr>'
        )
    return f'<div class="panel">{"".join(lines)}</tbody></table></div>'
