"""Features in .npy, .npz and .pt files, read as numbers only: nothing in the files is executed."""

import pickle
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vse.data.ragged import Ragged
from vse.errors import InputError, first_line
from vse.storage import user_files as named_files
from vse.storage.user_files import refuse_placeholder

ENDINGS = (".npy", ".npz", ".pt", ".pth")
_NAMED = re.compile(r"(.+\.(?:npz|pt|pth)(?:\?[^#]*)?):([^:/]+)", re.IGNORECASE)
_COUNTS = ("lengths", "offsets")  # arrays that assign regions to images
_SHOWN = 8  # names in a message


def split_name(file: str) -> tuple[str, str]:
    """(file, name of an array in it) of `feats.npz:features`; the name is empty if there is none."""
    named = _NAMED.fullmatch(file)
    return (named[1], named[2]) if named else (file, "")


def read_array(address: str, name: str = "") -> np.ndarray | Ragged:
    """The array in a file, or rows of unequal numbers of regions.

    A .npy file is mapped, and so is a .pt file; arrays of a .npz file are read into memory. Regions of unequal number
    are `features` (all regions, channels) next to `lengths` (images,) or `offsets` (images + 1,), in a .npz file or in
    a dictionary of tensors, or a list of tensors (regions, channels) in a .pt file. `features` may also be padded
    (images, most regions, channels), next to `lengths`.

    Args:
        address: path or s3:// address; a copy of the latter stays on this node.
        name: of one array in a file of several.

    Raises:
        InputError: the file is missing or damaged, is no array of numbers, or holds several arrays and none is named.
    """
    refuse_placeholder(address)
    path = named_files.local(address)
    try:
        if path.suffix.lower() in (".pt", ".pth"):
            return _rows(_of_torch(path, address), name, address)
        with path.open("rb") as stream:
            head = stream.read(6)
            stream.seek(0)
            if head.startswith(b"PK"):
                with np.load(stream, allow_pickle=False) as arrays:
                    return _rows(arrays, name, address)
        if head != b"\x93NUMPY":
            raise InputError(f"{address}: is not an array file; expected .npy, .npz or .pt")
        return _rows(np.load(path, mmap_mode="r", allow_pickle=False), name, address)
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if "object" in str(error).lower():
            raise InputError(f"{address}: {_OBJECTS}") from None
        raise InputError(f"{address}: not a readable array file ({first_line(error)})") from None


_OBJECTS = (
    "holds Python objects, which are stored as a pickle, and reading a pickle may run code; write rows of unequal "
    "length as numbers: rows = numpy.load(FILE, allow_pickle=True); numpy.savez('features.npz', "
    "features=numpy.concatenate(list(rows)), lengths=[len(row) for row in rows])"
)


def _of_torch(path: Path, address: str) -> Any:
    """What torch.save wrote, if it is tensors in lists and dictionaries."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Detected pickle protocol")  # the refusal below says enough
            return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError:  # torch's own advice is to trust the file
        raise InputError(
            f"{address}: holds more than tensors, and reading a pickle may run code; expected a tensor, a list of "
            "tensors, or tensors by name"
        ) from None
    except (RuntimeError, KeyError) as error:
        raise InputError(f"{address}: not a readable array file ({first_line(error)})") from None


def _rows(content: Any, name: str, where: str) -> np.ndarray | Ragged:
    if isinstance(content, Mapping):
        return _chosen({str(key): key for key in content}, content, name, where)
    if name:
        raise InputError(f"{where}: holds one array without a name; leave out :{name}")
    return _numbers(content, where)


def _chosen(keys: Mapping[str, Any], arrays: Mapping[Any, Any], name: str, where: str) -> np.ndarray | Ragged:
    """The named array, or the only one; ragged if the file has the number of regions of each image."""
    others = [key for key in keys if key not in _COUNTS]
    listed = ", ".join(others[:_SHOWN]) + (f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else "")
    if name and name not in keys:
        raise InputError(f"{where}: holds no array {name!r}; it has {listed or 'none'}")
    if not name and len(others) != 1:
        example = "features" if "features" in others or not others else others[0]
        raise InputError(
            f"{where}: expected one array, found {listed or 'none'}; name one: {Path(where).name}:{example}#17 as the "
            f"image of a table, or data.array={example} of data=precomp"
        )
    features = _numbers(arrays[keys[name or others[0]]], where)
    counts = next((key for key in _COUNTS if key in keys), None)
    if counts is None or isinstance(features, Ragged):
        return features
    return _ragged(features, np.asarray(arrays[keys[counts]]), counts, where)


def _ragged(features: np.ndarray, counts: np.ndarray, kind: str, where: str) -> Ragged:
    lengths = np.diff(counts) if kind == "offsets" and counts.ndim == 1 else counts
    regular = counts.ndim == 1 and counts.dtype.kind in "iu" and (lengths >= 0).all()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64) if regular else np.zeros(1, np.int64)
    if regular and features.ndim == 3 and len(features) == len(lengths) and lengths.max() <= features.shape[1]:
        return Ragged(features[np.arange(features.shape[1]) < lengths[:, None]], offsets)
    starts_at_zero = kind == "lengths" or not len(counts) or counts[0] == 0
    if not (regular and features.ndim == 2 and offsets[-1] == len(features) and starts_at_zero):
        raise InputError(
            f"{where}: {kind} {counts.dtype} {counts.shape} do not fit features {features.shape}; expected features "
            "(all regions, channels) with lengths (images,) or offsets (images + 1,) that add up to all regions"
        )
    return Ragged(features, offsets)


def _numbers(content: Any, where: str) -> np.ndarray | Ragged:
    """Tensors, and lists of them, as arrays."""
    if isinstance(content, np.ndarray):
        return content
    if isinstance(content, Tensor) and content.layout == torch.strided:
        content = content.detach()
        return (content.float() if content.dtype == torch.bfloat16 else content).numpy()
    if isinstance(content, Sequence) and not isinstance(content, str):
        return _listed(list(_arrays(content, where)), where)
    raise InputError(f"{where}: expected a tensor or a list of tensors, got {type(content).__name__}")


def _arrays(content: Sequence[Any], where: str) -> Iterator[np.ndarray]:
    for row, item in enumerate(content):
        if not isinstance(item, Tensor):
            raise InputError(f"{where}: row {row} is a {type(item).__name__}; expected a list of tensors")
        array = _numbers(item, where)
        assert isinstance(array, np.ndarray)
        yield array


def _listed(rows: list[np.ndarray], where: str) -> np.ndarray | Ragged:
    shapes = {row.shape for row in rows}
    if len(shapes) == 1:
        return np.stack(rows)
    odd = next((k for k, row in enumerate(rows) if row.ndim != 2 or row.shape[1:] != rows[0].shape[1:]), None)
    if odd is not None or not rows:
        shape = f"row {odd} is {rows[odd].shape}, the first {rows[0].shape}" if odd is not None else "the list is empty"
        raise InputError(
            f"{where}: {shape}; expected tensors (regions, channels) that differ only in the number of regions"
        )
    return Ragged(np.concatenate(rows), np.cumsum([0, *map(len, rows)]))
