"""Published numbers for readers: with measured runs on a page, and all of them as Markdown.

`python -m vse.report.published_page evidence/published.md` writes the Markdown.
"""

import math
import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from vse import presets
from vse.adversaries.attacks import of_paper
from vse.adversaries.univse.generate import PRINTED
from vse.config import override, to_dict
from vse.evaluation.intervals import Interval
from vse.evaluation.protocol import PUBLISHED
from vse.evaluation.tasks.attacks import attack_metrics
from vse.report.measured import VALIDATION, MetricKey, alike, journal_label
from vse.report.page import render
from vse.report.published import COLUMNS, FILE, PAPERS, SETTINGS, PublishedRow, own_pools, read_published
from vse.report.tables import PLAIN, Column, Row, Table
from vse.stages.measuring.options import Size

# task -> headings above its columns
_TASKS = {
    "plain retrieval": PLAIN,
    "image to sentence among UniVSE's adversaries": tuple(f"{attack} attack" for attack in of_paper()),
    "image to sentence among an image's own adversaries of VSE-C": tuple(
        map(own_pools, ("all", "noun", "numeral", "relation"))
    ),
}
_CAUTION = (
    "Papers' numbers are as printed; few say which images of a test split they take, and in how many folds. "
    "Adversaries of the measured runs are made by this project's rules, not by the papers', unless the row says so."
)
_BENCHMARKS = {"coco": "COCO", "mscoco": "COCO", "flickr30k": "Flickr30k", "f30k": "Flickr30k"}
# further words in such names; with any other word, as in coco_german, it is other data
_NEUTRAL = {"annotations", "captions", "data", "dataset", "images", "karpathy", "ms", "precomp", "train", "val"}
_YEAR = re.compile(r"20(14|17)$")


def benchmark_of(name: str) -> str:
    """`COCO`, `Flickr30k`, or empty for the name of any other data set, file or folder."""
    words = [_YEAR.sub("", word) for word in re.findall(r"[^\W_]+", name.lower())]
    names = {_BENCHMARKS[word] for word in words if word in _BENCHMARKS}
    rest = [word for word in words if word and word not in _BENCHMARKS and word not in _NEUTRAL]
    return names.pop() if len(names) == 1 and not rest else ""


def configured_name(config: Mapping[str, Any]) -> str:
    """The name of a run's data set by its configuration: of its file, else of its folder."""
    data = config.get("data", {})
    if data.get("name") == "coco":  # a format, which other captions of the same images come in too
        files = (str(data.get(split) or "") for split in ("train", "val", "test"))
        return f"coco {PurePosixPath(next(filter(None, files), '')).stem}"
    return PurePosixPath(str(data.get("file") or data.get("root") or "").partition("?")[0]).stem


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportedRun:
    """A run with everything that a report shows of it.

    `config` is `to_dict` of its configuration. `data` is the name of its data set in the workspace, or empty. `records`
    identifies the images and captions of the data set. `sizes` are by label. `met` has fingerprints of the data and
    adversaries of its numbers, by task and label. `evaluations` are the tasks and options behind its numbers.
    """

    name: str
    config: Mapping[str, Any]
    metrics: Mapping[MetricKey, float]
    data: str = ""
    records: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, Size] = field(default_factory=dict)
    met: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    evaluations: Sequence[tuple[str, Mapping[str, Any]]] = ()

    def met_by(self, metrics: Container[str], label: str) -> dict[str, str]:
        """Fingerprints of the data and adversaries behind some metrics of a split."""
        tasks = dict.fromkeys(key.task for key in self.metrics if key.label == label and key.metric.name in metrics)
        return {f"{task} {key}": each for task in tasks for key, each in self.met.get((task, label), {}).items()}

    @property
    def evaluated(self) -> bool:
        """Whether it has been evaluated after training."""
        return bool(self.sizes) or any(key.label != VALIDATION for key in self.metrics)

    @property
    def benchmark(self) -> str:
        """The published data set of the run; empty for other data."""
        return benchmark_of(self.data or configured_name(self.config))

    def measured(self, protocol: str, split: str) -> dict[str, float]:
        """Metrics by name of a split under a value of `measure.protocol`, including `as_printed`."""
        return self._behind(split, protocol) | self.as_printed(protocol, split)

    def as_printed(self, protocol: str, split: str) -> dict[str, float]:
        """Metrics under attack by adversaries as printed (`measure.attacks.words`), under the names of ours."""
        metrics, plain, printed = self._behind(split, protocol), _attacks("shared"), _attacks(PRINTED)
        return {ours: metrics[name] for ours, name in zip(plain, printed, strict=True) if name in metrics}

    def _behind(self, split: str, protocol: str) -> dict[str, float]:
        label = journal_label(f"{split}/{protocol}", {"protocol": protocol})
        return {key.metric.name: value for key, value in self.metrics.items() if key.label == label}


