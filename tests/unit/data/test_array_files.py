"""Arrays in the files that tools write: read as numbers, told apart, or refused in one line that says what to do."""

import contextlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vse.data.array_files import read_array, split_name
from vse.data.ragged import Ragged
from vse.errors import InputError

VALUES = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
REGIONS = [VALUES[:2], VALUES[2:3], VALUES[:0], VALUES[3:]]
LENGTHS, OFFSETS = [2, 1, 0, 1], [0, 2, 3, 3, 4]


def tensors(rows: list[np.ndarray]) -> list[torch.Tensor]:
    return [torch.from_numpy(row.copy()) for row in rows]


def npz(**arrays: Any) -> Callable[[Path], None]:
    return lambda path: np.savez(path, **arrays)


def pt(content: Any, **options: Any) -> Callable[[Path], None]:
    return lambda path: torch.save(content, path, **options)


@pytest.mark.parametrize(
    ("file", "write"),
    [
        ("a.npy", lambda path: np.save(path, VALUES)),
        ("a.npz", npz(arr_0=VALUES)),
        ("a.npz", lambda path: np.savez_compressed(path, features=VALUES)),
        ("a.npz:features", npz(features=VALUES, boxes=VALUES, image_id="7")),
        ("a.pt", pt(torch.from_numpy(VALUES))),
        ("a.PTH", pt(torch.from_numpy(VALUES).requires_grad_())),
        ("a.pt", pt(torch.from_numpy(VALUES), _use_new_zipfile_serialization=False)),
        ("a.pt", pt({"x": torch.from_numpy(VALUES)})),
        ("a.pt:x", pt({"x": torch.from_numpy(VALUES), "y": 3})),
        ("a.pt", pt(tensors(list(VALUES)))),
    ],
)
def test_one_array(tmp_path: Path, file: str, write: Callable[[Path], None]) -> None:
    name, array = split_name(file)
    write(tmp_path / name)
    found = read_array(str(tmp_path / name), array)
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, VALUES)


def test_bfloat16_becomes_single_precision(tmp_path: Path) -> None:
    torch.save(torch.from_numpy(VALUES).bfloat16(), tmp_path / "a.pt")
    np.testing.assert_allclose(np.asarray(read_array(str(tmp_path / "a.pt"))), VALUES, rtol=2**-8)


PADDED = np.stack([np.concatenate([rows, np.full((2 - len(rows), 6), np.nan, np.float32)]) for rows in REGIONS])


@pytest.mark.parametrize(
    ("file", "write"),
    [
        ("a.npz", npz(features=VALUES, lengths=LENGTHS)),
        ("a.npz", npz(features=VALUES, offsets=OFFSETS)),
        ("a.npz", npz(features=PADDED, lengths=LENGTHS)),
        ("a.npz:features", npz(features=VALUES, lengths=LENGTHS, boxes=VALUES[:, :4])),
        ("a.pt", pt(tensors(REGIONS))),
        ("a.pt", pt({"features": torch.from_numpy(VALUES), "lengths": torch.tensor(LENGTHS)})),
    ],
)
def test_regions_of_unequal_number(tmp_path: Path, file: str, write: Callable[[Path], None]) -> None:
    name, array = split_name(file)
    write(tmp_path / name)
    found = read_array(str(tmp_path / name), array)
    assert isinstance(found, Ragged)
    assert len(found) == 4
    for k, rows in enumerate(REGIONS):
        np.testing.assert_array_equal(found.row(k), rows)


OBJECTS = np.empty(4, dtype=object)
OBJECTS[:] = REGIONS
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


