from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse.data.records import Caption, Image, Records, cross_validated, limited
from vse.data.source import Source, SourceConfig
from vse.errors import InputError


def _records(train: int, val: int, test: int) -> Records:
    splits = ["train"] * train + ["val"] * val + ["test"] * test
    images = tuple(Image(f"i{k}", f"{k}.jpg", split) for k, split in enumerate(splits))
    captions = tuple(Caption(f"{i.id}-{j}", i.id, "a cat") for k, i in enumerate(images) for j in range(1 + k % 3))
    return Records("toy", images, captions)


@given(st.integers(1, 40), st.integers(1, 10), st.integers(2, 7))
def test_every_image_is_validated_exactly_once(train: int, val: int, folds: int) -> None:
    records = _records(train, val, 3)
    if train + val < folds:
        with pytest.raises(InputError, match="only"):
            cross_validated(records, folds, 0)
        return
    held_out = [{i.id for i in cross_validated(records, folds, k).split("val").images} for k in range(folds)]
    assert sorted(name for part in held_out for name in part) == sorted(
        i.id for i in records.images if i.split != "test"
    )
    assert max(map(len, held_out)) - min(map(len, held_out)) <= 1


def test_test_split_captions_and_order_stay() -> None:
    records = _records(20, 5, 4)
    folded = cross_validated(records, 5, 2)
    assert folded.split("test").images == records.split("test").images
    assert folded.captions == records.captions
    assert [i.id for i in folded.images] == [i.id for i in records.images]
    assert len({folded.fingerprint, records.fingerprint, cross_validated(records, 5, 3).fingerprint}) == 3


def test_folds_do_not_depend_on_the_order_of_the_records() -> None:
    records = _records(20, 5, 0)
    turned = replace(records, images=records.images[::-1], captions=records.captions[::-1])
    for k in range(4):
        one, two = cross_validated(records, 4, k), cross_validated(turned, 4, k)
        assert {i.id for i in one.split("val").images} == {i.id for i in two.split("val").images}


def test_wrong_folds() -> None:
    records = _records(6, 2, 0)
    for folds, fold in ((1, 0), (0, 1), (4, 4), (4, -1)):
        with pytest.raises(InputError, match=r"data\.fold"):
            cross_validated(records, folds, fold)


def test_limit_keeps_the_first_images_of_each_split() -> None:
    records = limited(_records(6, 2, 3), 2)
    assert [i.id for i in records.images] == ["i0", "i1", "i6", "i7", "i8", "i9"]
    assert {c.image for c in records.captions} == {i.id for i in records.images}


class _Toy(Source):
    config: SourceConfig

    @property
    def image_root(self) -> str:
        return ""

    def read(self) -> Records:
        return _records(6, 2, 3)


def test_a_source_applies_limit_and_folds() -> None:
    assert _Toy(SourceConfig()).describe().images == _records(6, 2, 3).images
    assert len(_Toy(SourceConfig(limit=1)).describe().images) == 3
    both = _Toy(SourceConfig(limit=2, folds=2, fold=1)).describe()
    assert len(both.split("val").images) == 2
    with pytest.raises(InputError, match=r"data\.folds=0"):
        _Toy(SourceConfig(fold=1)).describe()


@pytest.mark.seconds
@given(st.integers(1, 30), st.integers(1, 10), st.integers(1, 10), st.integers(3, 7))
def test_every_image_is_tested_once_and_validated_once(train: int, val: int, test: int, folds: int) -> None:
    records = _records(train, val, test)
    aside = replace(records, images=(*records.images, Image("far", "far.jpg", "shifted")))
    if train + val + test < folds:
        with pytest.raises(InputError, match=f"only {train + val + test} training, validation and test images"):
            cross_validated(aside, folds, 0, "test")
        return
    parts = [cross_validated(aside, folds, k, "test") for k in range(folds)]
    for split in ("test", "val"):
        held_out = [[i.id for i in part.split(split).images] for part in parts]
        assert sorted(name for each in held_out for name in each) == sorted(i.id for i in records.images)
        assert max(map(len, held_out)) - min(map(len, held_out)) <= 1
    assert all([i.id for i in part.split("shifted").images] == ["far"] for part in parts)
    assert len({part.fingerprint for part in parts}) == folds
    assert len({part.content_fingerprint for part in (aside, *parts)}) == 1  # features and parses are made once


def test_a_fold_of_test_images_needs_two_others() -> None:
    with pytest.raises(InputError, match=r"data\.folds=2: cross-validation needs at least 3 folds"):
        cross_validated(_records(6, 2, 2), 2, 0, "test")
    with pytest.raises(InputError, match=r"data\.folds=0: cross-validation needs at least 3 folds"):
        _Toy(SourceConfig(held_out="test")).describe()
    assert len(_Toy(SourceConfig(folds=3, held_out="test")).describe().split("test").images) == 4
