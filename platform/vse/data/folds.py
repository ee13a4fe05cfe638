"""Other arrangements of the same records: cross-validation folds and smaller sets."""

import hashlib
from dataclasses import replace

from vse.data.records import Records
from vse.errors import InputError

_POOL = ("train", "val")


def cross_validated(records: Records, folds: int, fold: int) -> Records:
    """Records whose `val` split is fold `fold` of `folds` of the training and validation images; the rest is `train`.

    Images are dealt to folds in the order of a hash of their ids, so folds differ by at most one image in size and the
    order of the records does not matter. Order of images, captions, and every other split stay as they are. Raises
    InputError for folds < 2, fold >= folds, or fewer images than folds.
    """
    if folds < 2:
        raise InputError(f"data.folds={folds}: cross-validation needs at least 2 folds")
    if not 0 <= fold < folds:
        raise InputError(f"data.fold={fold}: must be between 0 and {folds - 1}")
    pool = sorted((hashlib.sha256(i.id.encode()).hexdigest(), i.id) for i in records.images if i.split in _POOL)
    if len(pool) < folds:
        raise InputError(f"data.folds={folds}: only {len(pool)} training and validation images")
    held_out = {name for rank, (_, name) in enumerate(pool) if rank % folds == fold}
    images = tuple(
        replace(i, split="val" if i.id in held_out else "train") if i.split in _POOL else i for i in records.images
    )
    return replace(records, images=images, source={**records.source, "folds": folds, "fold": fold})


def limited(records: Records, number: int) -> Records:
    """Records with the first `number` images of every split and their captions."""
    taken: dict[str, int] = {}
    images = []
    for image in records.images:
        taken[image.split] = taken.get(image.split, 0) + 1
        if taken[image.split] <= number:
            images.append(image)
    kept = {image.id for image in images}
    captions = tuple(c for c in records.captions if c.image in kept)
    return replace(records, images=tuple(images), captions=captions, source={**records.source, "limit": number})
