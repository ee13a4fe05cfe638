"""Blocks of a step are faulted in once."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from vse.training.allocator import keep_freed_memory

def faults(steps):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        blocks = [torch.ones(1_500_000) for _ in range(4)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = faults(20)
if not keep_freed_memory():
    sys.exit(3)
faults(2)
print(usual, faults(20))
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the setting is the GNU C library's")
def test_freed_blocks_are_not_faulted_in_again():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("another C library")
    usual, kept = map(int, done.stdout.split())
    assert usual > 2000, "the usual setting returns no memory here"
    assert kept < usual / 10
