"""Where an image lies: an address that a data set gives, below the folder the user gave, and nowhere else.

A data set may come from a stranger. Nothing in it may make a job read another file of the machine.
"""

import contextlib
import os
import posixpath
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from vse.errors import InputError


class AddressError(InputError):
    """An address of a data set that leads where it may not: a bad row, and no fault of a store or of what is asked."""


def below(root: str, uri: str) -> str:
    """The local path or s3:// address of `uri` in `root`, which is a folder or an s3:// address.

    `uri` is a path relative to the root, or an absolute path, file:// or s3:// address of something in it. The root
    itself may be a symbolic link; links in it may not lead out of it. Without a root any address is taken as it is.
    Raises AddressError for one that leaves its root.
    """
    if uri.startswith("s3://") or root.startswith("s3://"):
        return _remote(root, uri)
    if uri.startswith("file://"):
        uri = unquote(urlsplit(uri).path)
    if not root:
        return uri
    if root.startswith("file://"):
        root = unquote(urlsplit(root).path)
    base = os.path.abspath(root)
    place = os.path.normpath(uri if os.path.isabs(uri) else os.path.join(base, os.path.normpath(uri)))
    if not _inside(base, place):
        raise AddressError(f"{uri}: leaves its root {root}; image paths must stay below it")
    try:
        real = os.path.realpath(place)
    except ValueError:
        return place  # a null byte: no file has such a name, and whoever opens it says so
    if not _inside(os.path.realpath(base), real):
        raise AddressError(f"{uri}: leaves its root {root} through a symbolic link; image paths must stay below it")
    return place


def spellings(root: str, uri: str) -> Iterator[str]:
    """Where `uri` in `root` may lie: `below` as it is written, then with composed and with decomposed letters.

    A Mac writes `é` as two characters where a list of captions has one, or the other way round; the names look alike.
    Raises AddressError as `below` does.
    """
    yield below(root, uri)
    for form in ("NFC", "NFD"):
        if not unicodedata.is_normalized(form, uri):
            with contextlib.suppress(AddressError):  # a whole address may hold a root that is written otherwise
                yield below(root, unicodedata.normalize(form, uri))


def _inside(base: str, place: str) -> bool:
    return place == base or place.startswith(base.rstrip(os.sep) + os.sep)


def _remote(root: str, uri: str) -> str:
    if not root:
        return uri
    base, mark, options = root.partition("?")  # which an address may carry: region, another server
    base = base.rstrip("/")
    inner = uri.removeprefix(f"{base}/")
    relative = posixpath.normpath(inner)
    if not root.startswith("s3://") or "://" in inner or relative == ".." or relative.startswith(("../", "/")):
        raise AddressError(f"{uri}: leaves its root {root}; image paths must stay below it")
    if "?" in relative:
        raise AddressError(f"{uri}: a name with a question mark cannot be told from an address with options on S3")
    return f"{base}/{relative}{mark}{options}"
