"""What an evaluation found, as a terminal shows it: what is read first stands first, and every number once."""

from collections.abc import Iterator, Mapping

from vse.report.order import RETRIEVAL, grouped, parts
from vse.stages.measuring.options import Size

_RANKS = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "medr": "medr", "meanr": "meanr"}
_ATTACKED = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "pair_accuracy": "pairs"}
_GAP = 10  # characters a column


def lines(metrics: Mapping[str, float], sizes: Mapping[str, Size]) -> Iterator[str]:
    """For every split a headline with its size, rsum, retrieval both ways and a line an attack; then all other metrics
    by name."""
    told: set[str] = set()
    for head in dict.fromkeys(parts(name)[0] for name in metrics):
        plain = [f"{head}/{tail}" for tail in RETRIEVAL if f"{head}/{tail}" in metrics]
        attacks = [name.rpartition("/")[0] for name in metrics if name.startswith(f"{head}/attack_")]
        attacks = [name for name in _ordered(attacks) if f"{name}/r1" in metrics]
        if not head or not plain:
            continue
        yield f"{head}: {told_size(sizes[head])}; percent" if head in sizes else f"{head}: percent"
        label = max(len(text) for text in ("attack", *(name.removeprefix(f"{head}/attack_") for name in attacks))) + 2
        if f"{head}/rsum" in metrics:
            yield f"  {'rsum':{label}}{metrics[f'{head}/rsum']:{_GAP}.1f}"
        ways = [f"{head}/{way}" for way in ("i2t", "t2i") if f"{head}/{way}/r1" in metrics]
        yield from _table("", ways, f"{head}/", _RANKS, label, metrics)
        yield from _table("attack", attacks, f"{head}/attack_", _ATTACKED, label, metrics)
        told |= {*plain, *(f"{name}/{metric}" for name in attacks for metric in _ATTACKED)}
    others = [name for names in grouped(metrics).values() for name in names if name not in told]
    width = max(map(len, others), default=0)
    for name in others:
        yield f"{name:{width}}  {metrics[name]:8.3f}"


def told_size(size: Size) -> str:
    """300 images, 1,466 captions."""
    counts = f"{size.images:,} images, {size.captions:,} captions"
    return counts if size.folds == 1 else f"{counts} in {size.folds} folds"


def _ordered(attacks: list[str]) -> list[str]:
    """Attacks once each, in the order of their metrics."""
    names = [name for found in grouped(f"{attack}/r1" for attack in attacks).values() for name in found]
    return [name.removesuffix("/r1") for name in names]


def _table(
    title: str, rows: list[str], prefix: str, columns: Mapping[str, str], label: int, metrics: Mapping[str, float]
) -> Iterator[str]:
    if rows:
        yield f"  {title:{label}}" + "".join(f"{text:>{_GAP}}" for text in columns.values())
    for row in rows:
        cells = (metrics.get(f"{row}/{metric}") for metric in columns)
        shown = "".join(f"{'–' if value is None else f'{value:.1f}':>{_GAP}}" for value in cells)
        yield f"  {row.removeprefix(prefix):{label}}{shown}"
