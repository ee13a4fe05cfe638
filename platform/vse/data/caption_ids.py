"""Ids as data sets of others give them: 7, "7", 7.0 or null, and for captions often some that are not unique."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vse.data.notices import notice
from vse.data.records import Caption
from vse.data.sources import Gathered
from vse.errors import InputError


@dataclass(frozen=True, slots=True)
class GivenCaption:
    """A caption as a file gives it: `id` and `text` are None for null, `place` says where it is, for messages."""

    image: str
    id: str | None
    text: str | None
    place: str


def given_id(item: Mapping[str, Any], key: str, place: str) -> str | None:
    """An id as text; None if the key is absent, null or NaN. Raises InputError for what is neither text nor a whole
    number."""
    value = item.get(key)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InputError(f"{place}: {key!r} must be a whole number or text, got {value!r:.40}")
    return str(value)


def gather_captions(gathered: Gathered, captions: Sequence[GivenCaption], path: str) -> None:
    """Take in captions under the ids of their file, if no two are alike; otherwise, and for those without an id, as
    `image#k`, where k is the number among the captions of the image. Captions that are null become rejects.

    Args:
        gathered: has their images.
        captions: in the order of the file.
        path: of the file, for messages.

    Raises:
        InputError: as `Gathered.caption` does.
    """
    counts = Counter(caption.id for caption in captions if caption.id is not None)
    repeated = next((id_ for id_, count in counts.items() if count > 1), None)
    if repeated is not None:
        notice(
            f"{path}: the caption id {repeated!r} is not unique; captions are called after their images, IMAGE#0, ..."
        )
    number = Counter[str]()
    for caption in captions:
        own = f"{caption.image}#{number[caption.image]}"
        number[caption.image] += 1
        name = caption.id if caption.id is not None and repeated is None else own
        if caption.text is None:
            gathered.reject(name, "caption is null")
        else:
            gathered.caption(Caption(name, caption.image, caption.text), caption.place)
