"""What lies in place of a binary file that was never fetched: a pointer of Git LFS or git-annex, a web page, nothing.

Decoders call all of these damaged. Here they get one clause that says what is there and how to fetch the file.
"""

import os
import re

from vse.errors import InputError
from vse.storage import user_files as named_files

SPAN = 1024  # bytes at the start of a file that tell; pointers are shorter
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype html|html|head|error)\b")
_ANNEX = b"annex/objects/"
EMPTY = "file is empty; copy or download it again"
_LFS_POINTER = "is a Git LFS pointer, not the file itself; run `git lfs pull` in its repository"
_ANNEX_POINTER = "is a git-annex pointer, not the file itself; run `git annex get` in its repository"
_WEB_PAGE = "is an HTML or XML page, as failed downloads leave them; download the file again"


def placeholder(head: bytes) -> str:
    """What a file is if its first bytes (`SPAN` of them, or all) show that it only stands for a binary one, with the
    way to fetch that; empty for any other file."""
    head = head[:SPAN]
    if not head:
        return EMPTY
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        return _LFS_POINTER
    if _ANNEX in head.partition(b"\n")[0] and head.lstrip(b"./").startswith((b"annex/", b"git/annex/")):
        return _ANNEX_POINTER
    return _WEB_PAGE if _PAGE.match(head.lower()) else ""


def unfetched_link(path: str | os.PathLike[str]) -> str:
    """The same for a local path that is a link to content of git-annex which is not there; empty for any other path."""
    try:
        target = os.fsencode(os.readlink(path))
    except (OSError, ValueError):  # no link, or no path
        return ""
    return _ANNEX_POINTER if _ANNEX in target and not os.path.exists(path) else ""


def refuse_placeholder(address: str, where: str = "") -> None:
    """Raises InputError, which begins with `where` or else the address, if a placeholder is at a path or s3:// address.

    A path or address where nothing is passes: whoever opens it says so.
    """
    told = ""
    if named_files.is_file(address):
        told = placeholder(named_files.ends(address, SPAN)[1])
    elif not named_files.is_remote(address):
        told = unfetched_link(named_files.local(address))
    if told:
        raise InputError(f"{where or address}: {told}")
