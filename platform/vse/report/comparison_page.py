"""A comparison as a page, as text for a terminal, and as CSV and plain data for other programs."""

import csv
import html
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vse.report.comparison import ABSENT, Comparison, Difference, Line, method
from vse.report.html import Provenance, card, details, figure, header, page, provenance_parts
from vse.report.metric_names import name_of
from vse.report.order import grouped

_MANY = 3  # systems that a title does not name


def comparison_page(comparison: Comparison, figures: Mapping[str, bytes], provenance: Provenance) -> str:
    """The page: which runs and keys, differences in a figure a split (PNG), all numbers, and how to read them."""
    first, *others = (system.label for system in comparison.systems)
    against = " and ".join(others) if len(others) < _MANY else f"{len(others)} systems"
    body = [
        header(_unbroken(f"{against} against {first}"), _size(comparison)),
        f'<div class="cards">{"".join(_cards(comparison))}</div>',
        "<h2>What is compared</h2>",
        f'<div class="panel scroll" tabindex="0">{_systems(comparison)}</div>',
        _only_in_some(comparison),
        "".join(f"<p>{html.escape(note)}</p>" for note in comparison.notes),
        "<h2>Differences</h2>",
        f"<blockquote>{html.escape(' '.join(method(comparison)))}</blockquote>",
    ]
    for split, png in figures.items():
        body.append(figure(png, _caption(comparison, split)))
    body.append("<h2>Numbers</h2>")
    for split in comparison.lines:
        body.append(f'<div class="panel scroll" tabindex="0">{_table(comparison, split)}</div>')
    body += [
        "<h2>Made again</h2>",
        f"<pre>{html.escape(chr(10).join(provenance.commands))}</pre>",
        "<h2>Made with</h2>",
        provenance_parts(provenance),
    ]
    return page(f"{against} against {first}", body)


def _size(comparison: Comparison) -> str:
    parts = [
        f"{split}: {images:,} images, {captions:,} captions" for split, (images, captions) in comparison.sizes.items()
    ]
    number = len(comparison.systems[0].runs)
    return " · ".join([*parts, f"{number} seed{'s' if number > 1 else ''} each"])


def _cards(comparison: Comparison) -> Iterator[str]:
    """rsum of every other system on the first split."""
    split, lines = next(iter(comparison.lines.items()))
    line = next(line for line in lines if line.metric == "rsum")
    for system, found, value in zip(comparison.others, line.differences, line.values[1:], strict=True):
        text = f"rsum on {split}, {system.label}: {value:.1f} − {line.values[0]:.1f}, 95 % {_interval(found)}"
        yield card(_signed(found.estimate), text)


def _caption(comparison: Comparison, split: str) -> str:
    return (
        f"Differences to {comparison.systems[0].label} on the {split} split with 95 % intervals; where a mark is "
        "filled, the interval leaves out zero. R@k: share of queries with a right answer among the first k; under "
        "attack with adversarial captions among the candidates. pairs: share of adversaries that score lower than the "
        "caption they were made from. rsum, the sum of the six plain recalls, has a scale of its own."
    )


def _systems(comparison: Comparison) -> str:
    """Runs of every system, then the keys that all of them have and that differ."""
    head = "".join(f"<th>{_heading(system.label)}</th>" for system in comparison.systems)
    lines = [
        "<table><caption>one column a system; keys of the configuration that differ between them</caption>",
        f'<thead><tr><th class="model">key</th>{head}</tr></thead><tbody>',
    ]
    rows = [("runs", ["\n".join(run.name for run in system.runs) for system in comparison.systems])]
    rows += [(key, [_text(value) for value in values]) for key, values in _shared(comparison).items()]
    for name, cells in rows:
        shown = "".join(f"<td>{html.escape(cell).replace(chr(10), '<br>')}</td>" for cell in cells)
        lines.append(f'<tr><th class="model">{html.escape(name)}</th>{shown}</tr>')
    if len(rows) == 1:
        text = f'<td class="said" colspan="{len(comparison.systems)}">{html.escape(NO_KEY)}</td>'
        lines.append(f'<tr><th class="model">no key</th>{text}</tr>')
    return "\n".join([*lines, "</tbody></table>"])


NO_KEY = "no key of the configuration differs: only what data or code made of them does"


def _shared(comparison: Comparison) -> dict[str, tuple[Any, ...]]:
    return {key: values for key, values in comparison.keys.items() if ABSENT not in values}


def _partial(comparison: Comparison) -> dict[str, tuple[Any, ...]]:
    """Keys that not every system has, since components differ."""
    return {key: values for key, values in comparison.keys.items() if ABSENT in values}


