"""Addresses of images, which must be below the folder that the user named.

A data set may come from a stranger. Nothing in it may make a job read other files of the machine.
"""

import contextlib
import os
import posixpath
import unicodedata
from collections.abc import Iterator, Sequence
from urllib.parse import unquote, urlsplit

from vse.errors import InputError


class AddressError(InputError):
    """An address in a data set that is not below its root."""


class LinkError(AddressError):
    """An address that leads out of its root by a symbolic link, into `folder`."""

    folder: str = ""


class Root(str):
    """The folder that image paths are relative to: a string, a path or an s3:// address.

    Attributes:
        others: further folders, named by keys, that paths and links may lead to.
    """

    others: tuple[str, ...]

    def __new__(cls, folder: str, others: tuple[str, ...] = ()) -> "Root":
        root = super().__new__(cls, folder)
        root.others = others
        return root

    def __reduce__(self) -> tuple[type["Root"], tuple[str, tuple[str, ...]]]:
        return Root, (str(self), self.others)


def below(root: str, uri: str) -> str:
    """The local path or s3:// address of `uri` in `root`, which is a folder or an s3:// address.

    The root itself may be a symbolic link, but links in it may not lead out of it.

    Args:
        root: a folder or an s3:// address. The other folders of a `Root` are allowed too. Empty: any address is
            returned as it is.
        uri: a path relative to the root, or an absolute path, file:// or s3:// address below it.

    Raises:
        AddressError: the address leaves the root.
    """
    folders = (root, *(root.others if isinstance(root, Root) else ()))
    if uri.startswith("s3://") or (root.startswith("s3://") and not os.path.isabs(uri)):
        return _remote_of(folders, uri)
    uri = as_path(uri)
    if not root:
        return uri
    bases = [os.path.abspath(as_path(folder)) for folder in folders if not folder.startswith("s3://")]
    place = os.path.normpath(uri if os.path.isabs(uri) else os.path.join(bases[0], os.path.normpath(uri)))
    if not any(_inside(base, place) for base in bases):
        raise AddressError(f"{uri}: leaves its root {root}; image paths must stay below it")
    try:
        real = os.path.realpath(place)
    except ValueError:
        return place  # a null byte: no file has such a name, and opening it fails with a message
    if not any(_inside(os.path.realpath(base), real) for base in bases):
        error = LinkError(
            f"{uri}: leaves its root {root} through a symbolic link; image paths must stay below it; "
            f"data.links={os.path.dirname(real)} allows links into that folder"
        )
        error.folder = os.path.dirname(real)
        raise error
    return place


def as_path(address: str) -> str:
    """The path that a file:// address names; other addresses unchanged."""
    return unquote(urlsplit(address).path) if address.startswith("file://") else address


def spellings(root: str, uri: str) -> Iterator[str]:
    """Possible addresses of `uri` in `root`: as it is written, then with composed and with decomposed letters.

    A Mac writes `é` as two characters, while a list of captions may have one.
    Raises AddressError as `below` does.
    """
    yield below(root, uri)
    for form in ("NFC", "NFD"):
        if not unicodedata.is_normalized(form, uri):
            with contextlib.suppress(AddressError):  # the root in an absolute address may be spelled otherwise
                yield below(root, unicodedata.normalize(form, uri))


def _inside(base: str, place: str) -> bool:
    return place == base or place.startswith(base.rstrip(os.sep) + os.sep)


def _remote_of(folders: Sequence[str], uri: str) -> str:
    """The address in the first of the folders that it may lie in."""
    for folder in folders[1:]:
        if folder.startswith("s3://") and uri.startswith("s3://"):
            with contextlib.suppress(AddressError):
                return _remote(folder, uri)
    return _remote(folders[0], uri)


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
        raise AddressError(f"{uri}: a name with a question mark is ambiguous on S3, where addresses may have options")
    return f"{base}/{relative}{mark}{options}"
