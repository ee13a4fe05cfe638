"""A JPEG without its end marker is read; one that lacks any of its picture is not, wherever it was cut."""

import io
from typing import Any

import numpy as np
import PIL.Image
import pytest

from tests.levels import slow_but
from tests.shared import SHARED
from vse.data.images import END, UnreadableImage, decode_image, with_end

KINDS: dict[str, dict[str, Any]] = {
    "baseline": {},
    "progressive": {"progressive": True},
    "all colours": {"subsampling": 0, "quality": 95, "optimize": True},
    "restarts": {"restart_marker_blocks": 3},
    "progressive restarts": {"progressive": True, "restart_marker_rows": 1},
}


def picture(side: int = 40) -> PIL.Image.Image:
    ramp = np.add.outer(np.arange(side), 2 * np.arange(side + 5))
    noise = np.random.default_rng(0).integers(0, 40, (side, side + 5, 3))
    return PIL.Image.fromarray((ramp[..., None] + noise).astype(np.uint8))


def encoded(image: PIL.Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def survivors(data: bytes, cuts: range) -> list[int]:
    """The numbers of bytes that may be cut off; what is read without them is the picture."""
    whole, read = np.asarray(decode_image(data)), []
    for cut in cuts:
        try:
            part = decode_image(data[:-cut])
        except UnreadableImage:
            continue
        np.testing.assert_array_equal(np.asarray(part), whole, err_msg=f"without {cut} bytes")
        read.append(cut)
    return read


@pytest.mark.seconds
@pytest.mark.parametrize("kind", slow_but(KINDS, "baseline", "progressive"))
def test_of_all_cuts_only_those_of_the_end_marker_are_read(kind: str) -> None:
    data = encoded(picture(), **KINDS[kind])
    assert data.endswith(END)
    assert survivors(data, range(1, len(data))) == [1, 2]


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_other_colours_are_read_as_well(mode: str) -> None:
    data = encoded(picture().convert(mode))
    assert survivors(data, range(1, 40)) == [1, 2]


def test_a_progressive_file_that_ends_with_a_scan_is_not_whole() -> None:
    """It shows all of its rows, in lower quality, and nothing in them says so."""
    data = encoded(picture(), progressive=True)
    starts = [at for at in range(data.index(b"\xff\xda"), len(data)) if data[at : at + 2] in (b"\xff\xc4", b"\xff\xda")]
    for start in starts[4:]:  # of the tables before a scan and of the scan; earlier, colours are missing
        PIL.Image.open(io.BytesIO(data[:start] + END)).load()
        assert with_end(data[:start]) is None
    assert len(starts) > 10


def test_scans_of_single_colours_are_counted() -> None:
    """A file with a scan for each colour, cut after the first: grey, in full size."""
    data = encoded(picture(), progressive=True)
    frame = data.index(b"\xff\xc2")
    ids = data[frame + 10 : frame + 19 : 3]
    header = data[:frame] + b"\xff\xc0" + data[frame + 2 : data.index(b"\xff\xc4")]
    scans = [b"\xff\xda\x00\x08\x01" + bytes((one, 0, 0, 63, 0)) + b"\x00\x00" for one in ids]
    assert with_end(header + scans[0]) is None
    assert with_end(header + scans[0] + scans[1]) is None


def test_zeros_in_place_of_the_end_are_no_picture() -> None:
    """A download that was given its place on the disk in advance, or a file after a power cut."""
    data, whole = encoded(picture()), np.asarray(picture())
    for cut in (2, 3, 100, len(data) // 2):
        for zeros in (16, 64, 4096):
            with pytest.raises(UnreadableImage, match="cut off: zeros"):
                decode_image(data[:-cut] + bytes(zeros))
    for end in (bytes(4096), b"more" + bytes(4096), encoded(picture()) + bytes(64)):
        assert np.asarray(decode_image(data + end)).shape == whole.shape


def test_other_formats_lose_what_is_no_part_of_the_picture_alone() -> None:
    png, gif = encoded(picture(), "PNG"), encoded(picture(), "GIF")
    read = survivors(png, range(1, 400))
    assert 16 <= len(read) <= 24  # IEND, and the checksums before it
    assert read == list(range(1, len(read) + 1))
    assert survivors(gif, range(1, 400)) == [1, 2]  # trailer and terminator
    for kind in ("BMP", "TIFF", "WEBP", "AVIF", "JPEG2000"):
        data = encoded(picture(), kind)
        assert survivors(data, range(1, min(400, len(data)))) in ([], [1])  # BMP pads its rows


def test_a_file_that_is_not_cut_is_left_alone() -> None:
    data = encoded(picture())
    for other in (
        data,
        b"",
        b"\xff\xd8",
        b"\xff\xd8\xff\xda",
        b"\xff\xd8\xff\xc0\x00\x04ab",
        encoded(picture(), "PNG"),
    ):
        assert with_end(other) is None


@pytest.mark.skipif(SHARED is None, reason="no real photographs on this machine")
@pytest.mark.parametrize("progressive", [False, True])
def test_real_photographs_cut_at_many_sizes(progressive: bool) -> None:
    assert SHARED is not None
    for path in sorted((SHARED / "data/flickr8k_800/images").iterdir())[:6]:
        data = encoded(PIL.Image.open(path), progressive=True) if progressive else path.read_bytes()
        assert survivors(data, range(1, 400)) in ([1, 2], [1, 2, 3])  # the last byte may hold padding alone
        assert survivors(data, range(400, len(data), 997)) == []
