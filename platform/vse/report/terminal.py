"""The results of an evaluation for a terminal: a table for each split and task."""

from collections.abc import Iterator, Mapping, Sequence

from vse.display.counts import count
from vse.report.measured import MetricKey, grouped
from vse.stages.measuring.options import Size

_COLUMNS = 7  # of a table, at most; more follow in another
_INTERVAL = "  95 % interval"


Interval = tuple[float, float]


def lines(
    values: Mapping[MetricKey, float],
    sizes: Mapping[str, Size],
    lacking: Mapping[str, str],
    intervals: Mapping[MetricKey, Interval] | None = None,
) -> Iterator[str]:
    """The lines of the tables.

    Args:
        values: What was measured.
        sizes: Images and captions, by label.
        lacking: What is missing for a task, by its name.
        intervals: Of some of the values, at 95 %.
    """
    intervals = intervals or {}
    for label in dict.fromkeys(key.label for key in values):
        yield f"{label}: {size_text(sizes[label])}" if label in sizes else label
        for keys in grouped(key for key in values if key.label == label).values():
            alone = [key for key in keys if not key.metric.group]
            yield from (
                f"  {key.metric.heading:20}{_shown(key, values[key]):>10}{_between(key, intervals, '  [{}, {}]')}"
                for key in alone
            )
            yield from _table([key for key in keys if key.metric.group], values, intervals)
    yield from (f"{task}: n/a: needs {needs}" for task, needs in lacking.items())


def size_text(size: Size) -> str:
    """300 images, 1,466 captions."""
    counts = f"{count(size.images, 'image')}, {count(size.captions, 'caption')}"
    return counts if size.folds == 1 else f"{counts} in {size.folds} folds"


def _table(
    keys: Sequence[MetricKey], values: Mapping[MetricKey, float], intervals: Mapping[MetricKey, Interval]
) -> Iterator[str]:
    """A row for each group of metrics and a column for each heading, and intervals below the row."""
    cells = {(key.metric.group, key.metric.heading): _shown(key, values[key]) for key in keys}
    below = {
        (key.metric.group, key.metric.heading): _between(key, intervals, "{}–{}") for key in keys if key in intervals
    }
    groups, headings = (dict.fromkeys(cell[place] for cell in cells) for place in (0, 1))
    first = max([len(_INTERVAL) if below else 0, *map(len, groups)]) + 2
    for start in range(0, len(headings), _COLUMNS):
        columns = [*headings][start : start + _COLUMNS]
        widths = {h: max(len(h), 6, *(len(text) for (_, of), text in below.items() if of == h), 0) + 2 for h in columns}
        title = keys[0].task.replace("_", " ")
        yield f"  {title:{first}}" + "".join(f"{heading:>{widths[heading]}}" for heading in columns)
        for group in groups:
            yield f"  {group:{first}}" + "".join(f"{cells.get((group, h), '–'):>{widths[h]}}" for h in columns)
            if any((group, h) in below for h in columns):
                yield f"  {_INTERVAL:{first}}" + "".join(f"{below.get((group, h), ''):>{widths[h]}}" for h in columns)


def _shown(key: MetricKey, value: float) -> str:
    return f"{value:z.{key.metric.decimals}f}"


def _between(key: MetricKey, intervals: Mapping[MetricKey, Interval], form: str) -> str:
    """The ends of an interval; empty if there is none."""
    return form.format(*(_shown(key, end) for end in intervals[key])) if key in intervals else ""
