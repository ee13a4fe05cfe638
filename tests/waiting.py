"""Waits for other processes and threads, each with an end."""

import subprocess
import time
from pathlib import Path
from typing import Any


def wait_for(file: Path, process: "subprocess.Popen[Any] | None" = None, seconds: float = 30.0) -> None:
    """Until there is a file, which the process makes before it ends."""
    deadline = time.monotonic() + seconds
    while not file.exists():
        assert process is None or process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
