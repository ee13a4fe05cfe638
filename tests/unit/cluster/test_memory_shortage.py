"""A lack of memory is one line that says what was taken and what to lower, whoever noticed it."""

import re
from typing import Any

import numpy as np
import pytest
import torch

from tests.unit.cli.test_command import call
from vse import presets
from vse.cluster import memory_shortage
from vse.cluster.memory_shortage import LOWER, memory_failure
from vse.cluster.memory_shortage import memory_shortage as shortage
from vse.config import flatten
from vse.errors import InputError
from vse.stages.extract import ExtractionConfig
from vse.sweeps.plan import SweepOptions

BY_RAY = """ray.exceptions.OutOfMemoryError: 1 worker(s) were killed due to the node running low on memory. Memory on \
the node (IP: 10.0.0.7, ID: 9ba6accb890522eb) was 30.44GB used / 32.00GB limit (0.951200)
OOM kill reason: Memory usage 6338711552B exceeded threshold of 4701347840B (18.6% of 25276063744B limit)
Object store memory usage: [- objects spillable: 0
(global lru) bytes evicted: 0]
Ray killed 1 worker(s) based on the killing policy
Considered workers: [
Selected to kill: (Actor(f14c75f3): job ID=01000000, lease ID=00000000, pid=281, actual memory used=21.7GB, worker ID=9)
(Actor(c75f38a1): job ID=01000000, lease ID=00000001, pid=282, actual memory used=25.5GB, worker ID=8)
]
Total non-selected idle workers USS bytes: 0.04GB
Top 10 memory users: PID\tMEM(GB)\tCOMMAND
281\t21.70\tray::ImplicitFunc.train
Refer to the documentation on how to address the out of memory issue: https://docs.ray.io"""
BY_KERNEL = """ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task. Some common causes
include: (1) the process was killed by the OOM killer due to high memory usage, (2) ray stop --force was called"""
CUDA = """Traceback (most recent call last):
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.11 GiB"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BY_RAY, "out of memory: its process took 21.7 GB (30.44 of 32.00 GB of node 10.0.0.7 in use)"),
        (CUDA, "out of memory of the GPU: tried to allocate 2.50 GiB"),
        ("Traceback\nMemoryError\n", "out of memory"),
        (
            "a.b.WorkersLostError: train.workers=2: out of memory: its process took 3 GB; lower x",
            "out of memory: its process took 3 GB",
        ),
        ("ValueError: no luck", ""),
        ("the captions of an out of memory issue", ""),
    ],
)
def test_what_others_report_becomes_a_line(text: str, expected: str) -> None:
    assert shortage(text) == expected


def test_the_kernel_is_named_only_if_it_ended_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shortage(BY_KERNEL) == ""
    monkeypatch.setattr(memory_shortage, "kernel_kills", lambda: memory_shortage._before + 1)
    assert shortage(BY_KERNEL, 3.14) == (
        "out of memory: the kernel ended its process, which had taken up to 3.1 GiB when it last reported"
    )
    assert shortage("the process of the trial died") == "out of memory: the kernel ended its process"


def test_what_libraries_raise_here() -> None:
    with pytest.raises(MemoryError) as by_numpy:
        np.empty(2**60, np.uint8)
    assert re.match(r"out of memory: unable to allocate 1\.00 EiB; lower ", memory_failure(by_numpy.value))
    with pytest.raises(RuntimeError) as by_torch:
        torch.empty(2**60, dtype=torch.uint8)
    assert memory_failure(by_torch.value).startswith(f"out of memory: you tried to allocate {2**60} bytes; lower ")
    wrapped: Any = RuntimeError("a task failed")
    wrapped.cause = by_numpy.value
    assert memory_failure(wrapped) == memory_failure(by_numpy.value)
    assert memory_failure(ValueError("x")) == ""
    assert memory_failure(InputError("x")) == ""


def test_a_job_ends_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    def run(request: object) -> str:
        raise MemoryError

    assert call(run=run)[0] == 1
    told = capfd.readouterr().err
    assert told.startswith(f"demo: out of memory; {LOWER}; finished work is kept")
    assert told.count("\n") == 1


def test_the_keys_to_lower_exist() -> None:
    keys = re.findall(r"\b[a-z]+\.[a-z_]+", LOWER)
    there = {*flatten(presets.preset("univse_tiny"))}
    there |= {f"extraction.{key}" for key in flatten(ExtractionConfig())}
    there |= {f"sweep.{key}" for key in flatten(SweepOptions())}
    assert set(keys) <= there
    assert len(keys) == 5
