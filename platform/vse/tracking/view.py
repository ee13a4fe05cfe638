"""The presentation of a run in MLflow: few tags, a description in Markdown, all other tags in a file.

The journal keeps all tags. Tags for filtering runs become tags of MLflow; the others go to the artifact
`environment.json`.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from vse.display.markdown import artifact, escaped
from vse.workspace.journal import JournalState
from vse.workspace.redaction import redact_text

# Tags for filtering runs. MLflow filters by parameters and data sets as well.
VISIBLE = (
    "kind",  # sweeps, trainings, trials, reports
    "preset",  # the system
    "git.commit",  # the code ...
    "git.dirty",  # ... and whether it was committed
    "version.code",  # the code without a repository
    "host",  # numbers may depend on the machine
    "sweep.space",
    "sweep.method",
    "sweep.objective",
    "sweep.seeds",
    "run",  # the training of a trial
    "attempts",  # of trials that were retried
)
ENVIRONMENT = "environment.json"
# The columns of the table of runs: a view that MLflow stores with the experiment and an address can name
VIEW_KEY = "vse"
VIEW: dict[str, Any] = {
    "searchFilter": "",
    "orderByKey": "attributes.start_time",
    "orderByAsc": False,
    "startTime": "ALL",
    "lifecycleFilter": "Active",
    "datasetsFilter": [],
    "modelVersionFilter": "All Runs",
    "selectedColumns": [
        "attributes.`Source`",
        "attributes.`Dataset`",
        "metrics.`best/val/rsum`",
        "metrics.`test/rsum`",
        "tags.`preset`",
    ],
}
# Sections of a description in their order; MLflow shows the first lines of a long one until it is unfolded
_TITLES = {"headline": "", "asked": "Asked", "result": "Result", "evaluation": "Evaluation", "commands": "Commands"}
_LINK = re.compile(r"\]\((artifact|run):([^)\s]*)\)")
_CUT = "\n\n… (shortened; the rest is in the files)"


def visible(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags for MLflow."""
    return {key: _plain(tags[key]) for key in VISIBLE if tags.get(key)}


def environment(tags: Mapping[str, str]) -> dict[str, str]:
    """All other tags, for `environment.json`."""
    return {key: _plain(value) for key, value in sorted(tags.items()) if key not in VISIBLE}


def description(state: JournalState, experiment: str, run_id: str, most: int) -> str:
    """The description of a run, with links to MLflow's pages.

    Sections have the order of `_TITLES`, texts of the same section the order of the journal.

    Args:
        state: content of the run's journal.
        experiment: MLflow's id of the experiment.
        run_id: MLflow's id of the run.
        most: limit of characters.
    """
    parts = []
    for kind, title in _TITLES.items():
        texts = [text for section, text in state.texts.items() if section.split()[0] == kind]
        parts += [f"**{title}**"] * bool(title and texts) + texts
    if state.notes:
        parts += ["**Notes**", "\n".join(f"- {escaped(note)}" for note in state.notes)]
    if summary := _environment(state.tags):
        parts += ["**Environment**", summary]

    def completed(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if kind == "artifact":
            return f"](#/experiments/{experiment}/runs/{run_id}/artifacts/{name})"
        query = quote(f"attributes.run_name = '{name}'", safe="")
        return f"](#/experiments/{experiment}/runs?workflowType=machine_learning&searchFilter={query})"

    return _shortened(redact_text(_plain(_LINK.sub(completed, "\n\n".join(parts)))), most)


def _shortened(text: str, most: int) -> str:
    """At most `most` characters, cut at the end of a line; an open block of code is closed."""
    if len(text) <= most:
        return text
    room = most - 200
    end = text.rfind("\n", 0, room)
    kept = text[: end if end > 0 else room]
    fences = [line[:100] for line in kept.splitlines() if line.startswith("```")]
    return kept + (f"\n{fences[-1]}" if len(fences) % 2 else "") + _CUT


def _environment(tags: Mapping[str, str]) -> str:
    """The environment of a run in one line."""
    if "version.python" not in tags:
        return ""
    names = {"python": "Python", "torch": "torch", "ray": "Ray"}
    parts = [f"{name} {tags[key]}" for package, name in names.items() if (key := f"version.{package}") in tags]
    parts += [f"{tags['hardware.processor']}, {tags['hardware.cores']} cores"] * ("hardware.processor" in tags)
    parts += [f"GPUs: {tags['hardware.gpus']}"] * ("hardware.gpus" in tags)
    if "git.commit" in tags:
        parts.append(f"commit {tags['git.commit'][:10]}{' with changes' * (tags.get('git.dirty') == 'true')}")
    return f"{escaped('; '.join(parts))}. Versions, machine and all settings: {artifact(ENVIRONMENT)}"


def _plain(value: Any) -> str:
    """Text without control characters."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "\N{REPLACEMENT CHARACTER}" for sign in str(value))
