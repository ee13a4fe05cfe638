"""The campaign: `python -m tests.faults.campaign --workspace DIR --runs 30 [--budget SECONDS]`.

Every run works through a scenario in a fresh workspace, loses one process to SIGKILL at a moment drawn from its seed,
is started again with the same commands until it ends well, and is compared with a run that nothing happened to. One
line a run goes to `runs.jsonl`. Where no such process is alive at the moment, the row says so and a later moment is
taken; runs that are there are not repeated, so the campaign may be stopped and continued.
"""

import argparse
import datetime
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.comparison import verdict
from tests.faults.processes import Family, kill
from tests.faults.scenarios import SCENARIOS, SWEEP, WORKERS, Scenario, job_of, stage
from tests.jobs.processes import environment

FILE = "runs.jsonl"
RESTARTS = 3
ATTEMPTS = 4  # at finding the victim alive, each at another moment of another run
LIMIT = 900.0  # seconds after which a command counts as stuck
PLAN = tuple((scenario, victim) for scenario in (SWEEP, WORKERS) for victim in scenario.victims)


@dataclass
class Blow:
    """One kill: whom, after how many seconds of the scenario's work (and once `when` holds), and what came of it."""

    victim: str
    after: float
    when: Callable[[Path], bool] = lambda workspace: True
    draw: random.Random = field(default_factory=lambda: random.Random(0))
    struck: bool = False
    absent: list[list[Any]] = field(default_factory=list)  # [seconds, stage] of looks that found nobody
    job: str = ""
    stage: str = ""
    killed: str = ""


@dataclass
class Outcome:
    """What happened to a scenario: seconds of work, commands that had to be started again, processes left behind."""

    seconds: float = 0.0
    restarts: int = 0
    left: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    seen: dict[str, list[float]] = field(default_factory=dict)  # first and last second at which a victim was alive


def work_through(scenario: Scenario, folder: Path, blow: Blow | None = None) -> Outcome:
    """All commands of a scenario in `folder`/workspace, each started again until it ends well.

    Without a blow it is noted from when to when there are processes of each kind.
    """
    folder.mkdir(parents=True, exist_ok=True)
    workspace, outcome, started = folder / "workspace", Outcome(), time.monotonic()
    for arguments in scenario.commands:
        for attempt in range(RESTARTS + 1):
            status = _one(arguments(workspace), folder, blow, started, outcome, scenario.victims)
            outcome.statuses.append(status)
            if status == 0:
                break
            if attempt == RESTARTS:
                raise RuntimeError(f"{job_of(arguments(workspace))} does not end well: {outcome.errors[-1]}")
            outcome.restarts += 1
    outcome.seconds = time.monotonic() - started
    return outcome


def _one(
    arguments: list[str],
    folder: Path,
    blow: Blow | None,
    started: float,
    outcome: Outcome,
    kinds: tuple[str, ...],
) -> int:
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        family, begun = Family(process.pid), time.monotonic()
        try:
            while process.poll() is None:
                if time.monotonic() - begun > LIMIT:
                    outcome.errors.append(f"stuck after {LIMIT:.0f} s")
                    break
                due = blow is not None and not blow.struck and time.monotonic() - started >= blow.after
                if blow is not None and due and blow.when(folder / "workspace"):
                    _strike(blow, family, folder / "workspace", job_of(arguments))
                for kind in kinds if blow is None else ():
                    if family.victims(kind):
                        now = round(time.monotonic() - started, 2)
                        outcome.seen.setdefault(kind, [now, now])[1] = now
                time.sleep(0.05 if blow is not None else 0.5)
        finally:
            if process.poll() is None:
                kill(family.alive())
            process.wait()
    outcome.left += [p.title[:240] for p in family.bury()]
    if process.returncode:
        said = (folder / "stderr").read_text(errors="replace").strip().splitlines()
        outcome.errors.append(said[-1] if said else f"status {process.returncode}")
    return process.returncode


def _strike(blow: Blow, family: Family, workspace: Path, job: str) -> None:
    victims = family.victims(blow.victim)
    if not victims:
        blow.absent.append([blow.after, stage(workspace, job)])
        blow.after = round(blow.after + blow.draw.uniform(0.5, 5.0), 2)
        return
    blow.job, blow.stage, blow.struck = job, stage(workspace, job), True
    chosen = blow.draw.choice(victims)
    blow.killed = chosen.title[:60] if blow.victim != "driver" else f"{job}.py"
    kill([chosen])


