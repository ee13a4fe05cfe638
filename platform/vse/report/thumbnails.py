"""Small copies of pictures that stand in a page themselves, as data URIs."""

import base64
import io

from vse.data.images import UnreadableImage, open_image
from vse.errors import InputError

SIDE = 288  # pixels: one and a half of what a tile shows, for dense screens
_QUALITY = 85


def thumbnail(uri: str, root: str, side: int = SIDE) -> str:
    """A JPEG of at most `side` pixels a side, never enlarged; empty where the picture cannot be read, or there is none
    as of ready-made features."""
    try:
        picture = open_image(uri, root)
    except (UnreadableImage, InputError):
        return ""
    picture.thumbnail((side, side))
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=_QUALITY, subsampling=0)
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}"
