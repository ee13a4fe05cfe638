"""Ready-made features of any grid or number of tokens become a store like any other."""

from functools import partial

import numpy as np
import pytest
import torch

from vse import registry
from vse.data.records import Image, Records
from vse.errors import InputError
from vse.features import forward
from vse.features.arrays import ReadyMade
from vse.features.backbone import Backbone
from vse.features.rejects import TooManyRejects
from vse.stages.extract import ExtractionConfig, extract, features_fingerprint
from vse.storage.folder import Folder

Config = ReadyMade.Config


def records(files, rows=5, step=1):
    images = [Image(f"{f}-{k}", f"{f}_ims.npy#{k * step}", f) for f in files for k in range(rows)]
    return Records("ready", tuple(images), ())


def save(root, name, shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    np.save(root / f"{name}_ims.npy", values)
    return values


@pytest.mark.parametrize(
    ("shape", "output", "stored"),
    [((9,), "pooled", (9,)), ((36, 9), "map", (36, 9)), ((4, 5, 9), "map", (20, 9)), ((1, 9), "map", (1, 9))],
)
def test_vectors_tokens_and_grids(tmp_path, shape, output, stored):
    train, val = save(tmp_path, "train", (5, *shape)), save(tmp_path, "val", (5, *shape), 1)
    store = extract(
        records(["train", "val"]), Config(width=9), [output], Folder.open(tmp_path / "s"), root=str(tmp_path)
    )
    assert store.outputs == (output,)
    assert store.shape(output) == stored
    expected = np.concatenate([val[[3]], train[[0]]]).astype(np.float16).reshape(2, *stored)
    assert np.array_equal(store.array(output, ["val-3", "train-0"]), expected)


def test_vectors_where_tokens_are_wanted_are_refused_before_any_is_copied(tmp_path):
    for shape, output in (((9,), "map"), ((36, 9), "pooled")):
        save(tmp_path, "train", (5, *shape))
        with pytest.raises(InputError, match=rf"^{tmp_path}/train_ims\.npy: has .*, but this family reads .*--preset"):
            extract(records(["train"]), Config(), [output], Folder.open(tmp_path / "s"), root=str(tmp_path))
    assert not Folder.open(tmp_path / "s").names()


def test_rows_repeated_for_captions_are_taken_where_the_records_point(tmp_path):
    values = save(tmp_path, "train", (25, 9))
    store = extract(records(["train"], step=5), Config(), ["pooled"], Folder.open(tmp_path / "s"), root=str(tmp_path))
    assert np.array_equal(store.array("pooled", ["train-2"])[0], values[10].astype(np.float16))


def test_masks_come_along(tmp_path):
    values = save(tmp_path, "train", (5, 36, 9))
    mask = np.random.default_rng(1).random((5, 36)) < 0.5
    np.save(tmp_path / "train_ims_mask.npy", mask)
    config = Config(mask="_mask")
    store = extract(records(["train"]), config, ["map", "mask"], Folder.open(tmp_path / "s"), root=str(tmp_path))
    assert np.array_equal(store.array("mask", store.ids), mask.astype(np.uint8))
    shown = store.array("map", store.ids)
    assert np.array_equal(shown[mask], values[mask].astype(np.float16))
    assert not shown[~mask].any()
    np.save(tmp_path / "train_ims_mask.npy", mask[:, :30])
    with pytest.raises(InputError, match=r"mask .* of shape \(5, 36\)"):
        extract(records(["train"]), config, ["map"], Folder.open(tmp_path / "t"), root=str(tmp_path))


def test_a_row_that_is_not_finite_is_rejected(tmp_path, capsys):
    values = save(tmp_path, "train", (40, 9))
    values[2, 3] = np.inf
    values[5, 0] = np.nan
    np.save(tmp_path / "train_ims.npy", values)
    store = extract(records(["train"], 40), Config(), ["pooled"], Folder.open(tmp_path / "s"), root=str(tmp_path))
    assert set(store.rejects) == {"train-2", "train-5"}
    assert "40/40 (100 %) images" in capsys.readouterr().err


def test_too_many_such_rows_end_the_job_and_may_be_let_pass(tmp_path, monkeypatch):
    values = save(tmp_path, "train", (60, 9))
    save(tmp_path, "val", (60, 9), 1)
    good = values[:25].copy()
    values[:25] = np.nan
    np.save(tmp_path / "train_ims.npy", values)
    monkeypatch.setattr(forward, "SHARD_BYTES", 1)  # the smallest shards there are: 16 rows
    both, folder = records(["val", "train"], 60), Folder.open(tmp_path / "s")
    attempt = partial(extract, both, Config(), ["pooled"], folder, root=str(tmp_path))
    for _ in range(2):
        told = (
            r"^of the first 76 of 120 images 16 .* max_rejected=0\.05 allows \(16 x pooled: not finite in half "
            r"precision\); for one, 'train-15'; .*rejects\.parquet; .*=0\.3$"
        )
        with pytest.raises(TooManyRejects, match=told):
            attempt()
        assert folder.read_manifest() is None
    assert len(attempt(options=ExtractionConfig(max_rejected=0.3)).rejects) == 25  # as told
    folder.delete("manifest.json")
    values[:25] = good
    np.save(tmp_path / "train_ims.npy", values)
    assert len(attempt().ids) == 120  # what was committed stays, and mended rows come to it


def test_wrong_files_are_one_line(tmp_path):
    def attempt(config=Config(), files=("train",), rows=5, output="pooled"):  # noqa: B008
        extract(records(files, rows), config, [output], Folder.open(tmp_path / "s"), root=str(tmp_path))

    with pytest.raises(InputError, match=r"train_ims\.npy"):
        attempt()
    save(tmp_path, "train", (5, 9))
    with pytest.raises(InputError, match=r"9 wide, expected 2048 \(features\.backbone\.width\)"):
        attempt(Config(width=2048))
    with pytest.raises(InputError, match="5 rows, but an image asks for row 6"):
        attempt(rows=7)
    with pytest.raises(InputError, match="'fc1'"):
        attempt(output="fc1")
    save(tmp_path, "val", (5, 8))
    with pytest.raises(InputError, match=r"files before have pooled \(9,\)"):
        attempt(files=("train", "val"))
    np.save(tmp_path / "train_ims.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="holds Python objects"):
        attempt()
    with pytest.raises(InputError, match="not a row of an array"):
        extract(Records("r", (Image("1", "1.jpg", "train"),), ()), Config(), ["map"], Folder.open(tmp_path / "s"))


def test_the_fingerprint_follows_the_files(tmp_path):
    save(tmp_path, "train", (5, 9))
    before = features_fingerprint(records(["train"]), Config(), ["pooled"], str(tmp_path))
    assert features_fingerprint(records(["train"]), Config(), ["pooled"], str(tmp_path)) == before
    save(tmp_path, "train", (5, 9), seed=2)
    assert features_fingerprint(records(["train"]), Config(), ["pooled"], str(tmp_path)) != before


def test_ready_made_features_are_a_backbone_without_a_network():
    """Shapes are what the files say; embedding pictures needs a network."""
    backbone = registry.build("backbone", Config())
    assert isinstance(backbone, Backbone)
    assert backbone.shapes() == {}
    with pytest.raises(InputError, match=r"reads ready-made features and has no network$"):
        backbone.load(("pooled",))


def table(*places):
    return Records("ready", tuple(Image(str(k), place, "train") for k, place in enumerate(places)), ())


def test_regions_of_unequal_number_become_a_map_with_a_mask(tmp_path, caplog):
    caplog.set_level("INFO")
    values = np.random.default_rng(0).standard_normal((9, 5)).astype(np.float32)
    np.savez(tmp_path / "a.npz", features=values, lengths=[2, 4, 3])
    torch.save(
        [torch.from_numpy(values[:6]), torch.from_numpy(values[6:6]), torch.from_numpy(values[6:])], tmp_path / "b.pt"
    )
    images = table("a.npz#1", "b.pt#0", "b.pt#1", "a.npz:features#0")
    store = extract(
        images,
        Config(width=5),
        ["map"],
        Folder.open(tmp_path / "s"),
        root=str(tmp_path),
        options=ExtractionConfig(max_rejected=0.3),
    )
    assert f"{tmp_path}/a.npz: 3 images of (regions, channels) = (2 to 4, 5)" in caplog.messages
    assert store.shape("map") == (6, 5)
    assert store.rejects == {"2": "has no region"}
    shown, mask = (store.array(name, store.ids) for name in ("map", "mask"))
    for row, regions in enumerate((values[2:6], values[:6], values[:2])):
        assert np.array_equal(shown[row, : len(regions)], regions.astype(np.float16))
        assert not shown[row, len(regions) :].any()
        assert mask[row].tolist() == [1] * len(regions) + [0] * (6 - len(regions))


@pytest.mark.parametrize("shape", [(64, 7, 7), (2048, 7, 10), (512, 1, 1)])
def test_channels_first_maps_are_refused_unless_they_are_confirmed(tmp_path, shape):
    save(tmp_path, "train", (5, *shape))
    attempt = partial(
        extract, records(["train"]), outputs=["map"], folder=Folder.open(tmp_path / "s"), root=str(tmp_path)
    )
    line = r"reads as \(images, channels, height, width\); expected \(images, height, width, channels\)"
    with pytest.raises(InputError, match=line):
        attempt(backbone_config=Config())
    assert attempt(backbone_config=Config(width=shape[-1])).shape("map") == (shape[0] * shape[1], shape[2])


@pytest.mark.parametrize("shape", [(7, 7, 4), (7, 7, 2048), (10, 7, 64), (36, 9), (2048, 36)])
def test_channels_last_maps_are_read_as_ever(tmp_path, shape):
    save(tmp_path, "train", (5, *shape))
    store = extract(records(["train"]), Config(), ["map"], Folder.open(tmp_path / "s"), root=str(tmp_path))
    assert store.shape("map") == (int(np.prod(shape[:-1])), shape[-1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e9, 1e5, 1e4, 1, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-9, 1e-30])
def test_what_is_stored_is_right_or_refused(tmp_path, scale, dtype):
    values = np.random.default_rng(0).standard_normal((40, 64)) * scale
    np.save(tmp_path / "train_ims.npy", values.astype(dtype))
    attempt = partial(
        extract, records(["train"], 40), Config(), ["pooled"], Folder.open(tmp_path / "s"), root=str(tmp_path)
    )
    if not 1e-5 <= scale <= 1e4:
        with pytest.raises(TooManyRejects, match="too small" if scale < 1 else "too large"):
            attempt()
        return
    store = attempt()
    stored = store.array("pooled", store.ids).astype(np.float64)
    lost = np.linalg.norm(stored - values, axis=1) / np.linalg.norm(values, axis=1)
    assert lost.max() < 2.0**-7


def test_ordinary_features_keep_their_bytes_and_fingerprints(tmp_path):
    values = np.linspace(-3, 60000, 5 * 9, dtype=np.float32).reshape(5, 9)
    values[1] = 0
    values[2] = 2.0**-17
    np.save(tmp_path / "train_ims.npy", values)
    assert features_fingerprint(records(["train"]), Config(), ["pooled"], str(tmp_path)) == "03baaf69"
    store = extract(records(["train"]), Config(), ["pooled"], Folder.open(tmp_path / "s"), root=str(tmp_path))
    assert (store.fingerprint, store.rejects) == ("32b7e7ae", {})
