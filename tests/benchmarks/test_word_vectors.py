"""A file of vectors of 1 GB: memory beyond the rows kept, and the rate at which it is read."""

import subprocess
import sys
import time

import numpy as np
import pytest

_READ = """
import resource, sys, time
from vse.text.word_vectors import word_vectors
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, started = peak(), time.time()
found = word_vectors(sys.argv[1], [f"w{k}" for k in range(0, int(sys.argv[2]), 20)])
assert found.found.all() and found.dim == 300
print(peak() - before, found.vectors.nbytes / 2**20, time.time() - started)
"""


def _write(path, form, words, dim=300):
    """`words` rows; the same 1,000 rows of numbers again and again, since making a GB of numbers takes minutes."""
    values = np.random.default_rng(0).normal(size=(1000, dim)).astype("<f4")
    if form == "text":
        rows = [" ".join(f"{x:.5f}" for x in row).encode() + b"\n" for row in values]
    else:
        rows = [row.tobytes() + b"\n" for row in values]
    with path.open("wb") as file:
        if form == "binary":
            file.write(f"{words} {dim}\n".encode())
        for k in range(words):
            file.write(f"w{k} ".encode() + rows[k % 1000])


@pytest.mark.slow
@pytest.mark.benchmark
@pytest.mark.parametrize(("form", "words"), [("text", 400_000), ("binary", 830_000)])
def test_a_gigabyte_takes_200_mb_beside_the_rows_kept(tmp_path, form, words):
    path = tmp_path / f"vectors.{form}"
    try:
        _write(path, form, words)
        size = path.stat().st_size
        assert size > 0.95e9
        started = time.time()
        done = subprocess.run(
            [sys.executable, "-c", _READ, str(path), str(words)], capture_output=True, text=True, check=True
        )
        more, kept, seconds = map(float, done.stdout.split())
        print(
            f"{form}: {size / 1e9:.2f} GB in {seconds:.1f} s (hash included; {time.time() - started:.1f} s with "
            f"imports), {kept:.0f} MiB kept, {more:.0f} MiB more memory at most"
        )
        assert more < kept + 200
    finally:
        path.unlink(missing_ok=True)