def undisturbed(scenario: Scenario, root: Path) -> tuple[Path, dict[str, Any]]:
    """(workspace, its seconds and when victims were alive) of the scenario without any kill, made once."""
    folder = root / f"undisturbed-{scenario.name}"
    note = folder / "done.json"
    if not note.exists():
        shutil.rmtree(folder, ignore_errors=True)
        outcome = work_through(scenario, folder)
        assert not outcome.restarts, outcome.errors
        note.write_text(json.dumps({"seconds": outcome.seconds, "seen": outcome.seen}))
    return folder / "workspace", json.loads(note.read_text())


def one_run(root: Path, number: int, attempt: int, scenario: Scenario, victim: str) -> dict[str, Any]:
    """One run with one kill, compared; the row for `runs.jsonl`."""
    reference, known = undisturbed(scenario, root)
    seconds = known["seconds"]
    drawn = random.Random(f"{number} {attempt} {scenario.name} {victim}")
    first, last = known["seen"].get(victim, (0.0, seconds))
    # not to the very end: this run may be quicker, and a look that comes too early only means another one
    blow = Blow(victim, round(drawn.uniform(first, first + 0.8 * (last - first)), 2), draw=drawn)
    folder = root / f"run-{number:03d}-{attempt}"
    shutil.rmtree(folder, ignore_errors=True)
    wrong: list[str] = []
    outcome = Outcome()
    try:
        outcome = work_through(scenario, folder, blow)
        wrong = verdict(reference, folder / "workspace")
    except Exception as error:
        wrong = [f"{type(error).__name__}: {error}"]
    met = blow.struck
    row = {
        "run": number,
        "attempt": attempt,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "scenario": scenario.name,
        "victim": victim,
        "after_seconds": blow.after,
        "job": blow.job,
        "stage": blow.stage,
        "killed": blow.killed,
        "alive": met,
        "not_alive_at": blow.absent,
        "restarts": outcome.restarts,
        "statuses": outcome.statuses,
        "left_behind": outcome.left,
        "undisturbed_seconds": round(seconds, 1),
        "seconds": round(outcome.seconds, 1),
        "cost_seconds": round(outcome.seconds - seconds, 1),
        "said": outcome.errors,
        "wrong": wrong[:20],
        "verdict": "differs" if wrong else ("the same" if met else "not alive"),
    }
    if not wrong:
        shutil.rmtree(folder, ignore_errors=True)  # what differs stays to be looked at
    return row


def read_rows(file: Path) -> list[dict[str, Any]]:
    """The rows so far; a line that a kill of the campaign itself left torn is passed over."""
    rows = []
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def run_campaign(root: Path, runs: int, budget: float = float("inf"), copy: Path | None = None) -> list[dict[str, Any]]:
    """Rows of runs 0 … `runs` - 1, made as far as they are missing and the budget (seconds) lasts.

    copy: a file that always holds the same rows.
    """
    root.mkdir(parents=True, exist_ok=True)
    file, begun = root / FILE, time.monotonic()
    for number in range(runs):
        scenario, victim = PLAN[number % len(PLAN)]
        before = [row for row in read_rows(file) if row["run"] == number]
        if any(row["alive"] or row["verdict"] == "differs" for row in before):
            continue
        for attempt in range(len(before), ATTEMPTS):
            if time.monotonic() - begun > budget:
                return read_rows(file)
            row = one_run(root, number, attempt, scenario, victim)
            with file.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
            if copy is not None:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
            print(
                f"run {number}.{attempt} {scenario.name}: {victim} at {row['after_seconds']} s ({row['stage']}): "
                f"{row['verdict']}, {row['restarts']} restarts, {row['cost_seconds']} s",
                flush=True,
            )
            if row["alive"]:
                break
    return read_rows(file)


def main() -> int:
    """Serve the command line; 1 where any run differs."""
    parser = argparse.ArgumentParser(description="Kill processes at random moments and compare what is left.")
    parser.add_argument("--workspace", type=Path, required=True, help="folder of the campaign")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no run is started")
    parser.add_argument("--copy", type=Path, help="another file that gets the rows, such as evidence/faults/runs.jsonl")
    parser.add_argument("--table", action="store_true", help="only print the table of what is there")
    chosen = parser.parse_args()
    root = chosen.workspace.absolute()
    rows = read_rows(root / FILE) if chosen.table else run_campaign(root, chosen.runs, chosen.budget, chosen.copy)
    from tests.faults.table import markdown

    print(markdown(rows))
    return int(any(row["verdict"] == "differs" for row in rows))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    assert set(SCENARIOS) == {scenario.name for scenario, _ in PLAN}
    sys.exit(main())
