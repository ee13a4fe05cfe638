"""A status as people read it: one screen with a table on a terminal, plain lines elsewhere."""

import io
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from vse.display.escaping import one_line, raw
from vse.status.overview import Line, Status
from vse.workspace.redaction import redact_text

COLUMNS = ("state", "what", "preset", "how far", "left", "speed", "rsum", "CPU h", "GPU h", "last sign", "")
_URGENCY = {"running": 0, "silent": 1, "stopped": 2, "failed": 3, "killed": 4, "finished": 5}
_STYLES = {"running": "bold green", "silent": "yellow", "stopped": "yellow", "failed": "bold red", "killed": "yellow"}
_STYLES |= {"finished": "dim"}
_DISPENSABLE = ("last sign", "CPU h", "rsum", "speed", "GPU h", "preset")  # on a narrow terminal, in this order
_FAILURES = 8
_PRESET = 32  # characters: it may be a path


def chosen(lines: Iterable[Line], rows: int) -> tuple[list[Line], int]:
    """The lines that fit, most urgent first, then latest; and how many do not. Sweeps come before their runs."""
    kinds = {"sweep": 0, "stage": 1, "run": 2}
    ordered = sorted(lines, key=lambda line: (_URGENCY[line.state], kinds[line.kind], line.age))
    return ordered[:rows], max(0, len(ordered) - rows)


def cells(line: Line) -> tuple[str, ...]:
    """A line as text, by `COLUMNS`."""
    far = f"{line.done}" + (f"/{line.total}" if line.total is not None else "") + f" {line.unit}"
    told = (
        line.state,
        line.name,
        line.preset,
        far,
        "" if line.left is None else clock(line.left),
        speed(line),
        "" if line.score is None else f"{line.score:.1f}",
        f"{line.cpu_hours:.3g}",
        f"{line.gpu_hours:.3g}",
        f"{clock(line.age)} ago",
        line.note,
    )
    return tuple(map(one_line, told))


def speed(line: Line) -> str:
    """How fast it goes on, in what it counts."""
    if line.speed is not None:
        return f"{line.speed:,.0f} captions/s"
    if not line.each:
        return ""
    one = line.unit.split()[-1].removesuffix("s")
    if line.each < 1:
        return f"{1 / line.each:.3g} {one}s/s"
    if line.each < 100:
        return f"{line.each:.3g} s/{one}"
    return f"{clock(line.each)} min/{one}" if line.each < 3600 else f"{line.each / 3600:.3g} h/{one}"


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
    """The lines and failures as text. `size`: (columns, rows) of the terminal; plain text has all lines."""
    if not terminal:
        shown, _ = chosen(status.lines, len(status.lines))
        rows = ["  ".join(filter(None, (_named(line), line.note))) for line in shown]
        rows += [f"failed {where}: {why}" for where, why in status.failures]
        return redact_text("\n".join(map(one_line, rows)))
    from rich.console import Console

    width, height = size or tuple(shutil.get_terminal_size())
    failures = status.failures[-_FAILURES:]
    shown, hidden = chosen(status.lines, max(3, height - len(failures) - 5))
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


def _named(line: Line) -> str:
    """A line for those who read without a table: every number says what it is."""
    state, name, preset, far, left, fast, score, cpu, gpu, age, _ = cells(line)
    parts = [f"{state} {line.kind} {name}{f' ({preset})' * bool(preset)}: {far}"]
    parts += [f"{left} left"] * bool(left) + [fast] * bool(fast) + [f"best rsum {score}"] * bool(score)
    parts += [f"{cpu} CPU-hours", f"{gpu} GPU-hours"] if line.kind != "stage" else []
    return ", ".join([*parts, f"last sign {age}"])


def _table(lines: Sequence[Line], width: int) -> Any:
    """As many columns as there is room for; notes get what the others leave."""
    from rich.table import Table

    rows = [cells(line) for line in lines]
    widths = {name: max(map(len, column)) + 2 for name, *column in zip(COLUMNS, COLUMNS, *rows, strict=True)}
    room = {name: wide for name, wide in widths.items() if name}
    room["preset"] = min(room["preset"], _PRESET + 2)
    if not any(line.preset for line in lines):
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
    for line, row in zip(lines, rows, strict=True):
        table.add_row(*(_plain(row[COLUMNS.index(name)]) for name in room), style=_STYLES[line.state])
    return table


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(one_line(text))
