"""The only reader of images: turns a URI into an 8-bit RGB picture, or into the reason why it cannot be read."""

import errno
import io
import os
import re
import stat
import warnings
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import PIL.ExifTags
import PIL.Image
import PIL.ImageOps

from vse.data.containers import EntryError, file_of, read_entry, split_entry
from vse.data.image_files import candidate_paths, unreadable_format
from vse.data.regions import cropped, sides_of, split_uri
from vse.data.scenes.render import render
from vse.errors import StorageError, first_line
from vse.storage.folder import Folder
from vse.storage.user_files import is_remote, placeholder, unfetched_link

MISSING = "file is missing"  # a reason that may mean the wrong folder
_UNKNOWN = "not an image of a known format"
MAX_PIXELS = 100_000_000  # a larger picture is taken for a decompression bomb
# Errors of a disk, a file server or this process. They say nothing about the picture, so it must not be rejected.
_NOT_OF_THE_FILE = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN}
_NOT_OF_THE_FILE |= {errno.ECONNRESET, errno.ECONNREFUSED, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}


class UnreadableImage(Exception):  # noqa: N818  (recorded as a reject; not an error of the program)
    """An image that cannot be decoded, with the reason in one line. Extraction records it and continues."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def open_image(uri: str, root: str = "") -> PIL.Image.Image:
    """The image at a URI, RGB, turned upright as its EXIF data says, with transparent parts white.

    Args:
        uri: a `scene:` address, a file:// or s3:// address, or a path. A fragment may name an entry of that file
            (`vse.data.containers`), a region of the image (`vse.data.regions`), or both.
        root: the folder or s3:// address that a path is relative to. If there is no such file, the one file below it
            that the path can mean is read (`candidate_paths`).

    Raises:
        AddressError: the path leaves its root.
        UnreadableImage: the file is missing, empty, truncated, too large or not an image.
        StorageError: the disk or file server failed.
        CredentialsError: the store refused the credentials.
    """
    uri, fragment = split_uri(uri)
    if sides := sides_of(fragment):
        return cropped(_whole(uri, root), sides)
    if uri.startswith("scene:"):
        return PIL.Image.fromarray(render(uri))
    tried: list[str] = []
    file, entry = split_entry(uri)
    while file:
        named = ""
        for place in candidate_paths(root, file):
            tried.append(place)
            data = _read(place, entry)
            if isinstance(data, bytes):
                return _decoded(data, place)
            if data is not None:
                named = data
                break
        file, entry = named, ""  # the container names a file
    missing = "web addresses are not read; download the file" if re.match(r"https?://", uri) else MISSING
    raise UnreadableImage(next(filter(None, map(unfetched_link, tried)), missing))


def local_file(uri: str, root: str = "") -> str:
    """The path of this machine where the image at a URI lies, or its container; empty if it is rendered or on S3.

    Args:
        uri: As for `open_image`.
        root: As for `open_image`.

    Raises:
        AddressError: The path leaves its root.
    """
    file, _ = file_of(uri)
    places = () if file.startswith("scene:") else candidate_paths(root, file)
    return next((place for place in places if not is_remote(place) and os.path.exists(place)), "")


def upright_size(path: str) -> tuple[tuple[int, int], int] | None:
    """Width and height of the upright picture in a file, and the EXIF orientation that it is stored in, by its header.

    None if the file cannot be read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with PIL.Image.open(path) as picture:
                orientation = picture.getexif().get(PIL.ExifTags.Base.Orientation, 1)
                return (picture.size[::-1] if orientation in range(5, 9) else picture.size), orientation
    except Exception:  # as for the picture itself, which extraction reports
        return None


@lru_cache(maxsize=4)
def _whole(uri: str, root: str) -> PIL.Image.Image:
    """A picture whose regions are read one after another."""
    return open_image(uri, root)


def decode_image(data: bytes) -> PIL.Image.Image:
    """The picture in the bytes of a file, as `open_image` gives it. Raises UnreadableImage."""
    if not data:
        raise UnreadableImage("file is empty")
    if zeros_for_end(data):
        raise UnreadableImage("is cut off: zeros stand in place of its end")
    return _decode(data)


def _decoded(data: bytes, place: str) -> PIL.Image.Image:
    """The picture in the bytes of the file at `place`, whose ending may explain why its format is unknown."""
    try:
        return decode_image(data)
    except UnreadableImage as error:
        reason = unreadable_format(place) if error.reason == _UNKNOWN else ""
        raise UnreadableImage(reason or error.reason) from None


