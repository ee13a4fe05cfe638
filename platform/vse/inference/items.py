"""Sentences and pictures as users give them: each is checked, and an error says which one is wrong."""

import os
from collections.abc import Iterable
from typing import Any

import PIL.Image

from vse.data.images import UnreadableImage
from vse.errors import InputError
from vse.text.tokens import as_caption


def listed(items: Any, name: str) -> list[Any]:
    """The items of a list, an array of one axis, a series or a generator.

    Args:
        items: sentences or pictures.
        name: of the argument; `pictures` if they are pictures.

    Raises:
        InputError: one item is given in place of a list. Text would be read letter by letter, an array row by row.
    """
    single = isinstance(items, str | bytes | os.PathLike | PIL.Image.Image) or getattr(items, "ndim", 1) != 1
    if isinstance(items, Iterable) and not single:
        return list(items)
    kind = "pictures" if name == "pictures" else "sentences"
    shown = repr(items) if isinstance(items, str) and len(items) <= 60 else "..."
    if kind == "pictures" and hasattr(items, "ndim"):
        shown = "PIL.Image.fromarray(...)"
    raise InputError(f"{name}: expected a list of {kind}, got one {type(items).__name__}; write [{shown}]")


def items_of(items: Any, kind: Any, key: str, what: str) -> list[Any]:
    """The items of a list of one kind.

    Args:
        items: what the user gave.
        kind: type of the items.
        key: of the argument, for messages.
        what: what the items are, in words.

    Raises:
        InputError: there is no list, or an item of another kind.
    """
    if not isinstance(items, Iterable) or isinstance(items, str):
        raise InputError(f"{key}: expected a list of {what}, got one {type(items).__name__}")
    for item in (given := list[Any](items)):
        if not isinstance(item, kind):
            raise InputError(f"{key}: expected {what}, got {type(item).__name__}")
    return given


def captions_of(texts: Iterable[Any]) -> list[str]:
    """Sentences as they are tokenised and parsed. Raises InputError with the number of the first that is none."""
    return [caption_of(text, f"caption {number}") for number, text in enumerate(texts)]


def caption_of(text: Any, name: str) -> str:
    """A sentence as it is tokenised and parsed. Raises InputError, which calls it `name`, if it is none."""
    if not isinstance(text, str):
        raise InputError(f"{name}: expected a sentence, got {type(text).__name__}")
    return as_caption(text)


def source_of(picture: Any) -> bytes | str | PIL.Image.Image:
    """A picture as the readers of images take it. Raises UnreadableImage for what is no picture."""
    if isinstance(picture, bytes | PIL.Image.Image):
        return picture
    if isinstance(picture, str | os.PathLike):
        return os.fsdecode(picture)
    hint = "; convert it with PIL.Image.fromarray" if hasattr(picture, "shape") else ""
    hint = "; open it with PIL.Image.open" if hasattr(picture, "read") else hint
    raise UnreadableImage(f"expected a path, bytes of a file or an image of Pillow, got {type(picture).__name__}{hint}")
