"""The files that a reader follows from a command to the checkpoint: `python -m tests.unit.one_way` prints them.

The job `jobs/train.py --preset vsepp_small` runs twice in this process, on few scenes. The first run, with seed 1,
makes what the earlier stages keep: records and features. The second run, with seed 2, is followed by `sys.setprofile`
from the start of the script until the first checkpoint is saved, in all threads.

A file of `platform/vse` or `jobs/` is on the way if one of its functions is called. Not counted are:

- `LEAVES`: files that call nothing but other leaves, and that a reader understands by the name and the docstring of the
  function that is called. Each has a reason. A leaf that calls a counted file is an error.
- `SOURCE`: the inside of the data set that the preset names, whose records are made before they are compared with those
  that the describe stage has kept.
"""

import inspect
import json
import os
import runpy
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

from tests.unit.boundaries import rank_of

ROOT = Path(__file__).parents[2]
PACKAGE = "platform/vse/"
SOURCE = ("data/scenes/", "data/sources/scenes.py")
LEAVES = {
    "training/allocator.py": "what the C library does with freed memory",
    "training/effects.py": "refuses keys without effect; training does not read it",
    "config.py": "keys of nested dataclasses: values by dotted key, digests",
    "registry.py": "components by kind and name",
    "determinism.py": "switches of torch",
    "cli/interrupts.py": "signal handlers",
    "cluster/capacity.py": "sums over the CPUs and GPUs of nodes",
    "data/keyed.py": "random numbers by key",
    "data/ragged.py": "an array of rows of different lengths",
    "data/records.py": "data definition: images, captions, splits",
    "data/source.py": "data definition: what a source offers",
    "display/escaping.py": "text for a terminal",
    "display/markdown.py": "text for a Markdown page",
    "models/noise.py": "random numbers by key, on the device",
    "stages/parse.py": "parsing, which the preset does without",
    "stages/tuning.py": "fine-tuning, which the preset does without",
    "storage/files.py": "SHA-256 of files, paths of the local disk, temporary folders",
    "storage/lease.py": "whether a lock is still held",
    "storage/parallel_reads.py": "an iterator read ahead in a thread",
    "storage/user_files.py": "a file that the user names, local or on S3",
    "text/tokens.py": "words of a string",
    "text/vocabulary.py": "ids of words",
    "tracking/prometheus.py": "counters that Ray exports",
    "workspace/provenance.py": "versions of the software and the machine",
    "workspace/redaction.py": "strings less their secrets",
}
COMMAND = ("--preset", "vsepp_small", "train.epochs=1", "data.num_train=40", "data.num_val=10", "data.num_test=10")


class Trace:
    """The calls of one run, until `Checkpoints.save` returns."""

    def __init__(self) -> None:
        self.functions: dict[str, set[str]] = defaultdict(set)
        self.calls: dict[tuple[str, str], set[str]] = defaultdict(set)  # (caller's file, callee's file): functions
        self._files: dict[str, str] = {}

    def start(self) -> None:
        """Follow this thread and those that it starts."""
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    @staticmethod
    def stop() -> None:
        """Follow no further."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "return" and code.co_qualname == "Checkpoints.save":
            self.stop()
        if event != "call" or code.co_name == "<module>" or not (file := self._file(code.co_filename)):
            return
        self.functions[file].add(code.co_qualname)
        # Functions within functions are handed down as callbacks, and a generator is resumed from wherever it is read.
        if "<locals>" in code.co_qualname or code.co_flags & inspect.CO_GENERATOR:
            return
        caller = frame.f_back
        while caller is not None and not self._file(caller.f_code.co_filename):
            caller = caller.f_back
        if caller is not None and (above := self._file(caller.f_code.co_filename)) != file:
            self.calls[above, file].add(code.co_qualname)

    def _file(self, name: str) -> str:
        """Its path below the repository (of the package: below the package); empty for a file of others."""
        if name not in self._files:
            path = os.path.relpath(name, ROOT) if os.path.exists(name) else ""
            ours = path.startswith((PACKAGE, "jobs/"))
            self._files[name] = path.removeprefix(PACKAGE) if ours else ""
        return self._files[name]


def follow() -> Trace:
    """Train twice in a temporary workspace, and follow the second run."""
    trace = Trace()
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as workspace:
        for seed in (1, 2):
            sys.argv = ["jobs/train.py", *COMMAND, f"seed={seed}", "--workspace", workspace]
            if seed == 2:
                _forget_presets()
                trace.start()
            try:
                runpy.run_path(str(ROOT / "jobs/train.py"), run_name="__main__")
            except SystemExit as end:
                if end.code != 0:
                    raise RuntimeError(f"jobs/train.py ended with status {end.code}") from None
            finally:
                trace.stop()
    return trace


def _forget_presets() -> None:
    """Let presets be built again, as in a process of its own."""
    from vse.presets import catalogue

    for make in catalogue._PRESETS.values():
        make.cache_clear()


def counted(trace: Trace) -> list[str]:
    """The files that a reader follows."""
    return sorted(file for file in trace.functions if file not in LEAVES and not file.startswith(SOURCE))


def climbs(trace: Trace) -> list[str]:
    """Calls of functions by name from one folder into another that stands above it. `registry` builds any component."""
    return [
        f"{caller} calls {', '.join(sorted(names))} of {file}"
        for (caller, file), names in sorted(trace.calls.items())
        if caller != "registry.py" and _height(file) > _height(caller)
    ]


def talkative_leaves(trace: Trace) -> list[str]:
    """Calls of a leaf into a file that is none. `registry` builds any component."""
    return [
        f"{caller} calls {', '.join(sorted(names))} of {file}"
        for (caller, file), names in sorted(trace.calls.items())
        if caller in LEAVES and caller != "registry.py" and file not in LEAVES and not file.startswith(SOURCE)
    ]


def _height(file: str) -> int:
    """The rank of its folder. A job stands with `cli`, whose `main` it hands its functions to."""
    return rank_of("cli" if file.startswith("jobs/") else file.removesuffix(".py").replace("/", "."))


def main() -> None:
    """Print what was followed as JSON."""
    trace = follow()
    result = {
        "files": counted(trace),
        "leaves": sorted(set(trace.functions) & LEAVES.keys()),
        "climbs": climbs(trace),
        "talkative_leaves": talkative_leaves(trace),
        "calls": sorted([caller, file, name] for (caller, file), names in trace.calls.items() for name in names),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
