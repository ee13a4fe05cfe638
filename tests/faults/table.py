"""The rows of a campaign as a Markdown table for the README."""

from collections.abc import Sequence
from statistics import median
from typing import Any

HEAD = (
    "killed",
    "runs",
    "stages met",
    "looks that found none alive",
    "restarts",
    "cost in seconds: median, most",
    "the same",
)


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """One line a kind of victim and scenario; `rows` as `campaign.read_rows` gives them."""
    lines = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    for scenario, victim in dict.fromkeys((row["scenario"], row["victim"]) for row in rows):
        own = [row for row in rows if (row["scenario"], row["victim"]) == (scenario, victim)]
        met = [row for row in own if row["alive"] or row["verdict"] == "differs"]
        stages = ", ".join(sorted({row["stage"] for row in met})) or "none"
        cost = [row["cost_seconds"] for row in met]
        cells = (
            f"{victim} ({scenario})",
            str(len(met)),
            stages,
            str(sum(len(row["not_alive_at"]) for row in own)),
            str(sum(row["restarts"] for row in met)),
            f"{median(cost):.0f}, {max(cost):.0f}" if cost else "",
            f"{sum(row['verdict'] == 'the same' for row in met)} of {len(met)}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
