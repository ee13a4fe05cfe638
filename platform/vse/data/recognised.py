"""Which source reads what lies in a folder or file, told by names, and of JSON by its content."""

from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any

from vse.data.sources import read_json
from vse.errors import InputError
from vse.storage import user_files as named_files
from vse.storage.files import local_path
from vse.storage.folder import Folder

_TABLES = ("*.csv", "*.tsv", "*.json", "*.jsonl")
_FORMS = (
    "dataset_*.json (karpathy), captions_*.json there or in annotations (coco), *_ims.npy (precomp), or one table "
    "(.csv, .tsv, .json, .jsonl)"
)


def recognised(address: str, source: str = "") -> tuple[str, dict[str, str]]:
    """The source of a data set, and its keys (less `data.`) that name it.

    Args:
        address: a folder or a file, as a path or an s3:// address. A file of COCO's captions is a test split.
        source: the name of the source, if it is known.

    Raises:
        InputError: nothing lies there, or nothing that is recognised.
    """
    address = address if named_files.is_remote(address) else str(local_path(address).absolute())
    if named_files.is_file(address):
        folder, file = Folder.of_file(address)
        source = source or _of_file(folder.address(file))
    else:
        folder, file = Folder.open(address), ""
        if not folder.exists():
            raise InputError(f"{address}: no such file or folder")
        source = source or _of_folder(folder, address)
    if source == "coco":
        return source, _coco_file(folder, file) if file else _coco_folder(folder)
    if source == "table":
        return source, {"file": folder.address(file or _table(folder, address))}
    if source == "precomp" and file:
        raise InputError(f"{address}: is a file; name the folder of train_ims.npy, dev_ims.npy or test_ims.npy")
    if source == "scenes":
        raise InputError(f"{address}: rendered scenes lie nowhere; leave the path out")
    return source, {"root": folder.uri, **({"file": folder.address(file)} if file else {})}


def _of_file(address: str) -> str:
    name = Folder.of_file(address)[1]
    if not fnmatch(name.lower(), "*.json"):
        return "table"
    content = read_json(address) if not fnmatch(name, "dataset_*") and not fnmatch(name, "captions_*") else None
    if fnmatch(name, "captions_*") or _has(content, "annotations"):
        return "coco"
    return "karpathy" if fnmatch(name, "dataset_*") or _has(content, "images") else "table"


def _has(content: Any, key: str) -> bool:
    return isinstance(content, dict) and isinstance(content.get("images"), list) and isinstance(content.get(key), list)


def _of_folder(folder: Folder, address: str) -> str:
    names = folder.names()
    if any(fnmatch(name, "dataset_*.json") for name in names):
        return "karpathy"
    if any(_captions(folder)):
        return "coco"
    if any(fnmatch(name, "*_ims.npy") for name in names):
        return "precomp"
    return "table" if _table(folder, address) else ""


def _table(folder: Folder, address: str) -> str:
    found = [name for name in folder.names() if any(fnmatch(name.lower(), form) for form in _TABLES)]
    if len(found) != 1:
        several = f"holds several tables, {', '.join(found)}; name one of them" if found else f"expected {_FORMS}"
        raise InputError(f"{address}: {several}")
    return found[0]


def _captions(folder: Folder) -> list[str]:
    """COCO's caption files, below the folder."""
    below = folder.child("annotations")
    inner = [f"annotations/{name}" for name in below.names()] if folder.exists("annotations") or below.exists() else []
    return [name for name in (*inner, *folder.names()) if fnmatch(PurePosixPath(name).name, "captions_*.json")]


def _coco_folder(folder: Folder) -> dict[str, str]:
    """The files of its splits; those of which there are several are named by hand."""
    keys, files = {"root": folder.uri}, _captions(folder)
    for split in ("train", "val"):
        of_split = [name for name in files if PurePosixPath(name).name.startswith(f"captions_{split}")]
        if len(of_split) < 2:
            keys[split] = of_split[0] if of_split else ""
        if len(of_split) == 1:
            keys[f"{split}_images"] = _images(of_split[0])
    return keys


def _coco_file(folder: Folder, file: str) -> dict[str, str]:
    root = folder.uri
    if folder.name == "annotations":
        root = Folder.of_file(folder.uri)[0].uri
    return {"root": root, "train": "", "val": "", "test": folder.address(file), "test_images": _images(file)}


def _images(file: str) -> str:
    """The folder of its images, as COCO names it: train2014 of captions_train2014.json."""
    return PurePosixPath(file).stem.removeprefix("captions_")