@pytest.mark.parametrize(
    ("file", "write", "line"),
    [
        (
            "a.npz",
            npz(features=VALUES, boxes=VALUES),
            r"found features, boxes; name one: a\.npz:features#17 .*data\.array",
        ),
        ("a.pt", pt({str(k): torch.zeros(2) for k in range(99)}), r"found 0, 1, .* and 91 more; name one: a\.pt:0#17"),
        ("a.npz", npz(lengths=LENGTHS), "found none"),
        ("a.npz:boxes", npz(features=VALUES), "holds no array 'boxes'; it has features"),
        ("a.pt:x", pt(torch.from_numpy(VALUES)), "one array without a name; leave out :x"),
        ("a.npz", npz(features=VALUES, lengths=[2, 1]), r"lengths int64 \(2,\) do not fit features \(4, 6\)"),
        ("a.npz", npz(features=VALUES, lengths=[5, -1, 0, 0]), "do not fit"),
        ("a.npz", npz(features=VALUES, offsets=[1, 2, 4]), "do not fit"),
        ("a.npz", npz(features=PADDED, lengths=[3, 1, 0, 1]), "do not fit"),
        ("a.npy", lambda p: np.save(p, OBJECTS, allow_pickle=True), r"Python objects.*numpy\.savez"),
        ("a.npz", npz(features=OBJECTS), r"Python objects.*numpy\.savez"),
        ("a.pt", pt({"x": np.zeros(3)}), "more than tensors"),
        ("a.pt", lambda p: p.write_bytes(pickle.dumps(VALUES)), "more than tensors"),
        ("a.pt", pt(["a", "b"]), "row 0 is a str"),
        ("a.pt", pt("text"), "expected a tensor or a list of tensors, got str"),
        ("a.pt", pt([]), "the list is empty"),
        ("a.pt", pt([torch.zeros(2, 3), torch.zeros(2, 4)]), r"row 1 is \(2, 4\), the first \(2, 3\)"),
        ("a.pt", lambda p: p.write_bytes(b"nonsense"), r"a\.pt: "),
        ("a.npy", lambda p: p.write_text(LFS), "Git LFS pointer.*git lfs pull"),
        ("a.npz", lambda p: p.write_text(LFS), "Git LFS pointer"),
        ("a.pt", lambda p: p.write_text(LFS), "Git LFS pointer"),
        ("a.npy", lambda p: p.write_bytes(pickle.dumps([1])), r"not an array file; expected \.npy, \.npz or \.pt"),
        ("a.npz", lambda p: p.write_bytes(b"PK\x03\x04 cut"), "not a readable array file"),
        ("a.npy", lambda p: None, "not a readable array file"),
    ],
)
def test_refusals_are_one_line(tmp_path: Path, file: str, write: Callable[[Path], None], line: str) -> None:
    name, array = split_name(file)
    write(tmp_path / name)
    with pytest.raises(InputError, match=line) as caught:
        read_array(str(tmp_path / name), array)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "allow_pickle=False" not in str(caught.value)


def test_the_advice_for_objects_works(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", OBJECTS, allow_pickle=True)
    with pytest.raises(InputError) as caught:
        read_array(str(tmp_path / "a.npy"))
    advice = str(caught.value).partition("numbers: ")[2].replace("FILE", repr(str(tmp_path / "a.npy")))
    with contextlib.chdir(tmp_path):
        exec(advice, {"numpy": np})
    found = read_array(str(tmp_path / "features.npz"))
    assert isinstance(found, Ragged)
    np.testing.assert_array_equal(found.row(0), REGIONS[0])


def test_every_cut_of_a_file_is_one_line(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", features=VALUES)
    torch.save(torch.from_numpy(VALUES), tmp_path / "b.pt")
    for path in (tmp_path / "a.npz", tmp_path / "b.pt"):
        whole = path.read_bytes()
        for size in range(0, len(whole) - 1, 37):
            path.write_bytes(whole[:size])
            with pytest.raises(InputError, match=path.name):
                read_array(str(path))


@pytest.mark.parametrize("file", ["a.npy", "s3://b/a.npz", "a:b.npz", "C:/x/a.npz", "a.npy:x", "a.npz:x/y"])
def test_a_colon_elsewhere_names_nothing(file: str) -> None:
    assert split_name(file) == (file, "")
