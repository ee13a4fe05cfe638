"""Shape annotations of the package are checked while tests run; the hook must be there before `vse` is imported."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

install_import_hook("vse", "beartype.beartype")
