"""Images and captions: any number of captions an image, splits, fingerprints."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse.data.records import Caption, Image, Records
from vse.errors import InputError

SPLITS = ("train", "val", "test")


def made(counts: list[tuple[str, int]], name: str = "toy") -> Records:
    """Records with one image per (split, number of captions)."""
    images = tuple(Image(id=f"i{k}", uri=f"{k}.jpg", split=split) for k, (split, _) in enumerate(counts))
    captions = tuple(
        Caption(id=f"i{k}c{n}", image=f"i{k}", text=f"caption {n} of {k}")
        for k, (_, count) in enumerate(counts)
        for n in range(count)
    )
    return Records(name=name, images=images, captions=captions, source={"seed": 0})


@given(st.lists(st.tuples(st.sampled_from(SPLITS), st.integers(0, 4)), max_size=12))
def test_every_split_maps_captions_to_their_images(counts: list[tuple[str, int]]) -> None:
    records = made(counts)
    assert records.split_names == tuple(dict.fromkeys(split for split, _ in counts))
    seen = 0
    for name in records.split_names:
        split = records.split(name)
        assert split.name == name
        assert all(image.split == name for image in split.images)
        assert split.caption_to_image.dtype == np.int64
        assert split.caption_to_image.shape == (len(split.captions),)
        assert bool((np.diff(split.caption_to_image) >= 0).all())
        for caption, image in zip(split.captions, split.caption_to_image, strict=True):
            assert split.images[image].id == caption.image
        seen += len(split.captions)
    assert seen == len(records.captions)


def test_an_image_without_captions_stays() -> None:
    split = made([("test", 0), ("test", 3), ("test", 1)]).split("test")
    assert len(split.images) == 3
    assert split.caption_to_image.tolist() == [1, 1, 1, 2]


def test_the_first_images_keep_their_rows() -> None:
    split = made([("test", 2), ("test", 0), ("test", 3), ("test", 1)]).split("test")
    for number in range(4):
        first = split.first(number)
        kept = [k for k, row in enumerate(split.caption_to_image) if row < number]
        assert first.images == split.images[:number]
        assert first.captions == tuple(split.captions[k] for k in kept)
        assert first.caption_to_image.tolist() == split.caption_to_image[kept].tolist()
    assert split.first(4) is split.first(9) is split.first(None) is split


def test_an_unknown_split_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="toy: no split 'dev'; it has train, test"):
        made([("train", 1), ("test", 1)]).split("dev")


def test_ids_are_unique_and_captions_point_to_images() -> None:
    image, caption = Image(id="a", uri="a.jpg", split="train"), Caption(id="c", image="a", text="x")
    with pytest.raises(InputError, match="image id 'a' appears more than once"):
        Records(name="toy", images=(image, image), captions=())
    with pytest.raises(InputError, match="caption id 'c' appears more than once"):
        Records(name="toy", images=(image,), captions=(caption, caption))
    with pytest.raises(InputError, match="caption 'd' points to unknown image 'b'"):
        Records(name="toy", images=(image,), captions=(Caption(id="d", image="b", text="x"),))


def test_captions_come_in_the_order_of_their_images() -> None:
    images = tuple(Image(id=k, uri=k, split="train") for k in "ab")
    captions = (Caption(id="1", image="b", text="x"), Caption(id="2", image="a", text="y"))
    with pytest.raises(AssertionError, match="order of their images"):
        Records(name="toy", images=images, captions=captions)


def test_the_fingerprint_sees_every_field() -> None:
    base = made([("train", 2), ("test", 1)])
    assert made([("train", 2), ("test", 1)]).fingerprint == base.fingerprint
    assert len(base.fingerprint) == 8

    def changed(**what: Any) -> str:
        fields: dict[str, Any] = {"name": base.name, "images": base.images, "captions": base.captions}
        fields |= {"source": base.source, **what}
        return Records(**fields).fingerprint

    first, *rest = base.captions
    others = {
        changed(name="other"),
        changed(source={"seed": 1}),
        changed(captions=(Caption(id=first.id, image=first.image, text="another"), *rest)),
        changed(captions=tuple(rest)),
        changed(images=(Image(id="i0", uri="x.jpg", split="train"), *base.images[1:])),
        changed(images=(Image(id="i0", uri="0.jpg", split="val"), *base.images[1:])),
    }
    assert len(others | {base.fingerprint}) == 7


def test_the_fingerprint_does_not_depend_on_the_process() -> None:
    assert made([("train", 2), ("test", 1)]).fingerprint == "6b452308"
