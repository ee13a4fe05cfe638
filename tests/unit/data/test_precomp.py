from pathlib import Path

import numpy as np
import pytest
import torch

from vse.data.array_files import read_array
from vse.data.ragged import Ragged
from vse.data.records import Image
from vse.data.source import rejects
from vse.data.sources.precomp import Precomp
from vse.errors import InputError


def _write(root: Path, stem: str, features: np.ndarray, num_captions: int) -> None:
    np.save(root / f"{stem}_ims.npy", features)
    (root / f"{stem}_caps.txt").write_text("".join(f"{stem} caption {k}\n" for k in range(num_captions)))


def _features(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _row(root: Path, image: Image) -> np.ndarray:
    file, _, row = image.uri.partition("#")
    array = read_array(str(root / file))
    return array.row(int(row)) if isinstance(array, Ragged) else array[int(row)]


@pytest.mark.parametrize("shape", [(6, 8), (6, 3, 8), (6, 7, 7, 4)])
@pytest.mark.parametrize("per_image", [1, 3, 5])
def test_repeated_rows_or_not_give_the_same_records(tmp_path: Path, shape: tuple[int, ...], per_image: int) -> None:
    features = _features(*shape)
    found = []
    for name, array in (("once", features), ("repeated", np.repeat(features, per_image, axis=0))):
        (tmp_path / name).mkdir()
        _write(tmp_path / name, "train", array, 6 * per_image)
        _write(tmp_path / name, "dev", array[: 2 * (len(array) // 6)], 2 * per_image)
        source = Precomp(Precomp.Config(root=str(tmp_path / name)))
        records = source.describe()
        found.append([(c.id, c.image, c.text) for c in records.captions])
        assert {s: len(records.split(s).images) for s in records.split_names} == {"train": 6, "val": 2}
        for k, image in enumerate(records.split("train").images):
            np.testing.assert_array_equal(_row(tmp_path / name, image), features[k])
        for k, image in enumerate(records.split("val").images):
            np.testing.assert_array_equal(_row(tmp_path / name, image), features[k])
    assert found[0] == found[1]


def test_equal_neighbours_by_chance_are_not_taken_for_repetition(tmp_path: Path) -> None:
    features = _features(6, 4)
    features[1] = features[0]
    _write(tmp_path, "test", features, 6)
    assert len(Precomp(Precomp.Config(root=str(tmp_path))).describe().images) == 6


def _images(root: Path, features: np.ndarray) -> int:
    _write(root, "train", features, len(features))
    return len(Precomp(Precomp.Config(root=str(root))).describe().images)


@pytest.mark.parametrize("broken", [(0,), (3,), (11,), (0, 1), (4, 5, 6), tuple(range(7))])
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_rows_of_images_without_features_are_repeated_too(
    tmp_path: Path, broken: tuple[int, ...], value: float
) -> None:
    """Copies are copies, and neighbours of which nothing is known are equal: the others say how many copies."""
    features = _features(12, 8)
    features[list(broken), 2:] = value
    features[list(broken), :2] = 0
    assert _images(tmp_path, np.repeat(features, 5, axis=0)) == 12


@pytest.mark.parametrize("per_image", [2, 5, 6])
def test_an_image_that_is_there_twice_hides_no_repetition(tmp_path: Path, per_image: int) -> None:
    for first, second in ((0, 1), (10, 11), (5, 6)):
        features = _features(12, 8)
        features[second] = features[first]
        assert _images(tmp_path, np.repeat(features, per_image, axis=0)) == 12


@pytest.mark.parametrize("row", [0, 2, 4, 31, 55, 59])
def test_rows_that_are_repeated_in_part_are_refused(tmp_path: Path, row: int) -> None:
    features = np.repeat(_features(12, 8), 5, axis=0)
    features[row, 3] = np.nan
    with pytest.raises(InputError, match=r"train_ims\.npy: most of its rows, but not all, occur 5 times in succession"):
        _images(tmp_path, features)
    with pytest.raises(InputError, match=r"occur 5 times"):
        _images(tmp_path, np.repeat(_features(12, 8), 5, axis=0)[:-2])


@pytest.mark.parametrize("value", [0.0, 1.0, np.nan])
def test_rows_that_say_nothing_are_no_image_with_many_captions(tmp_path: Path, value: float) -> None:
    with pytest.raises(InputError, match=r"train_ims\.npy: each of its 30 rows repeats a single number"):
        _images(tmp_path, np.full((30, 8), value, dtype=np.float32))
    assert _images(tmp_path, np.repeat(_features(1, 8), 5, axis=0)) == 1


def test_testall_and_empty_lines(tmp_path: Path) -> None:
    _write(tmp_path, "testall", _features(2, 4), 4)
    lines = ["one", "", "three\u2028three", "four"]
    (tmp_path / "testall_caps.txt").write_text("\r\n".join(lines))
    records = Precomp(Precomp.Config(root=str(tmp_path), test="testall")).describe()
    assert [c.text for c in records.captions] == ["one", "three three", "four"]
    assert [(r.id, r.reason) for r in rejects(records)] == [("test_caption_000001", "caption without a word")]
    assert records.split("test").caption_to_image.tolist() == [0, 1, 1]


@pytest.mark.parametrize("num_captions", [0, 5, 7, 3])
def test_captions_that_do_not_divide_are_one_clear_error(tmp_path: Path, num_captions: int) -> None:
    _write(tmp_path, "train", _features(4, 3), num_captions)
    with pytest.raises(InputError, match=rf"{num_captions} captions do not match 4 rows .* a row, train_ims\.npy#17"):
        Precomp(Precomp.Config(root=str(tmp_path))).describe()


def test_bad_files(tmp_path: Path) -> None:
    source = Precomp(Precomp.Config(root=str(tmp_path)))
    with pytest.raises(InputError, match=r"no train_ims\.npy"):
        source.describe()
    _write(tmp_path, "train", _features(4, 3), 4)
    whole = (tmp_path / "train_ims.npy").read_bytes()
    (tmp_path / "train_ims.npy").write_bytes(whole[:-8])
    with pytest.raises(InputError, match=r"train_ims\.npy: not a readable array file"):
        source.describe()
    np.save(tmp_path / "train_ims.npy", np.arange(4))
    with pytest.raises(InputError, match="expected floats of shape"):
        source.describe()
    np.save(tmp_path / "train_ims.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="holds Python objects"):
        source.describe()
    np.save(tmp_path / "train_ims.npy", np.zeros((0, 3), dtype=np.float32))
    with pytest.raises(InputError, match="has no rows"):
        source.describe()
    (tmp_path / "train_ims.npy").unlink()
    with pytest.raises(InputError, match=r"train_ims\.npy"):
        source.describe()
    np.save(tmp_path / "train_ims.npy", _features(4, 3))
    (tmp_path / "train_caps.txt").unlink()
    with pytest.raises(InputError, match=r"train_caps\.txt: cannot be read"):
        source.describe()


@pytest.mark.parametrize("ending", [".npz", ".pt"])
@pytest.mark.parametrize("per_image", [1, 5])
def test_other_array_files_give_the_same_images_and_captions(tmp_path: Path, ending: str, per_image: int) -> None:
    features = np.repeat(_features(4, 8), per_image, axis=0)
    _write(tmp_path, "train", features, 20)
    before = Precomp(Precomp.Config(root=str(tmp_path))).describe()
    (tmp_path / "train_ims.npy").unlink()
    if ending == ".npz":
        np.savez(tmp_path / "train_ims.npz", a=features, b=features)
    else:
        torch.save({"a": torch.from_numpy(features), "b": torch.zeros(3)}, tmp_path / "train_ims.pt")
    records = Precomp(Precomp.Config(root=str(tmp_path), array="a")).describe()
    assert records.captions == before.captions
    assert [i.uri for i in records.images] == [f"train_ims{ending}:a#{k * per_image}" for k in range(4)]
    with pytest.raises(InputError, match=r"found a, b; name one: .*data\.array=a"):
        Precomp(Precomp.Config(root=str(tmp_path))).describe()


@pytest.mark.parametrize("per_image", [1, 3])
def test_rows_of_unequal_length_may_be_repeated_too(tmp_path: Path, per_image: int) -> None:
    regions = [torch.from_numpy(_features(k, 8)) for k in (2, 5, 3)]
    torch.save([row for row in regions for _ in range(per_image)], tmp_path / "train_ims.pt")
    (tmp_path / "train_caps.txt").write_text("a dog\n" * 9)
    records = Precomp(Precomp.Config(root=str(tmp_path))).describe()
    assert [i.uri for i in records.images] == [f"train_ims.pt#{k * per_image}" for k in range(3)]


def test_captions_that_are_not_utf8_are_refused_by_line_or_decoded(tmp_path: Path) -> None:
    _write(tmp_path, "train", _features(2, 8), 2)
    (tmp_path / "train_caps.txt").write_bytes("A café\nRené and a dog\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"train_caps\.txt: line 1: is not UTF-8 text .*data\.encoding="):
        Precomp(Precomp.Config(root=str(tmp_path))).describe()
    for encoding, lines in (("latin-1", "latin-1"), ("", "utf-8"), ("utf-16", "utf-16")):
        (tmp_path / "train_caps.txt").write_bytes("A café\nRené and a dog\n".encode(lines))
        records = Precomp(Precomp.Config(root=str(tmp_path), encoding=encoding)).describe()
        assert [c.text for c in records.captions] == ["A café", "René and a dog"]
