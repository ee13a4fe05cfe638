"""The campaign: `python -m tests.faults.campaign --workspace DIR --runs 30 [--budget SECONDS]`.

Every run works through a scenario in a fresh workspace, loses one process to SIGKILL at a moment drawn from its seed,
is started again with the same commands until it ends well, and is compared with a run that nothing happened to. One
line a run goes to `runs.jsonl`. Where no such process is alive at the moment, the row says so and a later moment is
taken; runs that are there are not repeated, so the campaign may be stopped and continued.

`--plan served` puts the workspace on a server of S3 and the runs into a server of MLflow. Killed, these are started
again on the same port some seconds later, every fourth time after minutes: then a job may have ended, and it is started
again, as an operator would, when they are back.
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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.comparison import differences, tracked, verdict
from tests.faults.places import prepared
from tests.faults.processes import Family, kill
from tests.faults.scenarios import SERVED_SWEEP, SERVED_WORKERS, SWEEP, WORKERS, Place, Scenario, job_of, stage
from tests.jobs.processes import environment
from tests.servers import Server

FILE = "runs.jsonl"
RESTARTS = 3
ATTEMPTS = 4  # at finding the victim alive, each at another moment of another run
LIMIT = 900.0  # seconds after which a command counts as stuck
AWAY = ((2.0, 8.0), (2.0, 8.0), (2.0, 8.0), (100.0, 160.0))  # seconds, from and to, for which a server stays away
# Run n of a plan has its n-th scenario and victim, from the start again after the last; servers come more often.
PLANS = {
    "local": tuple((scenario, victim) for scenario in (SWEEP, WORKERS) for victim in scenario.victims),
    "served": tuple(
        (scenario, victim)
        for others in (("driver", "raylet"), ("trial", "train worker"))
        for victim in ("mlflow server", "s3 server", *others)
        for scenario in (SERVED_SWEEP, SERVED_WORKERS)
        if victim in scenario.victims
    ),
}


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
    away: float = 0.0  # seconds after which a server is started again
    back: float = float("inf")  # moment of that, by the clock of `time.monotonic`


@dataclass
class Outcome:
    """What happened to a scenario: seconds of work, commands that had to be started again, processes left behind."""

    seconds: float = 0.0
    restarts: int = 0
    left: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    traceback: bool = False
    seen: dict[str, list[float]] = field(default_factory=dict)  # first and last second at which a victim was alive


def work_through(
    scenario: Scenario, place: Place, blow: Blow | None = None, servers: Mapping[str, Server] | None = None
) -> Outcome:
    """All commands of a scenario, each started again until it ends well, once servers that are away are back.

    Without a blow it is noted from when to when there are processes of each kind.
    """
    place.folder.mkdir(parents=True, exist_ok=True)
    outcome, started, servers = Outcome(), time.monotonic(), servers or {}
    for arguments in scenario.commands:
        for attempt in range(RESTARTS + 1):
            status = _one(arguments(place), place, blow, started, outcome, scenario.victims, servers)
            outcome.statuses.append(status)
            if status == 0:
                break
            if attempt == RESTARTS:
                raise RuntimeError(f"{job_of(arguments(place))} does not end well: {outcome.errors[-1]}")
            outcome.restarts += 1
            _await(blow, servers)
    outcome.seconds = time.monotonic() - started
    _await(blow, servers)
    return outcome


def ship_later(scenario: Scenario, place: Place, outcome: Outcome) -> None:
    """The last command once more: it finds nothing to do but what a tracker that was away has not been sent."""
    last = scenario.commands[-1](place)
    outcome.statuses.append(_one(last, place, None, time.monotonic(), outcome, (), {}))
    outcome.restarts += 1


def _await(blow: Blow | None, servers: Mapping[str, Server]) -> None:
    """Until the server that was killed serves again."""
    if blow is not None and blow.back < float("inf"):
        time.sleep(max(0.0, blow.back - time.monotonic()))
        _bring_back(blow, servers)
    for server in servers.values():
        server.wait()


def _bring_back(blow: Blow, servers: Mapping[str, Server]) -> None:
    if time.monotonic() >= blow.back:
        blow.back = float("inf")
        servers[blow.victim].launch()


def _one(
    arguments: list[str],
    place: Place,
    blow: Blow | None,
    started: float,
    outcome: Outcome,
    kinds: tuple[str, ...],
    servers: Mapping[str, Server],
) -> int:
    with (place.folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            arguments,
            cwd=place.folder,
            env={**environment(), **place.variables},
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
                if blow is not None and due and blow.when(place.files):
                    _strike(blow, family, place.files, job_of(arguments), servers)
                if blow is not None:
                    _bring_back(blow, servers)
                for kind in kinds if blow is None else ():
                    if kind in servers or family.victims(kind):
                        now = round(time.monotonic() - started, 2)
                        outcome.seen.setdefault(kind, [now, now])[1] = now
                time.sleep(0.05 if blow is not None else 0.5)
        finally:
            if process.poll() is None:
                kill(family.alive())
            process.wait()
    outcome.left += [p.label[:240] for p in family.bury()]
    said = (place.folder / "stderr").read_text(errors="replace").strip().splitlines()
    if any(line.startswith("Traceback") for line in said):
        outcome.traceback = True
    if process.returncode:
        outcome.errors.append(said[-1] if said else f"status {process.returncode}")
    return process.returncode


def _strike(blow: Blow, family: Family, files: Path, job: str, servers: Mapping[str, Server]) -> None:
    if blow.victim in servers:
        blow.job, blow.stage, blow.struck, blow.killed = job, stage(files, job), True, blow.victim
        servers[blow.victim].stop()
        blow.back = time.monotonic() + blow.away
        return
    victims = family.victims(blow.victim)
    if not victims:
        blow.absent.append([blow.after, stage(files, job)])
        blow.after = round(blow.after + blow.draw.uniform(0.5, 5.0), 2)
        return
    blow.job, blow.stage, blow.struck = job, stage(files, job), True
    chosen = blow.draw.choice(victims)
    blow.killed = chosen.label[:60] if blow.victim != "driver" else f"{job}.py"
    kill([chosen])


def undisturbed(scenario: Scenario, root: Path) -> tuple[Place, dict[str, Any]]:
    """(place, its seconds and when victims were alive) of the scenario without any kill, made once."""
    folder = root / f"undisturbed-{scenario.name.replace(' ', '-')}"
    note = folder / "done.json"
    if not note.exists():
        shutil.rmtree(folder, ignore_errors=True)
        with prepared(scenario, folder) as (place, servers):
            outcome = work_through(scenario, place, servers=servers)
        assert not outcome.restarts, outcome.errors
        note.write_text(
            json.dumps(
                {
                    "seconds": outcome.seconds,
                    "seen": outcome.seen,
                    "files": str(place.files.relative_to(folder)),
                    "store": str(place.store.relative_to(folder)),
                }
            )
        )
    known = json.loads(note.read_text())
    return Place(folder, "", folder / known["files"], folder / known["store"]), known


def one_run(root: Path, number: int, attempt: int, scenario: Scenario, victim: str) -> dict[str, Any]:
    """One run with one kill, compared; the row for `runs.jsonl`."""
    reference, known = undisturbed(scenario, root)
    seconds = known["seconds"]
    drawn = random.Random(f"{number} {attempt} {scenario.name} {victim}")
    first, last = known["seen"].get(victim, (0.0, seconds))
    # not to the very end: this run may be quicker, and a look that comes too early only means another one
    blow = Blow(victim, round(drawn.uniform(first, first + 0.8 * (last - first)), 2), draw=drawn)
    blow.away = round(drawn.uniform(*drawn.choice(AWAY)), 1) if victim.endswith("server") else 0.0
    folder = root / f"run-{scenario.name.replace(' ', '-')}-{number:03d}-{attempt}"
    shutil.rmtree(folder, ignore_errors=True)
    wrong: list[str] = []
    outcome = Outcome()
    try:
        with prepared(scenario, folder) as (place, servers):
            outcome = work_through(scenario, place, blow, servers)
            if servers and differences(tracked(reference.store)[0], tracked(place.store)[0]):
                ship_later(scenario, place, outcome)
        wrong = verdict(reference, place)
        wrong += ["a traceback on stderr"] if outcome.traceback and victim.endswith("server") else []
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
        **({"away_seconds": blow.away} if blow.away else {}),
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


def run_campaign(
    root: Path, runs: int, plan: str = "local", budget: float = float("inf"), copy: Path | None = None
) -> list[dict[str, Any]]:
    """Rows of runs 0 … `runs` - 1 of a plan, made as far as they are missing and the budget (seconds) lasts.

    copy: a file that always holds the same rows; where it is there first, its rows count as made.
    """
    root.mkdir(parents=True, exist_ok=True)
    file, begun = root / FILE, time.monotonic()
    if copy is not None and copy.exists() and not file.exists():
        shutil.copyfile(copy, file)
    for number in range(runs):
        scenario, victim = PLANS[plan][number % len(PLANS[plan])]
        names = {each.name for each, _ in PLANS[plan]}
        before = [row for row in read_rows(file) if row["run"] == number and row["scenario"] in names]
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
    parser.add_argument("--plan", choices=tuple(PLANS), default="local", help="who is killed where")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no run is started")
    parser.add_argument("--copy", type=Path, help="another file that gets the rows, such as evidence/faults/runs.jsonl")
    parser.add_argument("--table", action="store_true", help="only print the table of what is there")
    chosen = parser.parse_args()
    root = chosen.workspace.absolute()
    rows = (
        read_rows(root / FILE)
        if chosen.table
        else run_campaign(root, chosen.runs, chosen.plan, chosen.budget, chosen.copy)
    )
    from tests.faults.table import markdown

    print(markdown(rows))
    return int(any(row["verdict"] == "differs" for row in rows))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
