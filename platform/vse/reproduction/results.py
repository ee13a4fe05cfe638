"""The numbers of reproduced tables: each cell with its 95 % interval, and which orders of rows are as printed."""

import itertools
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vse.config import fingerprint
from vse.evaluation.intervals import interval
from vse.evaluation.metrics import Metric
from vse.evaluation.outcomes import Outcomes, unpack
from vse.evaluation.statistics import Bootstrap, Sample, bootstrap_all
from vse.report.measured import alike
from vse.reproduction.arrangement import Block, TableRow, about_scale
from vse.reproduction.catalogue import ATTACK_SUMS, TOTAL, PaperTable, metric_of
from vse.reproduction.claims import CLAIMS, SEEDS, Difference, registered_hash, verdicts
from vse.reproduction.options import ReproduceOptions
from vse.workspace.layout import Workspace

REPLICATES = 2000
Trials = Mapping[str, Sequence[Mapping[str, Any]]]
"""By arm, the results of its trials, one for each seed."""


def results_of(
    options: ReproduceOptions,
    blocks: Sequence[Block],
    trials: Trials,
    missing: Mapping[str, str],
    workspace: Workspace,
    elsewhere: Sequence[str],
) -> dict[str, Any]:
    """Plain data of all tables.

    Args:
        options: Keys of the job.
        blocks: The blocks of all tables.
        trials: Of arms whose seeds have all finished.
        missing: Why other arms have no numbers.
        workspace: With the outcomes of queries.
        elsewhere: Arguments of commands that name the workspace.
    """
    tables, filled = [], [_Filled(block, trials, missing, workspace) for block in blocks]
    for table in {block.table.number: block.table for block in blocks}.values():
        own = [one.plain(elsewhere) for one in filled if one.block.table is table]
        tables.append(
            {"name": table.name, "title": table.title, "notes": notes_of(table, options.scale, own), "blocks": own}
        )
    seeds = list(range(options.seeds))
    about = {"scale": options.scale, "about": about_scale(options), "seeds": seeds, "set": list(options.set)}
    numbers = [table.number for table in {block.table.number: block.table for block in blocks}.values()]
    claims = verdicts(options.paper, numbers, lambda table, one: _effect(filled, table, one))
    return {
        "paper": options.paper,
        **about,
        "claims_hash": registered_hash(options.paper),
        "registered": len(CLAIMS.get(options.paper, ())),
        "seeds_needed": SEEDS,
        "claims": claims,
        "tables": tables,
    }


