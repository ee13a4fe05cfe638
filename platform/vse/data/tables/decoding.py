"""Text of a file that says by a byte order mark, or whose user says by a key, how its bytes are encoded."""

import codecs
import contextlib
import re

from vse.errors import InputError

KEY = "data.encoding"
_MARKS = (  # that of UTF-32-LE begins with that of UTF-16-LE
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_C1 = re.compile("[\x80-\x84\x86-\x9f]")  # control characters that no text has; U+0085 is a line end of mainframes


def decode(data: bytes, path: str, encoding: str) -> tuple[str, str]:
    """(text without its byte order mark, name of its encoding).

    Args:
        data: all bytes of the file.
        path: the file, for messages.
        encoding: what the user says, empty for UTF-8. A byte order mark counts by itself.

    Raises:
        InputError: for an unknown encoding, one that the byte order mark contradicts, and bytes that are not valid in
            it, by line.
    """
    name = _named(encoding) if encoding else "utf-8"
    for mark, marked in _MARKS:
        if data.startswith(mark):
            if encoding and not marked.startswith(name):
                raise InputError(
                    f"{KEY}={encoding}: {path} begins with the byte order mark of {marked}; leave {KEY} out"
                )
            data, name = data[len(mark) :], marked
            break
    try:
        text = data.decode(name)
    except UnicodeDecodeError as error:
        wrong, line = data[error.start], data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}: line {line}: is not {name.upper()} text (byte 0x{wrong:02x}); save it as UTF-8, or name its "
            f"encoding with {KEY}, as in {KEY}=cp1252, latin-1 or utf-16"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"{path}: line {line}: holds a null character; if the table is UTF-16, set {KEY}=utf-16-le")
    if name == "iso8859-1" and (control := _C1.search(text)):
        line = text.count("\n", 0, control.start()) + 1
        raise InputError(
            f"{path}: line {line}: byte 0x{ord(control.group()):02x} is a control character in Latin-1; "
            f"set {KEY}=cp1252 for text from Windows"
        )
    return text, name


def _named(encoding: str) -> str:
    """Python's name of an encoding of text."""
    try:
        name = codecs.lookup(encoding).name
        with contextlib.suppress(UnicodeDecodeError):
            b"a".decode(name)  # refuses codecs that give no text, such as base64
    except (LookupError, ValueError):  # a null character in it
        raise InputError(
            f"{KEY}={encoding}: is no encoding that Python knows; for example utf-8, utf-16, latin-1, cp1252"
        ) from None
    return name.removesuffix("-sig")