def _attacks(words: str) -> list[str]:
    """Names of the metrics of all attacks in one kind of words."""
    return [metric.name for attack in of_paper() for metric in attack_metrics(attack, attack, (words,))]


def published_tables(runs: Sequence[ReportedRun]) -> tuple[list[Table], str]:
    """Tables of the runs' numbers and of published numbers on the same data by the same protocol.

    Systems with a run's model, loss and reading of captions come before other published systems.

    Returns:
        The tables, and a remark on them. Without tables, the remark says how to measure a run to get some. Both are
        empty if no run is on a published data set.
    """
    runs = [run for run in runs if run.benchmark]
    if not runs:
        return [], ""
    splits = _splits()
    tables = [table for protocol in PUBLISHED for split in splits for table in _tables(runs, protocol, split)]
    if tables:
        return tables, _CAUTION
    benchmark = runs[0].benchmark
    ways = ", ".join(p for p in PUBLISHED if any(any(_comparable(benchmark, p, split)) for split in splits))
    return [], f"Papers print numbers of {benchmark}; to see them here, measure with measure.protocol ({ways})."


def _splits() -> list[str]:
    """The splits that papers measure."""
    return list(dict.fromkeys(setting.split for setting in SETTINGS.values()))


def unrecognised(runs: Iterable[ReportedRun]) -> list[str]:
    """A line for each run that was measured by a published protocol on data without published numbers."""
    return [
        f"{run.name}: measured by {', '.join(used)}, but no published numbers are shown, since its data set "
        f"{run.data or configured_name(run.config)!r} is not called coco or flickr30k"
        for run in runs
        if not run.benchmark and (used := [p for p in PUBLISHED if any(run.measured(p, split) for split in _splits())])
    ]


def _comparable(benchmark: str, protocol: str, split: str) -> Iterator[PublishedRow]:
    for line in read_published():
        setting = SETTINGS[line.protocol]
        if line.train == line.test == benchmark and protocol in setting.protocols and split == setting.split:
            yield line


def _tables(runs: Sequence[ReportedRun], protocol: str, split: str) -> Iterator[Table]:
    for benchmark in dict.fromkeys(run.benchmark for run in runs):
        measured = {run.name: run.measured(protocol, split) for run in runs if run.benchmark == benchmark}
        here = [run for run in runs if measured.get(run.name)]
        for task, groups in _TASKS.items():
            columns = [
                column
                for column in COLUMNS
                if column.group in groups
                and not column.least  # a page's tables mark the largest
                and any(column.metric in measured[run.name] for run in here)
            ]
            names = {column.metric for column in columns}
            label = journal_label(f"{split}/{protocol}", {"protocol": protocol})
            for group in alike(here, lambda run, names=names, label=label: run.met_by(names, label)):
                rows = []
                for run in group:
                    printed = run.as_printed(protocol, split).keys() & names
                    note = "measured here" + ", adversaries as printed" * bool(printed)
                    rows.append(_row(run.name, note, columns, measured[run.name]))
                first, others = [], []
                for line, sources in _each_once(_comparable(benchmark, protocol, split), columns):
                    same = [run.name for run in group if _is_of(line, run)]
                    about = _about(line, sources, same)
                    (first if same else others).append(_row(line.system, about, columns, _values(line, columns)))
                if first or others:
                    title = f"{PUBLISHED[protocol].name}: {task}, in percent"
                    yield Table(title, split, tuple(columns), (*rows, *first, *others))


def _row(label: str, note: str, columns: Sequence[Column], metrics: Mapping[str, float]) -> Row:
    values = (metrics.get(column.metric) for column in columns)
    return Row(label, note, tuple(None if value is None else Interval(value, math.nan, 1) for value in values))


