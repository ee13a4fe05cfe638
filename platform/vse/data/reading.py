"""Reading files that other programs wrote: encodings, JSON with checked fields, ids, and names of splits."""

import codecs
import contextlib
import functools
import hashlib
import json
import logging
import math
import re
from collections.abc import Mapping
from typing import Any

from vse.errors import InputError
from vse.storage import user_files

log = logging.getLogger(__name__)

ENCODING_KEY = "data.encoding"
SPLITS = ("train", "val", "test")
WITHOUT_SPLITS = "rename or delete that column to split by a hash of the image path"
_SPLIT_MEANINGS = {name: name for name in SPLITS} | {"training": "train", "testing": "test"}
_SPLIT_MEANINGS |= {"restval": "train"}  # of Karpathy's COCO, as all papers but UniVSE train on it
_SPLIT_MEANINGS |= dict.fromkeys(("valid", "validate", "validation", "dev", "devel", "development"), "val")
_BYTE_ORDER_MARKS = (  # UTF-32-LE comes first, because its mark begins with the mark of UTF-16-LE
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NO_TEXT = {  # first bytes, and what to do
    b"PK\x03\x04": "is a spreadsheet or zip archive; export it as CSV",  # .zip, .xlsx and .ods
    b"\xd0\xcf\x11\xe0": "is a spreadsheet or zip archive; export it as CSV",  # .xls
    b"\x1f\x8b": "is compressed; unpack it",
    b"PAR1": "is Parquet; data=hf reads it",
}
_C1 = re.compile("[\x80-\x84\x86-\x9f]")  # control characters, never in text; U+0085 is a line end on mainframes


@functools.cache
def notice(line: str) -> None:
    """Log a line once per process. A job may read its source several times."""
    log.info("%s", line)


def is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8. JSON may hold halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def decode(data: bytes, path: str, encoding: str | None = None) -> tuple[str, str]:
    """The text of a file without its byte order mark, and the name of its encoding.

    Args:
        data: all bytes of the file.
        path: the file, for messages.
        encoding: the user's choice; empty for UTF-8. A byte order mark needs no choice. None if there is no such key.

    Raises:
        InputError: the encoding is unknown or contradicts the byte order mark, or a line is not valid in it.
    """
    for magic, remedy in _NO_TEXT.items():
        if data.startswith(magic):
            raise InputError(f"{path}: {remedy}")
    name = _encoding_name(encoding) if encoding else "utf-8"
    for mark, marked in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            if encoding and not marked.startswith(name):
                raise InputError(
                    f"{ENCODING_KEY}={encoding}: {path} begins with the byte order mark of {marked}; leave "
                    f"{ENCODING_KEY} out"
                )
            data, name = data[len(mark) :], marked
            break
    try:
        text = data.decode(name)
    except UnicodeDecodeError as error:
        wrong, line = data[error.start], data.count(b"\n", 0, error.start) + 1
        key = f", or name its encoding with {ENCODING_KEY}, as in {ENCODING_KEY}=cp1252, latin-1 or utf-16"
        raise InputError(
            f"{path}: line {line}: is not {name.upper()} text (byte 0x{wrong:02x}); save it as UTF-8"
            + ("" if encoding is None else key)
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        key = f"if the table is UTF-16, set {ENCODING_KEY}=utf-16-le"
        raise InputError(
            f"{path}: line {line}: holds a null character; {'save it as UTF-8' if encoding is None else key}"
        )
    if name == "iso8859-1" and (control := _C1.search(text)):
        line = text.count("\n", 0, control.start()) + 1
        raise InputError(
            f"{path}: line {line}: byte 0x{ord(control.group()):02x} is a control character in Latin-1; "
            f"set {ENCODING_KEY}=cp1252 for text from Windows"
        )
    return text, name


def _encoding_name(encoding: str) -> str:
    """Python's name of an encoding of text."""
    try:
        name = codecs.lookup(encoding).name
        with contextlib.suppress(UnicodeDecodeError):
            b"a".decode(name)  # refuses codecs that give no text, such as base64
    except (LookupError, ValueError):  # ValueError: the name holds a null character
        raise InputError(
            f"{ENCODING_KEY}={encoding}: is unknown to Python; expected one such as utf-8, utf-16, latin-1 or cp1252"
        ) from None
    return name.removesuffix("-sig")


def read_json(address: str) -> Any:
    """The content of a JSON file. Raises InputError if the file is missing or broken."""
    data = user_files.read(address)
    try:
        return json.loads(data)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        if reason := user_files.placeholder(data):
            raise InputError(f"{address}: {reason}") from None
        if isinstance(error, json.JSONDecodeError):
            raise InputError(f"{address}: is not complete JSON (line {error.lineno}: {error.msg})") from None
        raise InputError(f"{address}: is not UTF-8 text; expected JSON") from None
    except ValueError:  # Python makes no integer of more than 4,300 digits
        raise InputError(f"{address}: holds an integer of thousands of digits; no data set has one") from None
    except RecursionError:
        raise InputError(f"{address}: is nested too deeply to be a data set") from None


def is_json_lines(address: str) -> bool:
    """Whether a file holds JSON objects line by line: its first line is one, and others follow."""
    first, _, rest = user_files.read(address).strip().partition(b"\n")
    try:
        return bool(rest) and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def field(item: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    """`item[key]` of a JSON object.

    Args:
        item: the object, as read.
        key: the wanted key.
        kind: one type or several, of which the value must have one.
        where: file and entry, for messages.

    Raises:
        InputError: `item` is no object, lacks the key, or holds a value of another type.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    expected = " or ".join(k.__name__ for k in kinds)
    if not isinstance(item, dict):
        raise InputError(f"{where}: expected an object with {key!r}, got {type(item).__name__}")
    if key not in item:
        raise InputError(f"{where}: lacks the key {key!r} ({expected})")
    if not isinstance(item[key], kinds) or isinstance(item[key], bool):
        raise InputError(f"{where}: {key!r} must be {expected}, got {type(item[key]).__name__}")
    return item[key]


def texts_in(value: Any, where: str) -> list[str | None]:
    """The texts of a text or a list of texts. Raises InputError naming `where` for anything else."""
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if text is not None and not isinstance(text, str):
            raise InputError(f"{where}: expected text or a list of texts, got {type(text).__name__}")
    return texts


def optional_id(item: Mapping[str, Any], key: str, where: str) -> str | None:
    """An id as text: "7" for 7, "7" and 7.0. None if the key is absent, null or NaN.

    Args:
        item: an object of a JSON file or a row of a table.
        key: the key of the id.
        where: file and entry, for messages.

    Raises:
        InputError: the value is neither text nor a whole number.
    """
    value = item.get(key)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InputError(f"{where}: {key!r} must be a whole number or text, got {value!r:.40}")
    return str(value)


def required_id(item: Any, key: str, where: str) -> str:
    """As `optional_id`, of an object that must have the id. Raises InputError for one that has none."""
    value = optional_id(item, key, where) if isinstance(item, dict) else None
    return field(item, key, (int, str), where) if value is None else value


class SplitNames:
    """Translates the split names of one file: `dev`, `validation` and `Train` mean val, val and train.

    Args:
        path: the file, for messages.
        others: further names that the source understands itself.
        column: the column with the names, without which a hash decides; empty if it cannot be left out.
    """

    def __init__(self, path: str, *others: str, column: str = "") -> None:
        self._path, self._column = path, column
        self._meanings = _SPLIT_MEANINGS | {name: name for name in others}
        self._accepted = (*SPLITS, *others)
        self._translated: dict[str, str] = {}

    def split(self, name: str, where: str) -> str:
        """train, val, test or one of the other names. Raises InputError for an unknown name."""
        meaning = self._meanings.get(name.strip().lower())
        if meaning is None:
            column = f" in column {self._column!r}" if self._column else ""
            remedy = f"; {WITHOUT_SPLITS}" if self._column else ""
            expected = f"expected one of {', '.join(self._accepted)}"
            raise InputError(f"{where}: unknown split {name!r}{column}; {expected}{remedy}")
        if name != meaning:
            self._translated[name] = meaning
        return meaning

    def meaning(self, name: str) -> str:
        """The split that a name means; empty if it means none."""
        return self._meanings.get(name.strip().lower(), "")

    def log(self) -> None:
        """Log one line with all translated names, if there are any."""
        if self._translated:
            names = ", ".join(f"{name!r} as {meaning}" for name, meaning in self._translated.items())
            notice(f"{self._path}: reading the splits {names}")


def drawn_split(image: str, seed: int, val: float, test: float) -> str:
    """The split of an image by a hash of its id, so that added images do not move others.

    Args:
        image: its id.
        seed: which images go to validation and test.
        val: share of the images for validation.
        test: share of the images for the test.
    """
    digest = hashlib.sha256(f"{seed} {image}".encode("utf-8", "surrogatepass")).digest()
    share = int.from_bytes(digest[:8], "big") / 2**64
    if share < val:
        return "val"
    return "test" if share < val + test else "train"
