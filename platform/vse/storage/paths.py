"""Paths as users write them."""

from pathlib import Path

from vse.errors import InputError


def local_path(text: str) -> Path:
    """A path of this machine, `~` and `~user` being homes. Raises InputError where there is no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise InputError(f"{text}: there is no home of {text.partition('/')[0]}") from None