def _read(place: str, entry: str = "") -> bytes | str | None:
    """The bytes at a path or address or of an entry there, None if there is no file; a path if an entry names one."""
    remote = is_remote(place)
    if remote and not entry:
        return _fetch(place)
    try:
        if not remote and not stat.S_ISREG(os.stat(place).st_mode):
            raise UnreadableImage("is not a file")  # a pipe would keep its reader waiting forever
        if entry:
            return read_entry(place, entry)
        with open(place, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except EntryError as error:
        raise UnreadableImage(str(error)) from None
    except OSError as error:
        if error.errno in _NOT_OF_THE_FILE:
            raise StorageError(f"{place}: cannot be read now: {error.strerror}") from None
        raise UnreadableImage(f"file cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a null byte in the path
        raise UnreadableImage(f"file cannot be read: {error}") from None


def _fetch(address: str) -> bytes | None:
    """The object at an address. Errors of the network and of credentials are raised as they are."""
    place, mark, options = address.partition("?")
    folder, _, name = place.rpartition("/")
    try:
        return Folder.open(folder + mark + options).read_bytes(name)
    except FileNotFoundError:
        return None


def _decode(data: bytes) -> PIL.Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged metadata is not worth a line per image
            with PIL.Image.open(io.BytesIO(data)) as picture:
                if picture.width * picture.height > MAX_PIXELS:
                    raise UnreadableImage(f"{picture.width} x {picture.height} pixels are more than {MAX_PIXELS}")
                picture.load()
                return upright_rgb(picture)
    except UnreadableImage:
        raise
    except PIL.UnidentifiedImageError:
        raise UnreadableImage(placeholder(data) or _UNKNOWN) from None
    except PIL.Image.DecompressionBombError:
        raise UnreadableImage(f"more than {MAX_PIXELS} pixels") from None
    except Exception as error:  # decoders meet damaged bytes with almost any exception
        if isinstance(error, OSError) and (whole := with_end(data)) is not None:
            return _decode(whole)
        raise _undecodable(error) from None


def opened_rgb(picture: PIL.Image.Image) -> PIL.Image.Image:
    """An image of Pillow that others opened or made, as `open_image` gives it. Raises UnreadableImage."""
    if not (picture.width and picture.height):
        raise UnreadableImage("has no pixels")
    try:
        picture.load()
        return upright_rgb(picture)
    except MemoryError:
        raise
    except AssertionError:  # all that Pillow says
        raise UnreadableImage("its file was closed before it was read; call load() first") from None
    except Exception as error:  # as for the bytes of files
        raise _undecodable(error) from None


def _undecodable(error: Exception) -> UnreadableImage:
    return UnreadableImage(f"cannot be decoded: {type(error).__name__}: {first_line(error)}")


def upright_rgb(picture: PIL.Image.Image) -> PIL.Image.Image:
    """The picture in RGB, turned upright as its EXIF data says, on white where it is transparent."""
    return _rgb(_upright(picture))


def _upright(picture: PIL.Image.Image) -> PIL.Image.Image:
    try:
        return PIL.ImageOps.exif_transpose(picture)
    except Exception:  # unreadable EXIF data is no reason to lose the picture
        return picture


def _rgb(picture: PIL.Image.Image) -> PIL.Image.Image:
    if picture.mode.startswith("I") or picture.mode == "F":
        values = np.nan_to_num(np.asarray(picture).astype(np.float64))
        return PIL.Image.fromarray(_eight_bits(values, picture.mode)).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        ground = PIL.Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return PIL.Image.alpha_composite(ground, layer).convert("RGB")
    return picture.convert("RGB")


def _eight_bits(values: np.ndarray, mode: str) -> np.ndarray:
    """Deep greyscale (height, width) as uint8. Mode "I" holds 8-bit or 16-bit values, "F" bytes or shares of one."""
    top = values.max(initial=0.0)
    if mode.startswith("I;16") or top > 255:
        values = values / 257
    elif mode == "F" and top <= 1:
        values = values * 255
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


START, END = b"\xff\xd8", b"\xff\xd9"
# Bits of a scan, once more after each of the eight markers at which a decoder may wait for the scan to go on
_BITS = (b"\x55" * 4096, b"\xaa" * 4096)
_FILLERS = tuple(_BITS[k % 2] + bytes((0xFF, 0xD0 + k)) + _BITS[k % 2] for k in range(8))
_ZEROS = bytes(16)
_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])")  # none of those within the data of a scan
_TABLES, _SCAN, _END = (0xC4, 0xC8, 0xCC), 0xDA, 0xD9  # of the codes from C0 to CF all but these begin a frame


def with_end(data: bytes) -> bytes | None:
    """The file with its end marker if it lacks nothing but that marker, or bits that do not change the picture.

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
    """Whether a JPEG file ends in zeros instead of its end marker, as after unfinished downloads and power cuts.

    Decoders read such zeros as part of the picture. Zeros after the end marker do no harm.
    """
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
