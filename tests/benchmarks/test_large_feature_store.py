"""A feature store of many images: its size, and what a reader does before its first batch. Run with `-s` to see it.

Shards hold small features, but are as many as those of a store of `IMAGES` times 49x2048 half floats would be. With
VSE_BENCHMARK_IMAGES=100000 it is a hundredth of a store of ten million images.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import s3
from vse.features.forward import shard_rows
from vse.features.shards import Output, write_shard
from vse.features.store import INDEX, commit
from vse.storage.folder import MANIFEST, Folder
from vse.storage.object_store import PAGE

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]
IMAGES = int(os.environ.get("VSE_BENCHMARK_IMAGES", "5000"))
MAP, DIM = Output((49, 2048)), 8
_READ = """
import json, resource, sys, time
from collections import Counter
from botocore.client import BaseClient
from vse.features.store import FeatureStore
from vse.storage.folder import Folder
import pyarrow.compute, pyarrow.parquet

def mib():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20

asked, call = Counter(), BaseClient._make_api_call
BaseClient._make_api_call = lambda client, name, options: asked.update([name]) or call(client, name, options)
folder, ids = Folder.open(sys.argv[1]), [f"COCO_train2014_{k:012d}.jpg" for k in range(int(sys.argv[2]))]
before, begun = mib(), time.perf_counter()
store = FeatureStore.open(folder)
opened = time.perf_counter()
requests = dict(asked)
places = store._find(ids)
found = time.perf_counter()
parts = list(store._index.by_shard(places))
grouped = time.perf_counter()
kept = mib() - before
store.array("features", ids[:1])
first = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
spent = {"open": opened - begun, "find": found - opened, "group": grouped - found, "one image": first - grouped}
print(json.dumps({**spent, **requests, "MiB": kept, "peak MiB": peak}))
"""


def written(folder: Folder) -> dict[str, Any]:
    """Shards, index and manifest; returns counts, bytes and seconds."""
    per_shard = shard_rows(MAP.row_bytes)
    ids = [f"COCO_train2014_{k:012d}.jpg" for k in range(IMAGES)]
    for start in range(0, IMAGES, per_shard):
        some = ids[start : start + per_shard]
        write_shard(folder, some, {"features": np.full((len(some), DIM), start % 1000, np.float16)})
    begun = time.perf_counter()
    store = commit(folder, ids, {"features": Output((DIM,))}, {})
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    last = (IMAGES - 1) // per_shard * per_shard % 1000
    assert store.array("features", [ids[-1], ids[0]])[:, 0].tolist() == [last, 0]
    return {
        "rows per shard": per_shard,
        "shards": len(store.manifest["files"]) - 2,
        "manifest": folder.size(MANIFEST),
        "index": folder.size(INDEX),
        "commit": seconds,
        "peak MiB of the writer": peak,
    }


def read(address: str) -> dict[str, float]:
    """What a new process measures that opens the store and finds all images."""
    command = [sys.executable, "-c", _READ, address, str(IMAGES)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def shown(title: str, values: dict[str, Any]) -> None:
    print(f"\n{title}: " + ", ".join(f"{key} {value:.6g}" for key, value in values.items()), end="")


def test_a_store_of_many_shards(tmp_path: Path) -> None:
    local = written(Folder.open(tmp_path / "store"))
    shown(f"{IMAGES} images", local)
    reader = read(str(tmp_path / "store"))
    shown("reader, disk", reader)
    assert local["shards"] == -(-IMAGES // local["rows per shard"])
    assert reader["open"] + reader["find"] + reader["group"] < 1 + IMAGES * 5e-6


def test_requests_of_a_reader_on_s3(s3_server: str) -> None:
    """Opening reads manifest, index and rejects and lists the folder once; nothing is asked for each shard."""
    made = written(Folder.open(s3.address(s3_server, "store")))
    shown(f"{IMAGES} images on S3", made)
    reader = read(s3.address(s3_server, "store"))
    shown("reader, S3", reader)
    assert reader["GetObject"] == 3
    assert reader["ListObjectsV2"] == -(-(2 * made["shards"] + 3) // PAGE)  # each shard has a file and a receipt
