"""The report of an α sweep: figure, tables and page, written beside its results or wherever they are asked for."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from vse.command import Request
from vse.environment import environment
from vse.report.curve import AlphaResults
from vse.storage import Folder
from vse.sweeps.ledger import Ledger

SPLIT = "test"


def write_report(
    folder: Folder,
    results: AlphaResults,
    request: Request | None,
    configuration: Mapping[str, Mapping[str, Any]],
    facts: Mapping[str, str],
    commands: tuple[str, ...] = (),
) -> list[str]:
    """Write alpha.png, alpha.svg, table.csv, table.json, table.html, curve.csv and report.html; returns their names."""
    from vse.report.figures import alpha_figure
    from vse.report.html import Provenance, alpha_page
    from vse.report.tables import alpha_table, curve_csv

    figure, table, around = alpha_figure(results, SPLIT), alpha_table(results, SPLIT), environment()
    hardware = around["hardware"]
    machine = f"{hardware['processor']}, {hardware['cores']} cores, {hardware['memory_gib']} GiB"
    shown = {**facts, "machine": machine, "GPUs": ", ".join(hardware["gpus"]) or "none"}
    if around["git"].get("commit"):
        shown["commit"] = around["git"]["commit"]
    made = Provenance(
        commands=commands or (command_of(request),) if request is not None else commands,
        configuration=configuration,
        versions=around["versions"],
        facts=shown,
    )
    files = {
        "alpha.png": figure["png"],
        "alpha.svg": figure["svg"],
        "table.csv": table.to_csv().encode(),
        "table.json": (json.dumps(table.to_data(), indent=1, ensure_ascii=False) + "\n").encode(),
        "table.html": table.to_html().encode(),
        "curve.csv": curve_csv(results).encode(),
        "report.html": alpha_page(results, table, figure["png"], made).encode(),
    }
    for name, data in files.items():
        folder.write_bytes(name, data)
    return [*files, "results.json"] if folder.exists("results.json") else list(files)


def command_of(request: Request) -> str:
    """The command that makes the same again, in an empty workspace or in this one."""
    from vse.config import flatten

    values = {**flatten(request.options), **(flatten(request.config) if request.config is not None else {})}
    parts = ["python", f"jobs/{request.job}.py"]
    if request.preset is not None:
        parts += ["--preset", request.preset]
    parts += [f"{key}={_typed(values[key])}" for key in sorted(request.changed) if key in values]
    return shlex.join(parts)


def _typed(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, bool) or value is None else str(value)


def facts_of(ledger: Ledger) -> dict[str, str]:
    """What the trials cost."""
    seconds: dict[str, list[float]] = {}
    for entry in ledger:
        if entry.state == "finished":
            kind = str(entry.changes.get("arm", "")) if entry.changes["kind"] == "train" else ""
            seconds.setdefault(f"{entry.changes['kind']} {kind}".strip(), []).append(entry.seconds)
    return {
        f"{kind} trials": f"{len(spent)}, {sum(spent) / len(spent):.1f} s each on average"
        for kind, spent in seconds.items()
    }
