"""Files of a report: CSV, JSON, and writing them to its folder."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vse.storage.folder import Folder

RESULTS = "results.json"  # the numbers of a report, for programs


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Lines for spreadsheets."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([head, *rows])
    return out.getvalue()


def json_text(data: Any) -> str:
    """Data for programs."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def write_files(folder: Folder, files: Mapping[str, str | bytes]) -> list[str]:
    """Write files by name; returns the names."""
    for name, data in files.items():
        folder.write_bytes(name, data if isinstance(data, bytes) else data.encode())
    return list(files)
