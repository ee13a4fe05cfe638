"""Extraction in this process: equality with torchvision's forward, rejects, resume after a kill, limits."""

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image as Picture
from torchvision import models

from tests import s3
from vse import registry
from vse.data.records import Image, Records
from vse.errors import InputError
from vse.features import forward as forward_module
from vse.features.backbones import SmallBackbone, TorchvisionBackbone
from vse.features.decoding import decode
from vse.features.rejects import TooManyRejects
from vse.features.shards import read_receipts
from vse.features.store import FeatureStore
from vse.stages import extract as extraction
from vse.stages.extract import ExtractionConfig, extract, features_fingerprint, images_to_extract, of_other_code
from vse.storage.folder import Folder

SMALL = SmallBackbone.Config(weights="random")
SHUFFLE = TorchvisionBackbone.Config(arch="shufflenet_v2_x0_5", weights="random", size=64, seed=4)
LENIENT = ExtractionConfig(max_rejected=1.0)


@pytest.fixture
def pictures(tmp_path):
    """Twelve pictures of several sizes as PNG, by name of file."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for k in range(12):
        noise = generator.integers(0, 256, (60 + 7 * k, 120 - 5 * k, 3), dtype=np.uint8)
        Picture.fromarray(noise).save(folder / f"{k}.png")
    return folder


def records(count=12, extra=()):
    images = [Image(f"id{k}", f"{k}.png", "train") for k in range(count)]
    return Records("tiny", (*images, *extra), ())


@pytest.fixture
def folder(tmp_path):
    return Folder.open(tmp_path / "store")


@pytest.mark.seconds
def test_features_equal_torchvisions_own_forward_to_half_precision(pictures, folder):
    store = extract(records(), SHUFFLE, ["pooled", "map"], folder, root=str(pictures))
    torch.manual_seed(4)
    own = models.shufflenet_v2_x0_5(weights=None).eval()
    transform = models.ShuffleNet_V2_X0_5_Weights.DEFAULT.transforms(crop_size=64, resize_size=73)
    x = torch.stack([transform(Picture.open(pictures / f"{k}.png")) for k in range(12)])
    found = []
    own.conv5.register_forward_hook(lambda module, inputs, output: found.append(output))
    with torch.no_grad():
        own(x)
    expected = found[0].flatten(2).transpose(1, 2)
    ids = [f"id{k}" for k in range(12)]
    scale = float(expected.abs().max())
    for name, wanted in (("map", expected), ("pooled", expected.mean(1))):
        np.testing.assert_allclose(store.array(name, ids), wanted.numpy(), rtol=1e-3, atol=1e-3 * scale)


def test_every_image_is_there_once_however_shards_and_batches_fall(pictures, folder, tmp_path, monkeypatch):
    whole = extract(records(), SMALL, ["map"], folder, root=str(pictures))
    monkeypatch.setattr(forward_module, "SHARD_BYTES", 1)  # the smallest shards there are: 16 rows
    many = records(40)
    for k in range(12, 40):
        (pictures / f"{k}.png").write_bytes((pictures / f"{k % 12}.png").read_bytes())
    small = extract(
        many,
        SMALL,
        ["map"],
        Folder.open(tmp_path / "s"),
        root=str(pictures),
        options=ExtractionConfig(batch=7, workers=0),
    )
    assert small.ids == tuple(f"id{k}" for k in range(40))
    assert len([n for n in small.folder.names() if n.startswith("shard-") and n.endswith(".parquet")]) == 2
    np.testing.assert_allclose(
        small.array("map", ["id25", "id3"]), whole.array("map", ["id1", "id3"]), rtol=2e-3, atol=2e-3
    )


def test_a_split_lies_in_few_shards_wherever_the_records_have_its_images(pictures, folder, monkeypatch):
    monkeypatch.setattr(forward_module, "SHARD_BYTES", 1)
    images = tuple(Image(f"id{k}", f"{k % 12}.png", "val" if k % 7 == 3 else "train") for k in range(100))
    store = extract(Records("tiny", images, ()), SMALL, ["pooled"], folder, root=str(pictures))
    assert store.ids == tuple(image.id for image in images)
    read, own = [], FeatureStore._read
    monkeypatch.setattr(FeatureStore, "_read", lambda *args: read.append(args[1]) or own(*args))
    found = store.array("pooled", [image.id for image in images if image.split == "val"])
    assert 0 < len(read) <= 2  # 14 rows, which all 7 shards would hold in the order of the records
    monkeypatch.undo()
    assert np.array_equal(found, store.array("pooled", store.ids)[3::7])


def test_a_finished_store_is_opened_and_nothing_is_computed(pictures, folder, monkeypatch):
    first = extract(records(), SMALL, ["map"], folder, root=str(pictures))
    monkeypatch.setattr("vse.stages.extract.Forward", None)
    again = extract(records(), SMALL, ["map"], folder, root="/nowhere")
    assert again.fingerprint == first.fingerprint
    with pytest.raises(InputError, match="no output 'pooled'"):
        extract(records(), SMALL, ["pooled"], folder)


def test_features_that_a_backbone_made_before_it_was_edited_are_told(pictures, folder, monkeypatch, caplog):
    store = extract(records(), SMALL, ["map"], folder, root=str(pictures))
    assert of_other_code(store, SMALL) == ""
    monkeypatch.setattr(extraction, "code_of", lambda backbone: "0ther000")
    file = "vse/features/small_backbone.py"
    assert of_other_code(store, SMALL) == (
        f"warning: features were made with other code of {file}; to make them again, remove {folder.uri}"
    )
    caplog.clear()
    extract(records(), SMALL, ["map"], folder)
    assert caplog.messages == [of_other_code(store, SMALL)]
    del store.manifest["made_by"]["code"]  # written before this was kept
    assert of_other_code(store, SMALL) == ""


def test_features_begun_before_the_backbone_was_edited_are_told_before_the_rest_is_made(
    pictures, folder, monkeypatch, caplog
):
    good = (pictures / "11.png").read_bytes()
    (pictures / "11.png").write_bytes(b"")
    with pytest.raises(TooManyRejects):
        extract(records(), SMALL, ["map"], folder, root=str(pictures), options=ExtractionConfig(max_rejected=0))
    (pictures / "11.png").write_bytes(good)
    first = extraction.code_of(registry.build("backbone", SMALL))
    monkeypatch.setattr(extraction, "code_of", lambda backbone: "0ther000")
    store = extract(records(), SMALL, ["map"], folder, root=str(pictures))
    assert caplog.messages == [of_other_code(store, SMALL)]
    assert store.manifest["made_by"]["code"] == first


def test_unreadable_images_are_rejects_with_reasons(pictures, folder):
    (pictures / "empty.png").write_bytes(b"")
    (pictures / "cut.png").write_bytes((pictures / "3.png").read_bytes()[:300])
    bad = [Image(n, f"{n}.png", "train") for n in ("empty", "cut", "missing")]
    bad.append(Image("outside", "../secret.png", "train"))
    store = extract(records(12, bad), SMALL, ["map"], folder, root=str(pictures), options=LENIENT)
    assert len(store.ids) == 12
    assert set(store.rejects) == {"empty", "cut", "missing", "outside"}
    assert "empty" in store.rejects["empty"]
    assert "missing" in store.rejects["missing"]
    assert "leaves its root" in store.rejects["outside"]


def test_too_many_rejects_fail_in_one_line_and_a_repaired_file_heals_it(pictures, folder):
    good = (pictures / "5.png").read_bytes()
    (pictures / "5.png").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(TooManyRejects, match=r"1 of 12.*\(1 x file is empty\); for one, 'id5'") as failure:
            extract(records(), SMALL, ["map"], folder, root=str(pictures))
        assert "\n" not in str(failure.value)
        assert folder.read_manifest() is None
    (pictures / "5.png").write_bytes(good)
    assert len(extract(records(), SMALL, ["map"], folder, root=str(pictures)).ids) == 12


@pytest.mark.parametrize(("source", "keys"), [("table", 2), ("karpathy", 3), ("coco", 4), ("scenes", 0)])
def test_keys_that_are_named_are_keys_of_the_source(source, keys):
    component = registry.component("source", source)
    known = {f"data.{field.name}" for field in dataclasses.fields(component.Config)}
    assert len(component.image_keys) == len(known & set(component.image_keys)) == keys


def test_images_in_the_wrong_folder_are_told_by_their_keys_and_listed(pictures, folder):
    told = (
        r"^12 of 12 images are missing in .*/pictures/no, for example '0\.png': no file has this or a "
        r"similar name; more than max_rejected=0\.05 allows; data\.root, data\.file say .*; each is .*parquet$"
    )
    with pytest.raises(TooManyRejects, match=told):
        extract(records(), SMALL, ["map"], folder, root=str(pictures / "no"), keys=("data.root", "data.file"))
    assert pq.read_table(folder.local("rejects.parquet")).num_rows == 12
    assert folder.read_manifest() is None


def test_duplicated_addresses_under_distinct_ids_are_fine(pictures, folder):
    twice = records(3, [Image("again", "1.png", "val")])
    store = extract(twice, SMALL, ["map"], folder, root=str(pictures))
    np.testing.assert_allclose(store.array("map", ["again"]), store.array("map", ["id1"]), rtol=1e-3, atol=1e-3)


@pytest.mark.seconds
def test_a_killed_extraction_goes_on_without_loss_or_repetition(pictures, folder, monkeypatch):
    for k in range(12, 100):
        (pictures / f"{k}.png").write_bytes((pictures / f"{k % 12}.png").read_bytes())
    monkeypatch.setattr(forward_module, "SHARD_BYTES", 1)
    options = ExtractionConfig(batch=8, workers=0)
    real, written = forward_module.write_shard, []

    def dies_on_the_third(folder, ids, rows, rejects):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(list(ids))
        return real(folder, ids, rows, rejects)

    monkeypatch.setattr(forward_module, "write_shard", dies_on_the_third)
    with pytest.raises(KeyboardInterrupt):
        extract(records(100), SMALL, ["map"], folder, root=str(pictures), options=options)
    assert folder.read_manifest() is None
    assert [len(r.ids) for r in read_receipts(folder)] == [16, 16]
    monkeypatch.setattr(forward_module, "write_shard", real)
    seen = []
    monkeypatch.setattr(
        "vse.stages.extract.decode",
        lambda ids, *rest: (seen.extend(ids), decode(ids, *rest))[1],
    )
    store = extract(records(100), SMALL, ["map"], folder, root=str(pictures), options=options)
    assert sorted(seen) == sorted({f"id{k}" for k in range(100)} - set(sum(written, [])))  # noqa: RUF017
    stored = [i for r in read_receipts(folder) for i in r.ids]
    assert sorted(stored) == sorted(store.ids) == sorted(f"id{k}" for k in range(100))
    np.testing.assert_allclose(store.array("map", ["id99"]), store.array("map", ["id3"]), rtol=2e-3, atol=2e-3)


@pytest.mark.process
def test_on_s3_shards_are_not_read_back_to_go_on(pictures, monkeypatch):
    """Who reads one for its features finds the damage."""
    with s3.server() as place:
        folder = Folder.open(s3.address(place, "store"))
        store = extract(records(), SMALL, ["pooled"], folder, root=str(pictures))
        (receipt,) = read_receipts(folder)
        folder.write_bytes(str(receipt.file), bytes(receipt.entry["bytes"]))
        monkeypatch.setattr(Folder, "entry", lambda *_: pytest.fail("a shard is read back"))
        assert images_to_extract(records(), folder) == []
        with pytest.raises(InputError, match="damaged, its checksum differs"):
            store.array("pooled", ["id0"])


def test_a_damaged_shard_is_made_again(pictures, folder):
    store = extract(records(), SMALL, ["map"], folder, root=str(pictures))
    before = store.array("map", store.ids)
    shard = next(n for n in folder.names() if n.startswith("shard-") and n.endswith(".parquet"))
    folder.local(shard).write_bytes(folder.read_bytes(shard)[:-100])
    again = extract(records(), SMALL, ["map"], folder, root=str(pictures))
    assert np.array_equal(again.array("map", store.ids), before)


def test_wrong_requests_come_before_any_work(pictures, folder, tmp_path):
    with pytest.raises(InputError, match="'fc1'"):
        extract(records(), SMALL, ["fc1"], folder, root=str(pictures))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        extract(records(), SMALL, ["map"], Folder.open(tmp_path / "file" / "store"), root=str(pictures))


def test_the_fingerprint_follows_what_the_features_depend_on():
    base = features_fingerprint(records(), SMALL, ["map"])
    others = [
        features_fingerprint(records(11), SMALL, ["map"]),
        features_fingerprint(records(), SmallBackbone.Config(weights="random", seed=1), ["map"]),
        features_fingerprint(records(), SMALL, ["map", "pooled"]),
        features_fingerprint(records(), SHUFFLE, ["map"]),
        features_fingerprint(records(), TorchvisionBackbone.Config(arch="resnet152", transform="scale"), ["map"]),
        features_fingerprint(records(), TorchvisionBackbone.Config(arch="resnet152"), ["map"]),
    ]
    assert len({base, *others}) == 7
    assert features_fingerprint(records(), SMALL, ["pooled", "map"]) == others[2]


def test_long_work_goes_to_ray_after_a_first_look(pictures, folder, monkeypatch):
    for k in range(12, 40):
        (pictures / f"{k}.png").write_bytes((pictures / f"{k % 12}.png").read_bytes())
    asked = []

    def no_cluster():
        asked.append(len([i for r in read_receipts(folder) for i in r.ids]))
        raise RuntimeError("no cluster here")

    def run(patience):
        options = ExtractionConfig(patience=patience)
        extract(records(40), SMALL, ["map"], folder, root=str(pictures), options=options, cluster=no_cluster)

    with pytest.raises(RuntimeError, match="no cluster"):
        run(patience=0)
    assert asked == [16]  # the first look is committed work
    run(patience=60)
    assert asked == [16]
