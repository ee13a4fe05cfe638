"""Sentences and pictures as users give them: each is checked, and an error says which one is wrong."""

import os
from collections.abc import Iterable
from typing import Any

import PIL.Image

from vse.errors import InputError


def listed(items: Any, name: str) -> list[Any]:
    """The items of a list, an array of one axis, a series or a generator.

    Args:
        items: sentences or pictures.
        name: of the argument, `texts` or `pictures`.

    Raises:
        InputError: one item is given in place of a list. Text would be read letter by letter, an array row by row.
    """
    single = isinstance(items, str | bytes | os.PathLike | PIL.Image.Image) or getattr(items, "ndim", 1) != 1
    if isinstance(items, Iterable) and not single:
        return list(items)
    kind = "sentences" if name == "texts" else "pictures"
    shown = repr(items) if isinstance(items, str) and len(items) <= 60 else "..."
    if kind == "pictures" and hasattr(items, "ndim"):
        shown = "PIL.Image.fromarray(...)"
    raise InputError(f"{name}: expected a list of {kind}, got one {type(items).__name__}; write [{shown}]")
