"""Where real photographs, captions and the treebank are, if this machine has them."""

import os
from pathlib import Path

_beside = Path(os.environ.get("VSE_SHARED", Path(__file__).resolve().parents[2] / "shared"))

SHARED: Path | None = _beside if (_beside / "data" / "README.md").is_file() else None
