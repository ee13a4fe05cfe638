"""The only reader of images: what a URI points to becomes an 8-bit RGB picture, or a stated reason why not."""

import errno
import io
import os
import stat
import warnings

import numpy as np
import PIL.Image
import PIL.ImageOps

from vse.data.cut_jpeg import with_end, zeros_for_end
from vse.data.image_files import places_of
from vse.data.scenes.render import render
from vse.errors import StorageError, first_line
from vse.storage.folder import Folder
from vse.storage.user_files import placeholder, unfetched_link

MISSING = "file is missing"  # a reason that may mean the wrong folder
MAX_PIXELS = 100_000_000  # a larger picture is taken for a decompression bomb
# What a disk, a file server or this process suffers from, whichever picture it asks for: kept as a finding about each
# that was tried meanwhile, an hour's trouble would cost these for good.
_NOT_OF_THE_FILE = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOTCONN}
_NOT_OF_THE_FILE |= {errno.ECONNRESET, errno.ECONNREFUSED, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}


class UnreadableImage(Exception):  # noqa: N818  (a finding about data, recorded as a reject, not a fault of the program)
    """An image that cannot be decoded, with the reason in one line; extraction records it and goes on."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def open_image(uri: str, root: str = "") -> PIL.Image.Image:
    """The picture at a URI, RGB, turned upright as its EXIF data says, on white where it is transparent.

    `uri` is a `scene:` address, a file:// or s3:// address, or a path: below `root` if one is given (a folder or an
    s3:// address), otherwise the one file there that it can mean (`places_of`). Raises AddressError for a path that
    leaves its root, UnreadableImage for everything that a single bad file can cause: missing, empty, truncated, no
    image, too large, and StorageError or what a store raises (CredentialsError) for what is no fault of it.
    """
    if uri.startswith("scene:"):
        return PIL.Image.fromarray(render(uri))
    tried: list[str] = []
    for place in places_of(root, uri):
        tried.append(place)
        if (data := _read(place)) is not None:
            return decode_image(data)
    raise UnreadableImage(next(filter(None, map(unfetched_link, tried)), MISSING))


def decode_image(data: bytes) -> PIL.Image.Image:
    """The picture in the bytes of a file, as `open_image` gives it. Raises UnreadableImage."""
    if not data:
        raise UnreadableImage("file is empty")
    if zeros_for_end(data):
        raise UnreadableImage("is cut off: zeros stand in place of its end")
    return _decode(data)


def _read(place: str) -> bytes | None:
    """The bytes at a path or address, None where nothing is there."""
    if place.startswith("s3://"):
        return _fetch(place)
    try:
        if not stat.S_ISREG(os.stat(place).st_mode):
            raise UnreadableImage("is not a file")  # a pipe would keep its reader waiting forever
        with open(place, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _NOT_OF_THE_FILE:
            raise StorageError(f"{place}: cannot be read now: {error.strerror}") from None
        raise UnreadableImage(f"file cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a null byte in the path
        raise UnreadableImage(f"file cannot be read: {error}") from None


def _fetch(address: str) -> bytes | None:
    """The object at an address. What a network or expired credentials do is no fault of one image, and goes through."""
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
                return _rgb(_upright(picture))
    except UnreadableImage:
        raise
    except PIL.UnidentifiedImageError:
        raise UnreadableImage(placeholder(data) or "not an image of a known format") from None
    except PIL.Image.DecompressionBombError:
        raise UnreadableImage(f"more than {MAX_PIXELS} pixels") from None
    except Exception as error:  # decoders meet damaged bytes with almost any exception
        if isinstance(error, OSError) and (whole := with_end(data)) is not None:
            return _decode(whole)
        raise UnreadableImage(f"cannot be decoded: {type(error).__name__}: {first_line(error)}") from None


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