def notes_of(table: PaperTable, scale: str, blocks: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a page says of a table: its protocol, and what is missing.

    Args:
        table: The table.
        scale: A key of `options.SCALES`.
        blocks: Its blocks as plain data.
    """
    measured = {
        name for block in blocks for row in block["rows"] for name, cell in row["cells"].items() if cell["ours"]
    }
    lacks = [f"Not available here: {lack}." for lack in [table.lacks.get(scale)] if lack]
    needs = [f"Not measured here: {text}." for metric, text in table.needs.items() if metric not in measured]
    return [*table.notes(scale), *lacks, *needs]


class _Measured:
    """What was measured of a row, over its seeds."""

    def __init__(self, row: TableRow, results: Sequence[Mapping[str, Any]], workspace: Workspace, words: str) -> None:
        assert row.measurement is not None
        self.row, self.words, options = row, words, row.measurement.options
        self.each = [result["measured"][row.measurement.digits] for result in results]
        self.tasks = {name: options.task(name) for name in row.measurement.tasks}
        self.runs = [result["run"] for result in results]
        self._tables: list[dict[str, Outcomes]] = []
        for result, measured in zip(results, self.each, strict=True):
            folder = workspace.run(result["run"]).child("evaluation")
            files = {task: unpack(folder.read_bytes(file))[0] for task, file in measured["tables"].items()}
            joined = dict[str, Outcomes]()
            for by_split in files.values():
                for outcomes in by_split.values():
                    joined[""] = joined.get("", Outcomes()) | outcomes
            self._tables.append(joined)

    def met(self) -> dict[str, str]:
        """Fingerprints of the data and adversaries behind the numbers."""
        return {
            f"{task} {key}" if key == "content" else key: digits
            for task, labels in self.each[0]["met"].items()
            for prints in labels.values()
            for key, digits in prints.items()
        }

    def values(self, metric: Metric) -> list[float]:
        """By seed; empty if it was not measured."""
        values = []
        for measured in self.each:
            numbers = {
                k: v for labels in measured["values"].values() for each in labels.values() for k, v in each.items()
            }
            parts = metric.terms if metric.name == TOTAL else (metric.name,)
            if all(part in numbers for part in parts):
                values.append(sum(numbers[part] for part in parts))
        return values if len(values) == len(self.each) else []

    def samples(self, metric: Metric) -> list[Sample]:
        """Whose sum is the metric; empty if nothing was recorded of it."""
        terms = [tables[""].terms(metric) if "" in tables else [] for tables in self._tables]
        if not terms or not all(terms):
            return []
        first = [units for units, _, _ in terms[0]]
        if any([units for units, _, _ in each] != first for each in terms):
            return []
        samples = [
            Sample(hits=np.stack([hits for _, hits, _ in each]), queries=each[0][2], images=fingerprint(each[0][0]))
            for each in zip(*terms, strict=True)
        ]
        return samples if all(sample.defined for sample in samples) else []


class _Filled:
    """A block with what was measured of its rows, and why others have no numbers."""

    def __init__(self, block: Block, trials: Trials, missing: Mapping[str, str], workspace: Workspace) -> None:
        self.block, self.reasons = block, {k: row.reason for k, row in enumerate(block.rows)}
        self.measured = measured = dict[int, _Measured]()
        for place, row in enumerate(block.rows):
            if row.measurement is None:
                continue
            if row.arm not in trials:
                self.reasons[place] = missing.get(row.arm, "not trained")
                continue
            one = _Measured(row, trials[row.arm], workspace, block.words)
            if lacks := [text for each in one.each for text in each["missing"].values()]:
                self.reasons[place] = f"n/a: needs {lacks[0]}"
            else:
                measured[place] = one
        groups = alike(list(measured), lambda place: measured[place].met())
        kept = max(groups, key=len, default=[])
        for place in set(measured) - set(kept):
            self.reasons[place] = "left out: its images or candidates are not those of the other rows"
            del measured[place]

    def plain(self, elsewhere: Sequence[str]) -> dict[str, Any]:
        """The block as plain data."""
        block, measured = self.block, self.measured
        metrics = {name: metric_of(name, block.words) for name in block.metrics}
        cells = _cells(block, measured, metrics)
        rows = [
            {
                "label": row.label,
                "about": row.about,
                "reason": self.reasons.get(place, ""),
                "runs": measured[place].runs if place in measured else [],
                "command": _command(measured[place], elsewhere) if place in measured else "",
                "cells": {
                    name: {
                        "printed": row.printed[name].printed if name in row.printed else None,
                        "note": row.printed[name].note if name in row.printed else "",
                        "ours": cells.get((place, name)),
                    }
                    for name in metrics
                },
            }
            for place, row in enumerate(block.rows)
        ]
        columns = [
            {
                "metric": name,
                "title": metric.heading,
                "group": metric.group or "plain",
                "least": metric.higher_is_better is False,
                "decimals": metric.decimals,
            }
            for name, metric in metrics.items()
        ]
        return {"about": block.about, "columns": columns, "rows": rows, "orders": _orders(block, measured, metrics)}

    def samples(self, label: str, metric: str) -> list[Sample]:
        """Whose sum is the metric of a row; empty if it has none."""
        for place, row in enumerate(self.block.rows):
            if row.label != label:
                continue
            if place in self.measured:
                return self.measured[place].samples(metric_of(metric, self.block.words, row.head))
            if row.derived is not None and self.measured:
                first = next(iter(self.measured.values()))
                other = _derived(first, metric, *row.derived)
                return [] if other is None else first.samples(other)
        return []

    def printed(self, label: str, metric: str) -> float | None:
        """The printed number of a row; that of all attacks together may be printed one by one."""
        numbers = next((row.printed for row in self.block.rows if row.label == label), {})
        parts = ATTACK_SUMS if metric == TOTAL and metric not in numbers else (metric,)
        return sum(numbers[part].value for part in parts) if all(part in numbers for part in parts) else None


def _effect(
    filled: Sequence[_Filled], table: str, one: Difference
) -> tuple[list[tuple[float, Sample]], float | None] | str:
    """The effect of a difference, in the first block of the table that has both rows; or why there is none."""
    reason, labels = f"{one.metric}: its table has no such rows", (one.better, one.worse)
    for each in filled:
        if each.block.table.number != table:
            continue
        samples = {label: each.samples(label, one.metric) for label in labels}
        if unmeasured := [label for label, found in samples.items() if not found]:
            reason = f"{one.metric} of {' and '.join(unmeasured)} was not measured"
        elif not _same(samples[one.better], samples[one.worse]):
            reason = f"{one.metric} of {one.better} and {one.worse} was measured on different images"
        else:
            better, worse = (each.printed(label, one.metric) for label in labels)
            difference = None if better is None or worse is None else round(better - worse, 4)
            signs = zip((1.0, -1.0), labels, strict=True)
            return [(sign, each) for sign, label in signs for each in samples[label]], difference
    return reason


def _cells(
    block: Block, measured: Mapping[int, _Measured], metrics: Mapping[str, Metric]
) -> dict[tuple[int, str], list[float | None]]:
    """[value, low, high] by row and metric; an interval needs outcomes of queries or several seeds."""
    cells: dict[tuple[int, str], list[float | None]] = {}
    effects = dict[tuple[int, str], list[tuple[float, Sample]]]()
    for place, one in measured.items():
        for name in metrics:
            metric = metric_of(name, block.words, one.row.head)
            if values := one.values(metric):
                half = interval(values).half
                mean = float(np.mean(values))
                cells[place, name] = [mean, mean - half, mean + half] if len(values) > 1 else [mean, None, None]
                if samples := one.samples(metric):
                    effects[place, name] = [(1.0, sample) for sample in samples]
    for key, result in zip(effects, _bootstrap(list(effects.values())), strict=True):
        cells[key][1:] = result.interval()
    for place, row in enumerate(block.rows):
        if row.derived is not None and measured:
            first = next(iter(measured.values()))
            part, instead = row.derived
            for name, metric in metrics.items():
                other = _derived(first, metric.name, part, instead)
                if values := first.values(other) if other is not None else []:
                    cells[place, name] = [float(np.mean(values)), None, None]
    return {key: [None if v is None else round(v, 4) for v in each] for key, each in cells.items()}


def _derived(one: _Measured, name: str, part: str, instead: str) -> Metric | None:
    """The metric that stands for another one: chance, or other word vectors."""
    if "{glove}" in instead:
        labels = [label for task in one.tasks.values() for label in getattr(task, "labels", ())]
        instead = instead.format(glove=labels[1]) if len(labels) > 1 else instead
    wanted = name.replace(part, instead)
    return next((m for task in one.tasks.values() for m in task.metrics if m.name == wanted), None)


def _orders(
    block: Block, measured: Mapping[int, _Measured], metrics: Mapping[str, Metric]
) -> dict[str, dict[str, int]]:
    """By metric, how many pairs of rows are as printed, contrary, or undecided, by a paired bootstrap."""
    pairs, effects = list[tuple[str, float]](), list[list[tuple[float, Sample]]]()
    for name in metrics:
        printed = {k: block.rows[k].printed[name].value for k in measured if name in block.rows[k].printed}
        samples = {k: measured[k].samples(metric_of(name, block.words, block.rows[k].head)) for k in printed}
        for a, b in itertools.combinations(printed, 2):
            if printed[a] != printed[b] and samples[a] and samples[b] and _same(samples[a], samples[b]):
                effects.append([*((1.0, each) for each in samples[a]), *((-1.0, each) for each in samples[b])])
                pairs.append((name, np.sign(printed[a] - printed[b])))
    counts: dict[str, dict[str, int]] = {}
    for (name, sign), result in zip(pairs, _bootstrap(effects), strict=True):
        low, high = result.interval()
        state = "undecided" if low <= 0 <= high else "as_printed" if (low > 0) == (sign > 0) else "contrary"
        counts.setdefault(name, {"as_printed": 0, "contrary": 0, "undecided": 0})[state] += 1
    return counts


def _same(one: Sequence[Sample], other: Sequence[Sample]) -> bool:
    return [each.images for each in one] == [each.images for each in other]


def _bootstrap(effects: Sequence[list[tuple[float, Sample]]]) -> list[Bootstrap]:
    return bootstrap_all(effects, replicates=REPLICATES) if effects else []


def _command(one: _Measured, elsewhere: Sequence[str]) -> str:
    """The command that measures the numbers of a row."""
    assert one.row.measurement is not None
    return " && ".join(
        shlex.join(["python", "jobs/evaluate.py", f"run={run}", *one.row.measurement.arguments, *elsewhere])
        for run in one.runs
    )
