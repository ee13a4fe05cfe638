"""One of two workers that go on with a run: `python -m tests.parity.restore_worker RANK STORE FOLDER`.

Prints the epoch that it goes on from, or the line with which it ends.
"""

import datetime
import sys
from pathlib import Path

import torch.distributed as dist

from tests.parity.distributed_worker import end
from tests.unit.training.test_loop import Run
from vse.errors import StorageError


def main(rank: int, store: str, folder: str) -> None:
    """Join the other through a file, restore as the loop does, say what was found."""
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=timeout)
    loop = Run(Path(folder), train__epochs=3).loop()
    try:
        print(f"epoch {loop.restored().epoch}")
    except StorageError as error:
        print(error)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
    end(0)
