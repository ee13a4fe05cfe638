"""Damaged outputs of stages are made again by the next job that reads them, locally and on S3: several in one pass."""

import dataclasses
import logging
import shutil

import numpy as np
import pytest

from tests import s3
from tests.levels import slow_but
from vse.config import override
from vse.data.records import Image
from vse.errors import InputError
from vse.features.backbones import SmallBackbone
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.contrast import contrast_candidates
from vse.stages.extract import ExtractionConfig, extract
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

SMALL = {"data.num_train": 60, "data.num_val": 20, "data.num_test": 8, "data.num_shifted": 0}
CONFIG = override(preset("univse_tiny"), SMALL)


@pytest.fixture(params=slow_but(["local", "s3"], "local"))
def workspace(request, tmp_path, s3_server, monkeypatch):
    """Stages 1 to 3 done, in small shards."""
    monkeypatch.setattr("vse.stages.extract.shard_rows", lambda _: 5)
    monkeypatch.setattr("vse.stages.parse.SHARD_TEXTS", 20)
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    uri = str(tmp_path / "workspace") if request.param == "local" else s3.address_of(request, s3_server)
    made = Workspace.open(uri)
    pipeline.prepare(CONFIG, made)
    return made


def forgotten(tmp_path, monkeypatch):
    """As another node sees it, or this one after its cache was cleared."""
    from vse.features import store
    from vse.text import corpus

    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    monkeypatch.setattr(store, "_cached", {})
    corpus._shared.cache_clear()


def parses_of(workspace):
    parses = pipeline.prepare(CONFIG, workspace).parses
    assert parses is not None
    return parses


def shards(workspace, kind, prefix):
    """(folder, names) of the only stage of a kind."""
    (dataset,) = workspace.root.child(kind).names()
    (digits,) = workspace.root.child(kind, dataset).names()
    folder = workspace.root.child(kind, dataset, digits)
    return folder, [name for name in folder.names() if name.startswith(prefix) and name.endswith(".parquet")]


def flip(folder, name):
    data = folder.read_bytes(name)
    at = len(data) // 2
    folder.write_bytes(name, data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_damaged_shards_of_features_are_extracted_again(workspace, tmp_path, monkeypatch, caplog):
    material = pipeline.prepare(CONFIG, workspace)
    ids = tuple(image.id for image in material.records.images)
    before = np.array(material.features.array("map", ids))
    folder, names = shards(workspace, "features", "shard-")
    assert len(names) >= 3
    forgotten(tmp_path, monkeypatch)
    for name in names[:2]:
        flip(folder, name)
    caplog.clear()
    again = pipeline.prepare(CONFIG, workspace).features.array("map", ids)
    np.testing.assert_array_equal(again, before)
    assert warnings(caplog) == [f"{folder}: {names[0]}, {names[1]} are damaged or missing; making them again"]
    assert folder.read_manifest() is not None


@pytest.mark.parametrize(
    "name", slow_but(["index.parquet", "manifest.json", "rejects.parquet", "begun_by.json"], "index.parquet")
)
def test_small_files_beside_the_shards_are_written_again_without_extracting(
    name, workspace, tmp_path, monkeypatch, caplog
):
    folder, _ = shards(workspace, "features", "shard-")
    before = folder.read_manifest()
    forgotten(tmp_path, monkeypatch)
    monkeypatch.setattr("vse.stages.extract._run", lambda *a: pytest.fail("extracted again"))
    for damaged in (b"", b"<html>", folder.read_bytes(name)[:-1]):
        folder.write_bytes(name, damaged)
        if name == "begun_by.json":
            folder.delete("manifest.json")
        pipeline.prepare(CONFIG, workspace)
        assert folder.read_manifest() == before
        forgotten(tmp_path, monkeypatch)


def test_damaged_parses_are_made_again(workspace, tmp_path, monkeypatch, caplog):
    texts = [caption.text for caption in pipeline.prepare(CONFIG, workspace).records.captions]
    parses = parses_of(workspace)
    before = [parses.parse(text) for text in texts]
    folder, names = shards(workspace, "language", "parses-")
    assert len(names) >= 3
    forgotten(tmp_path, monkeypatch)
    for name in (names[0], names[2]):
        flip(folder, name)
    caplog.clear()
    parses = parses_of(workspace)
    assert [parses.parse(text) for text in texts] == before
    assert warnings(caplog) == [f"{folder}: {names[0]}, {names[2]} are damaged or missing; making them again"]


@pytest.mark.slow
def test_damaged_candidates_are_made_again(workspace, tmp_path, monkeypatch, caplog):
    material = pipeline.prepare(CONFIG, workspace)
    arguments = material.records, parses_of(workspace), "train", CONFIG.text.contrast, workspace
    before = contrast_candidates(*arguments)
    folder = workspace.language(pipeline.dataset_name(material.records), before.fingerprint)
    (name,) = (each for each in folder.names() if each.startswith("candidates-"))
    for each in (name, "words.json"):
        flip(folder, each)
    forgotten(tmp_path, monkeypatch)
    caplog.clear()
    again = contrast_candidates(*arguments)
    assert again.table.equals(before.table)
    assert again.words.fingerprint == before.words.fingerprint
    assert warnings(caplog) == [f"{folder}: {name}, words.json are damaged or missing; making them again"]


def test_features_whose_images_are_gone_are_one_line_and_no_image_is_lost_silently(tmp_path, caplog):
    from PIL import Image as Picture

    from vse.data.records import Records

    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for k in range(6):
        Picture.new("RGB", (64, 64), (40 * k, 0, 0)).save(pictures / f"{k}.png")
    records = Records("tiny", tuple(Image(f"id{k}", f"{k}.png", "train") for k in range(6)), ())
    folder, lenient = Folder.open(tmp_path / "store"), ExtractionConfig(max_rejected=1.0)
    backbone = SmallBackbone.Config(weights="random")
    extract(records, backbone, ["pooled"], folder, root=str(pictures))
    (shard,) = (name for name in folder.names() if name.startswith("shard-") and name.endswith(".parquet"))
    flip(folder, shard)
    (pictures / "3.png").unlink()
    folder.delete("manifest.json")
    for _ in range(2):  # the second time too
        with pytest.raises(InputError, match=r"features of \d images were damaged and cannot be extracted .*'id3'"):
            extract(records, backbone, ["pooled"], folder, root=str(pictures), options=lenient)
    Picture.new("RGB", (64, 64), (120, 0, 0)).save(pictures / "3.png")
    assert len(extract(records, backbone, ["pooled"], folder, root=str(pictures), options=lenient).ids) == 6


def test_a_receipt_that_names_other_images_than_it_was_written_for_is_absent(tmp_path):
    from vse.features.shards import read_receipts, write_shard

    folder = Folder.open(tmp_path)
    receipt = write_shard(folder, ["a", "b"], {"pooled": np.zeros((2, 3), np.float16)})
    content = folder.read_json(f"{receipt.name}.json")
    for changed in ({"ids": ["a", "c"]}, {"rejects": 1}, {"entry": {}}, {"ids": None}):
        folder.write_json(f"{receipt.name}.json", content | changed)
        assert list(read_receipts(folder)) == []
    folder.write_json(f"{receipt.name}.json", content)
    assert dataclasses.astuple(next(iter(read_receipts(folder)))) == dataclasses.astuple(receipt)
