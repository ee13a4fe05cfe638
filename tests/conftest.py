"""Shape annotations of the package are checked while tests run; the hook must be there before `vse` is imported."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from jaxtyping import install_import_hook

# an int is welcome where a float is asked for, as for type checkers (PEP 484)
install_import_hook("vse", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")