def _each_once(rows: Iterable[PublishedRow], columns: Sequence[Column]) -> list[tuple[PublishedRow, list[str]]]:
    """Rows with numbers in the columns, and the tables they are in. Repeated numbers of a system add only a table."""
    systems: list[tuple[PublishedRow, list[str]]] = []
    for row in rows:
        if not (values := _values(row, columns)):
            continue
        for other, sources in systems:
            same = (row.presets or row.system, row.settings) == (other.presets or other.system, other.settings)
            if same and values.items() <= _values(other, columns).items():
                sources.append(row.source)
                break
        else:
            systems.append((row, [row.source]))
    return systems


def _values(line: PublishedRow, columns: Sequence[Column]) -> dict[str, float]:
    return {c.metric: line.numbers[c.metric].value for c in columns if c.metric in line.numbers}


def _about(line: PublishedRow, sources: Sequence[str], same: Sequence[str]) -> str:
    parts = [f"the setting of {', '.join(same)}"] if same else []
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    parts += [sources[0] + more, _images(line, "image encoder not said"), line.text_encoder]
    parts += [f"{key}={value}" for key, value in line.settings.items()]
    if line.protocol == "coco2017_1k":
        parts.append(SETTINGS[line.protocol].about)
    if line.citation:
        parts.append(line.citation + ("" if line.presets else ", not built"))
    return " · ".join(filter(None, parts))


def _images(line: PublishedRow, unsaid: str = "") -> str:
    tuned = {"yes": "fine-tuned", "no": "frozen", "": ""}[line.finetuned]
    return ", ".join(filter(None, (line.image_encoder or unsaid, tuned)))


def _is_of(line: PublishedRow, run: ReportedRun) -> bool:
    """Whether the run has the model, loss and reading of captions of a preset of the line."""
    if any(key.startswith("measure.") for key in line.settings):
        return False
    return any(_system(run.config) == _preset(name, tuple(line.settings.items())) for name in line.presets)


@cache
def _preset(name: str, settings: tuple[tuple[str, str], ...]) -> tuple[Any, ...]:
    return _system(to_dict(override(presets.preset(name), dict(settings))))


def _system(config: Mapping[str, Any]) -> tuple[Any, ...]:
    text = config.get("text", {})
    return config.get("model"), config.get("objective"), text.get("sentence"), text.get("drop_components")


def to_markdown(lines: Sequence[PublishedRow]) -> str:
    """Every line under the table it is from, with remarks on its numbers below."""
    tables: dict[tuple[str, ...], list[PublishedRow]] = {}
    for line in lines:
        tables.setdefault((line.paper, line.table, line.train, line.test, line.protocol), []).append(line)
    blocks = []
    for (paper, table, train, test, protocol), block in tables.items():
        trained = "" if train == test else f", trained on {train}"
        title = f"{PAPERS[paper].name}, Table {table}: {SETTINGS[protocol].about}{trained}"
        metrics = [column.metric for column in COLUMNS if any(column.metric in line.numbers for line in block)]
        rows = [_cells(line, metrics) for line in block]
        blocks.append({"title": title, "metrics": metrics, "rows": rows, "notes": _notes(block)})
    return render("published.md", file=FILE, count=sum(len(line.numbers) for line in lines), blocks=blocks)


def _cells(line: PublishedRow, metrics: Sequence[str]) -> list[str]:
    here = [f"`{name}`" for name in line.presets] + [f"`{key}={value}`" for key, value in line.settings.items()]
    values = [line.numbers[metric].printed if metric in line.numbers else "" for metric in metrics]
    system = line.system + (f" ({line.citation})" if line.citation else "")
    return [system, " ".join(here) or "–", _images(line), line.text_encoder, *values]


def _notes(lines: Sequence[PublishedRow]) -> dict[str, list[str]]:
    """Remark -> the systems it is on, with the metrics if it is not on all of a system's numbers."""
    notes: dict[str, list[str]] = {}
    for line in lines:
        for note in dict.fromkeys(number.note for number in line.numbers.values() if number.note):
            of = [metric for metric, number in line.numbers.items() if number.note == note]
            which = "" if len(of) == len(line.numbers) else f", {' and '.join(of)}"
            notes.setdefault(note, []).append(line.system + which)
    return notes


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(to_markdown(read_published()), encoding="utf-8")
