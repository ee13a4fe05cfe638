"""A status as text: one screen with a table on a terminal, plain lines elsewhere."""

import io
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from vse.display.escaping import one_line, raw
from vse.status.overview import Status, StatusRow
from vse.workspace.redaction import redact_text

COLUMNS = ("state", "what", "preset", "how far", "left", "speed", "rsum", "CPU h", "GPU h", "last sign", "")
_URGENCY = {"running": 0, "silent": 1, "stopped": 2, "failed": 3, "killed": 4, "finished": 5}
_STYLES = {"running": "bold green", "silent": "yellow", "stopped": "yellow", "failed": "bold red", "killed": "yellow"}
_STYLES |= {"finished": "dim"}
_DISPENSABLE = ("last sign", "CPU h", "rsum", "speed", "GPU h", "preset")  # on a narrow terminal, in this order
_FAILURES = 8
_PRESET = 32  # characters; the preset may be a path


def chosen(rows: Iterable[StatusRow], most: int) -> tuple[list[StatusRow], int]:
    """The `most` urgent rows, then the latest, and how many are left out. Sweeps come before their runs."""
    kinds = {"sweep": 0, "stage": 1, "run": 2}
    ordered = sorted(rows, key=lambda row: (_URGENCY[row.state], kinds[row.kind], row.age))
    return ordered[:most], max(0, len(ordered) - most)


def cells(row: StatusRow) -> tuple[str, ...]:
    """A row as text, by `COLUMNS`."""
    far = f"{row.done}" + (f"/{row.total}" if row.total is not None else "") + f" {row.unit}"
    texts = (
        row.state,
        row.name,
        row.preset,
        far,
        "" if row.left is None else clock(row.left),
        speed(row),
        "" if row.score is None else f"{row.score:.1f}",
        f"{row.cpu_hours:.3g}",
        f"{row.gpu_hours:.3g}",
        f"{clock(row.age)} ago",
        row.note,
    )
    return tuple(map(one_line, texts))


def speed(row: StatusRow) -> str:
    """Units a second, or time for a unit."""
    if row.speed is not None:
        return f"{row.speed:,.0f} captions/s"
    if not row.pace:
        return ""
    one = row.unit.split()[-1].removesuffix("s")
    if row.pace < 1:
        return f"{1 / row.pace:.3g} {one}s/s"
    if row.pace < 100:
        return f"{row.pace:.3g} s/{one}"
    return f"{clock(row.pace)} min/{one}" if row.pace < 3600 else f"{row.pace / 3600:.3g} h/{one}"


def summary(status: Status) -> str:
    """Counts, costs and the spool in one line."""
    counts = []
    for kind, plural in (("sweep", "sweeps"), ("run", "runs"), ("stage", "stages")):
        states = status.count(kind)
        if states:
            counts.append(f"{plural}: " + ", ".join(f"{states[s]} {s}" for s in _URGENCY if states[s]))
    cpu, gpu = status.cost
    counts.append(f"{cpu:.3g} CPU-hours and {gpu:.3g} GPU-hours")
    if status.spooled:
        counts.append(f"{status.spooled} runs wait for MLflow")
    return redact_text(f"{status.workspace}: " + "; ".join(counts))


def render(status: Status, *, terminal: bool, size: tuple[int, int] | None = None) -> str:
    """Rows and failures as text: a table as large as the terminal, or plain lines with all rows.

    Args:
        status: What is shown. Without room for all rows, the most urgent ones are, and the others are counted.
        terminal: Whether the text may have colours and must fit a screen.
        size: (columns, lines) of the terminal; None reads it from the environment. Plain text ignores it.
    """
    if not terminal:
        shown, _ = chosen(status.rows, len(status.rows))
        lines = ["  ".join(filter(None, (_named(row), row.note))) for row in shown]
        lines += [f"failed {where}: {why}" for where, why in status.failures]
        return redact_text("\n".join(map(one_line, lines)))
    from rich.console import Console

    width, height = size or tuple(shutil.get_terminal_size())
    failures = status.failures[-_FAILURES:]
    shown, hidden = chosen(status.rows, max(3, height - len(failures) - 5))
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, highlight=False)
    console.print(_table(shown, width))
    if hidden:
        console.print(f"and {hidden} more", style="dim")
    for where, why in failures:
        console.print(f"[bold red]failed[/] {_plain(where)}: {_plain(why)}", overflow="ellipsis", no_wrap=True)
    if len(status.failures) > len(failures):
        console.print(f"and {len(status.failures) - len(failures)} more failures", style="dim")
    return redact_text(out.getvalue())


def show(status: Status) -> None:
    """Print the screen to stdout, over the one before on a terminal."""
    terminal = sys.stdout.isatty()
    screen = ("\x1b[H\x1b[2J" if terminal else "") + render(status, terminal=terminal).rstrip()
    print(screen, file=raw(sys.stdout), flush=True)


def clock(seconds: float) -> str:
    """90 -> 1:30; days from two of them on."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} days"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _named(row: StatusRow) -> str:
    """A row as a line in which every number has its name."""
    state, name, preset, far, left, fast, score, cpu, gpu, age, _ = cells(row)
    parts = [f"{state} {row.kind} {name}{f' ({preset})' * bool(preset)}: {far}"]
    parts += [f"{left} left"] * bool(left) + [fast] * bool(fast) + [f"best rsum {score}"] * bool(score)
    parts += [f"{cpu} CPU-hours", f"{gpu} GPU-hours"] if row.kind != "stage" else []
    return ", ".join([*parts, f"last sign {age}"])


def _table(shown: Sequence[StatusRow], width: int) -> Any:
    """As many columns as fit; notes get the remaining width."""
    from rich.table import Table

    texts = [cells(row) for row in shown]
    widths = {name: max(map(len, column)) + 2 for name, *column in zip(COLUMNS, COLUMNS, *texts, strict=True)}
    room = {name: wide for name, wide in widths.items() if name}
    room["preset"] = min(room["preset"], _PRESET + 2)
    if not any(row.preset for row in shown):
        del room["preset"]
    for name in _DISPENSABLE:
        if sum(room.values()) > width:
            room.pop(name, None)
    left_over = width - sum(room.values())
    if left_over > 12:
        room[""] = left_over
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in room:
        left, most = name in ("state", "what", "preset", ""), {"": left_over, "preset": _PRESET}.get(name)
        table.add_column(name, no_wrap=True, justify="left" if left else "right", max_width=most)
    for row, text in zip(shown, texts, strict=True):
        table.add_row(*(_plain(text[COLUMNS.index(name)]) for name in room), style=_STYLES[row.state])
    return table


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(one_line(text))
