"""Pages from templates: self-contained HTML files that load nothing."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from vse.display.escaping import visible
from vse.workspace.provenance import environment


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """How results can be reproduced: commands, settings as dotted keys, versions, and further facts."""

    commands: Sequence[str]
    configuration: Mapping[str, Mapping[str, Any]]
    versions: Mapping[str, str]
    facts: Mapping[str, str] = field(default_factory=dict)


def provenance(
    commands: Sequence[str], configuration: Mapping[str, Mapping[str, Any]], facts: Mapping[str, str] | None = None
) -> Provenance:
    """Provenance with the versions, the machine and the commit of this process.

    Args:
        commands: Commands that reproduce the results.
        configuration: Settings as dotted keys, under a heading each, such as the name of a run.
        facts: Further lines by label, which stand before the machine; None for no others.
    """
    around = environment()
    hardware, commit = around["hardware"], around["git"].get("commit")
    machine = {"machine": f"{hardware['processor']}, {hardware['cores']} cores, {hardware['memory_gib']} GiB"}
    machine |= {"GPUs": ", ".join(hardware["gpus"]) or "none"} | ({"commit": commit} if commit else {})
    return Provenance(
        commands=commands, configuration=configuration, versions=around["versions"], facts={**(facts or {}), **machine}
    )


def render(template: str, **context: Any) -> str:
    """A template with its context. Everything from data is escaped, and its control characters are shown as text."""
    return visible(_templates().get_template(template).render(context))


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("vse.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    tests: dict[str, Any] = templates.tests
    tests["nan"] = math.isnan
    templates.filters |= {"signed": signed, "json": json.dumps}
    return templates


def signed(value: float, decimals: int = 1) -> str:
    """A number with its sign; zero after rounding has no sign."""
    rounded = round(value, decimals)
    return f"{rounded:{'+' if rounded else 'z'}.{decimals}f}".replace("-", "−")
