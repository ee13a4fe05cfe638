"""The inflection library, made once per process."""

import warnings
from functools import cache
from typing import Any
from unittest.mock import patch


@cache
def inflector() -> Any:
    """`inflect`'s engine, imported with the first word.

    Its methods ask `typeguard` to check their arguments, which recompiles each from its source: three seconds at every
    import, and calls that take five times as long. Our types are checked before anything runs, so it goes without.
    """
    import typeguard

    with warnings.catch_warnings(), patch.object(typeguard, "typechecked", lambda method: method):
        warnings.simplefilter("ignore")  # of the library's own imports
        import inflect

        return inflect.engine()
