"""What an evaluation found, as a terminal shows it: a table for each split and task, and every number once."""

from collections.abc import Iterator, Mapping, Sequence

from vse.report.measured import MetricKey, grouped
from vse.stages.measuring.options import Size

_COLUMNS = 7  # of a table, at most; more follow in another


def lines(values: Mapping[MetricKey, float], sizes: Mapping[str, Size], lacking: Mapping[str, str]) -> Iterator[str]:
    """The lines of the tables.

    Args:
        values: What was measured.
        sizes: How much it was measured on, by label.
        lacking: What is lacking of what a task needs, by the task's name.
    """
    for label in dict.fromkeys(key.label for key in values):
        yield f"{label}: {told_size(sizes[label])}" if label in sizes else label
        for keys in grouped(key for key in values if key.label == label).values():
            alone = [key for key in keys if not key.metric.group]
            yield from (f"  {key.metric.heading:20}{_shown(key, values):>10}" for key in alone)
            yield from _table([key for key in keys if key.metric.group], values)
    yield from (f"{task}: n/a: needs {needs}" for task, needs in lacking.items())


def told_size(size: Size) -> str:
    """300 images, 1,466 captions."""
    counts = f"{size.images:,} images, {size.captions:,} captions"
    return counts if size.folds == 1 else f"{counts} in {size.folds} folds"


def _table(keys: Sequence[MetricKey], values: Mapping[MetricKey, float]) -> Iterator[str]:
    """A row for each group of metrics and a column for each heading."""
    cells = {(key.metric.group, key.metric.heading): _shown(key, values) for key in keys}
    groups, headings = (dict.fromkeys(cell[place] for cell in cells) for place in (0, 1))
    first = max(map(len, groups), default=0) + 2
    for start in range(0, len(headings), _COLUMNS):
        columns = [*headings][start : start + _COLUMNS]
        title = keys[0].task.replace("_", " ")
        yield f"  {title:{first}}" + "".join(f"{heading:>{_width(heading)}}" for heading in columns)
        for group in groups:
            yield f"  {group:{first}}" + "".join(f"{cells.get((group, h), '–'):>{_width(h)}}" for h in columns)


def _width(heading: str) -> int:
    return max(len(heading), 6) + 2


def _shown(key: MetricKey, values: Mapping[MetricKey, float]) -> str:
    return f"{values[key]:.{key.metric.decimals}f}"
