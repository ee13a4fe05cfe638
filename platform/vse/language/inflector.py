"""The inflection library, made once per process."""

import warnings
from functools import cache
from typing import Any


@cache
def inflector() -> Any:
    """`inflect`'s engine; its import takes a second, so it waits for the first word."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library's own imports
        import inflect

        return inflect.engine()