def _only_in_some(comparison: Comparison) -> str:
    labels = [system.label for system in comparison.systems]
    values = {
        key: "; ".join(f"{label}: {_text(v)}" for label, v in zip(labels, each, strict=True) if v != ABSENT)
        for key, each in _partial(comparison).items()
    }
    return details(f"{len(values)} keys of components that not every system has", values) if values else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _table(comparison: Comparison, split: str) -> str:
    """One line a metric: values, and behind each but the first the difference with its interval."""
    first, *others = (_heading(system.label) for system in comparison.systems)
    titles = f"<th>{first}</th>" + "".join(f'<th class="edge">{label}</th><th>difference</th>' for label in others)
    lines = [
        f"<table><caption>{html.escape(split)} split, percent; differences to {first} with 95 % intervals, strong "
        "where the interval leaves out zero</caption>",
        f'<thead><tr><th class="model">metric</th>{titles}</tr></thead><tbody>',
    ]
    by_name = {f"{split}/{line.metric}": line for line in comparison.lines[split]}
    for heading, names in grouped(by_name).items():
        rest = f'<td colspan="{2 * len(others) + 1}"></td>'
        lines.append(f'<tr class="heading"><th class="model">{html.escape(heading)}</th>{rest}</tr>')
        for name in names:
            line = by_name[name]
            cells = f"<td>{line.values[0]:.1f}</td>" + "".join(
                f'<td class="edge">{value:.1f}</td><td>{_cell(found)}</td>'
                for value, found in zip(line.values[1:], line.differences, strict=True)
            )
            lines.append(f'<tr><th class="model">{html.escape(name_of(line.metric))}</th>{cells}</tr>')
    return "\n".join([*lines, "</tbody></table>"])


def _heading(label: str) -> str:
    """A label that may go on in the next line behind its marks."""
    return re.sub(r"([_-])", r"\1<wbr>", html.escape(_unbroken(label)))


def _unbroken(label: str) -> str:
    """No line begins with the number of a seed, or of keys."""
    return re.sub(r"(seed) | (keys?\b)", lambda found: f"{found[1] or ''}\u00a0{found[2] or ''}", label)


def _cell(found: Difference) -> str:
    number = _signed(found.estimate)
    shown = f"<strong>{number}</strong>" if found.clear else number
    return f'{shown} <span class="half">{html.escape(_interval(found))}</span>'


def _signed(value: float) -> str:
    """With its sign; what rounds to zero has none."""
    text = f"{value:+.1f}".replace("-", "−")
    return "0.0" if text in ("+0.0", "−0.0") else text


def _interval(found: Difference) -> str:
    return f"[{_signed(found.low)}, {_signed(found.high)}]"


def terminal_lines(comparison: Comparison) -> Iterator[str]:
    """What is compared, every key that differs, a table a split, and how to read the intervals."""
    number = [str(k) for k in range(1, len(comparison.systems) + 1)]
    for mark, system in zip(number, comparison.systems, strict=True):
        yield f"{mark}  {system.label}: {', '.join(run.name for run in system.runs)}"
    yield from comparison.notes
    shared, partial = _shared(comparison), _partial(comparison)
    if not comparison.keys:
        yield NO_KEY
    else:
        rows = [("keys that differ", *number), *((key, *map(_text, values)) for key, values in shared.items())]
        yield from _aligned(rows, left=True)
    if partial:
        yield f"  and {len(partial)} keys of components that not every system has: see the page, or comparison.json"
    for split, lines in comparison.lines.items():
        images, captions = comparison.sizes[split]
        yield f"{split}: {images:,} images, {captions:,} captions; percent"
        rows = [("", "1", *(text for mark in number[1:] for text in (mark, f"{mark} − 1")))]
        yield from _aligned([*rows, *(_row(line) for line in lines)])
    yield from method(comparison)


def _row(line: Line) -> tuple[str, ...]:
    others = zip(line.values[1:], line.differences, strict=True)
    texts = (
        text for value, found in others for text in (f"{value:.1f}", f"{_signed(found.estimate)} {_interval(found)}")
    )
    return (line.metric, f"{line.values[0]:.1f}", *texts)


def _aligned(rows: Sequence[Sequence[str]], left: bool = False) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *cells = (
            text.ljust(width) if left or not place else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield f"  {'   '.join((first, *cells))}".rstrip()


def to_csv(comparison: Comparison) -> str:
    """One line a metric and system."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["metric", "system", "runs", "seeds", "images", "value", "difference", "low", "high"])
    for split, lines in comparison.lines.items():
        for line in lines:
            for place, system in enumerate(comparison.systems):
                found = line.differences[place - 1] if place else None
                numbers = (found.estimate, found.low, found.high) if found is not None else ("", "", "")
                runs = " ".join(run.name for run in system.runs)
                head = [f"{split}/{line.metric}", system.label, runs, len(system.runs), comparison.sizes[split][0]]
                writer.writerow([*head, line.values[place], *numbers])
    return out.getvalue()


def to_data(comparison: Comparison) -> dict[str, Any]:
    """All of it as plain data."""
    return {
        "systems": [
            {"label": system.label, "runs": [run.name for run in system.runs], "seeds": list(system.seeds)}
            for system in comparison.systems
        ],
        "keys": {key: list(values) for key, values in comparison.keys.items()},
        "method": method(comparison),
        "notes": list(comparison.notes),
        "splits": {
            split: {
                "images": comparison.sizes[split][0],
                "captions": comparison.sizes[split][1],
                "metrics": {
                    line.metric: {
                        "values": list(line.values),
                        "differences": [
                            {"estimate": each.estimate, "low": each.low, "high": each.high} for each in line.differences
                        ],
                    }
                    for line in lines
                },
            }
            for split, lines in comparison.lines.items()
        },
    }
