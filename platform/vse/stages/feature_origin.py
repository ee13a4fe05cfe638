"""What stored features were made of: the code of their backbone, and the files of the images.

Neither is in the fingerprint of a store. The code may be edited without effect, and the folder of images may be gone.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence

from vse.data.containers import split_entry
from vse.data.images import MISSING
from vse.data.places import AddressError, spellings
from vse.data.records import Image, Records
from vse.data.regions import split_uri
from vse.errors import InputError
from vse.features.store import FeatureStore
from vse.storage import user_files as named_files
from vse.storage.folder import Folder

_BEGUN = "begun_by.json"  # which code of the backbone made the first shards
_IMAGES = 8  # compared before features are used again
_MISSING = 100  # missing images that are looked for again
_SPAN = 1 << 16  # bytes compared at both ends of a file


def begun_by(folder: Folder, code: str, anew: bool) -> str:
    """The code that made the first shards of a store, which are kept when other code makes the rest.

    Args:
        folder: of the store.
        code: digest of the backbone's code in this process.
        anew: whether the store has no shard yet; then `code` is noted as the first.

    Returns:
        The noted digest, or `code` if none was noted.
    """
    if not anew:
        return _code_in(folder) or code
    folder.write_json(_BEGUN, {"code": code})
    return code


def _code_in(folder: Folder) -> str:
    """The code that a folder's first shards were made by; empty if nothing says so, as in a file that a power cut
    emptied: nobody needs it to go on."""
    try:
        return str(folder.read_json(_BEGUN)["code"])
    except (FileNotFoundError, InputError, KeyError, TypeError):
        return ""


def image_samples(images: Sequence[Image], located: Iterable[Image], root: str) -> dict[str, list[str]]:
    """Path below the root, size and digest of the files of some images, by id; for `refuse_other_images`.

    Args:
        images: of which some are chosen.
        located: those whose paths are known to differ from what the data set says, perhaps with others.
        root: folder of the images.
    """
    chosen = {image.id: image for image in _spread(images, _IMAGES)}
    chosen |= {image.id: image for image in located if image.id in chosen}
    files = {id_: _file(image)[0] for id_, image in chosen.items()}
    digests = _digests(root, files.values())
    return {id_: [file, digests[file][1]] for id_, file in files.items() if file in digests}


def refuse_other_images(store: FeatureStore, root: str) -> None:
    """Raises InputError if a file of `image_samples` is now another one. Files that cannot be read are passed over."""
    images = store.manifest["made_by"].get("images", {})
    before = dict(sample for id_, sample in images.items() if id_ not in store.rejects)
    for file, (address, digest) in _digests(root, before).items():
        if digest != before[file]:
            raise InputError(
                f"{address}: is not the file that the features in {store.folder} were made of; rename the data set "
                "(its table, JSON file or folder) to keep features of both, or remove that folder to make them again"
            )


def missing_images_are_there(store: FeatureStore, records: Records, root: str) -> bool:
    """Whether a file that was missing when the features were made is there now.

    Entries of containers do not count, because the file that is missing may be one that the container names.

    Args:
        store: the features, with the images that were rejected. Some of the missing ones are looked for.
        records: the images with their addresses.
        root: folder or s3:// address that these are relative to.
    """
    missing = [image for image in records.images if store.rejects.get(image.id) == MISSING]
    files = [file for file, entry in map(_file, _spread(missing, _MISSING)) if not entry]
    return any(True for _ in _existing(root, files))


def _file(image: Image) -> tuple[str, str]:
    """(address of the file of an image, fragment with the entry of it that the image is)."""
    return split_entry(split_uri(image.uri)[0])


def _spread(images: Sequence[Image], number: int) -> Sequence[Image]:
    """At most so many of the images, from the whole of them."""
    return images[:: math.ceil(len(images) / number) or 1]


def _digests(root: str, files: Iterable[str]) -> dict[str, tuple[str, str]]:
    """(address, size and digest) of the files that can be read."""
    digests = dict[str, tuple[str, str]]()
    with contextlib.suppress(OSError, ValueError):
        for file, address in _existing(root, files):
            digests[file] = address, named_files.digest_of_ends(address, _SPAN)
    return digests


def _existing(root: str, files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Files below a root with their addresses, as far as a disk or a store answers."""
    with contextlib.suppress(OSError, ValueError):
        for file in files:
            with contextlib.suppress(AddressError):
                if address := next(filter(named_files.is_file, spellings(root, file)), ""):
                    yield file, address
