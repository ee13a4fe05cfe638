"""JPEG files that were cut off at their very end: whether anything of the picture is missing.

Decoders draw what is missing in grey and do not say so. Here several fillers are put in its place: if the picture is
the same with each of them, nothing that it needs was missing.
"""

import io
import re
from collections.abc import Iterator

import PIL.Image

START, END = b"\xff\xd8", b"\xff\xd9"
# Bits of a scan, once more after each of the eight markers at which a decoder may wait for the scan to go on
_BITS = (b"\x55" * 4096, b"\xaa" * 4096)
_FILLERS = tuple(_BITS[k % 2] + bytes((0xFF, 0xD0 + k)) + _BITS[k % 2] for k in range(8))
_ZEROS = bytes(16)
_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])")  # none of those within the data of a scan
_TABLES, _SCAN, _END = (0xC4, 0xC8, 0xCC), 0xDA, 0xD9  # of the codes from C0 to CF all but these begin a frame


def with_end(data: bytes) -> bytes | None:
    """The file with its end marker if that marker, or what stands for nothing in the picture, is all that it lacks.

    None for any other file: no JPEG, not cut, or cut within the picture.
    """
    if not data.startswith(START) or data.endswith((END, _ZEROS)) or not _all_scans(data):
        return None
    data = data.rstrip(b"\xff")  # half of a marker
    try:
        alone = _pixels(data + END)
        return data + END if all(_pixels(data + filler + END) == alone for filler in _FILLERS) else None
    except Exception:  # decoders meet damaged bytes with almost any exception
        return None


def zeros_for_end(data: bytes) -> bool:
    """Whether the file of a JPEG goes on in zeros where its end should be, as unfinished downloads and power cuts leave
    it. Decoders take zeros for the picture; those that follow the end marker are of no account."""
    cut = data.startswith(START) and data.endswith(_ZEROS)
    return cut and all(code != _END for code, _ in _markers(data))


def _pixels(data: bytes) -> bytes:
    with PIL.Image.open(io.BytesIO(data)) as picture:
        return picture.tobytes()


def _all_scans(data: bytes) -> bool:
    """Whether the scans that have begun code all coefficients of all components to the last bit.

    A progressive file may be cut between two scans: it then shows all of its rows, in lower quality.
    """
    missing: dict[int, set[int]] = {}  # component -> coefficients without their last bit
    try:
        for code, body in _markers(data):
            if 0xC0 <= code <= 0xCF and code not in _TABLES:
                missing = {component: set(range(64)) for component in body[6::3]}
            elif code == _SCAN:
                stop = 1 + 2 * body[0]
                first, last, bits = body[stop : stop + 3]
                for component in body[1:stop:2] if bits & 15 == 0 else ():
                    missing[component] -= set(range(first, last + 1))
    except (KeyError, IndexError, ValueError):  # a header that is cut or damaged
        return False
    return bool(missing) and not any(missing.values())


def _markers(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Code and content of each segment, up to the end marker."""
    at = len(START)
    while marker := _MARKER.search(data, at):
        code, start = marker[1][0], marker.end()
        at = start + int.from_bytes(data[start : start + 2])
        yield code, data[start + 2 : at]
        if code == _END:
            return
