"""Names of files as parts of names of metrics, tables and pictures."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from vse.config import fingerprint

LONGEST = 60  # characters of several names: file systems allow 255 in all, MLflow 250


def stem(file: str) -> str:
    """The name of a file or an address without folders and suffix."""
    return re.sub(r"[^\w.-]", "_", PurePosixPath(file.partition("?")[0]).stem)


def stems(files: Sequence[str]) -> str:
    """The names of several files; of many, the first one, the number of others, and what tells lists apart."""
    names = [stem(file) for file in files]
    joined = "-".join(names)
    if len(joined) <= LONGEST:
        return joined
    more = f"-and-{len(names) - 1}-more" if len(names) > 1 else ""
    return f"{names[0][: LONGEST // 2]}{more}-{fingerprint(names)}"
