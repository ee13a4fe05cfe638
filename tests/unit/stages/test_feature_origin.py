"""Features are used again only for the image files that they were made of, and completed if missing files come."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Picture

from tests import s3
from vse.config import override
from vse.data.reading import notice
from vse.data.records import Image, Records
from vse.errors import InputError
from vse.features.backbones import SmallBackbone
from vse.features.store import FeatureStore
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.extract import ExtractionConfig, extract, kept_features
from vse.storage.folder import Folder
from vse.training.inputs import run_fingerprint
from vse.workspace.layout import Workspace

SMALL = SmallBackbone.Config(weights="random")
LENIENT = ExtractionConfig(max_rejected=1.0)


def photographs(folder, seed, names=("a.png", "b.png", "c.png")):
    """A folder of pictures that depend on a seed."""
    folder.mkdir(exist_ok=True)
    for name, pixels in zip(names, np.random.default_rng(seed).integers(0, 256, (len(names), 40, 40, 3)), strict=True):
        Picture.fromarray(pixels.astype(np.uint8)).save(folder / name)
    return folder


def features(root, folder, uris=("a.png", "b.png", "c.png"), options=LENIENT):
    images = tuple(Image(f"id{k}", uri, "train") for k, uri in enumerate(uris))
    return extract(Records("tiny", images, ()), SMALL, ["pooled"], folder, root=str(root), options=options)


@pytest.fixture
def folder(tmp_path):
    return Folder.open(tmp_path / "store")


def test_other_images_of_the_same_names_are_refused(tmp_path, folder):
    own, copy, blurred = (
        photographs(tmp_path / name, seed) for name, seed in (("own", 0), ("copy", 0), ("blurred", 1))
    )
    store = features(own, folder)
    for root in (own, copy, tmp_path / "nowhere"):
        assert features(root, folder).fingerprint == store.fingerprint
    with pytest.raises(InputError) as refusal:
        features(blurred, folder)
    assert str(refusal.value) == (
        f"{blurred}/a.png: is not the file that the features in {folder} were made of; rename the data set (its table, "
        "JSON file or folder) to keep features of both, or remove that folder to make them again"
    )


def test_features_of_stores_without_a_note_of_their_images_are_used(tmp_path, folder):
    own, blurred = photographs(tmp_path / "own", 0), photographs(tmp_path / "blurred", 1)
    store = features(own, folder)
    content = {key: value for key, value in store.manifest.items() if key != "files"}
    made_by = {key: value for key, value in content["made_by"].items() if key != "images"}
    folder.commit_manifest(store.manifest["files"], content | {"made_by": made_by})
    assert features(blurred, folder).fingerprint == store.fingerprint


def test_images_are_compared_under_the_names_of_their_files(tmp_path, folder):
    """Even if the data set names them in another case of letters."""
    uris = ("A.PNG", "B.PNG", "C.PNG")
    features(photographs(tmp_path / "own", 0), folder, uris)
    with pytest.raises(InputError, match=r"blurred/a\.png: is not the file"):
        features(photographs(tmp_path / "blurred", 1), folder, uris)


def test_a_rejected_image_may_be_repaired(tmp_path, folder):
    own = photographs(tmp_path / "own", 0)
    (own / "a.png").write_bytes(b"")
    store = features(own, folder)
    assert set(store.rejects) == {"id0"}
    photographs(own, 0)
    assert features(own, folder).fingerprint == store.fingerprint


def test_an_image_that_was_missing_is_extracted_once_its_file_is_there(tmp_path, folder, caplog):
    own = photographs(tmp_path / "own", 0)
    (own / "a.png").write_bytes(b"")
    (own / "c.png").rename(tmp_path / "c.png")
    before = features(own, folder)
    assert before.rejects == {"id0": "file is empty", "id2": "file is missing"}
    (tmp_path / "c.png").rename(own / "c.png")
    with caplog.at_level("INFO", logger="vse"):
        after = features(own, folder, options=ExtractionConfig())  # one third is left out, as it was accepted before
    assert caplog.messages == ["tiny: images that were missing are there now; extracting what was left out"]
    assert (after.ids, after.rejects) == (("id1", "id2"), {"id0": "file is empty"})
    assert set(before.manifest["files"]) < set(after.manifest["files"])
    assert np.array_equal(after.array("pooled", ["id1"]), before.array("pooled", ["id1"]))
    assert features(own, folder, options=ExtractionConfig()).fingerprint == after.fingerprint


@pytest.mark.process
def test_on_s3_as_well(tmp_path):
    own = photographs(tmp_path / "own", 0)
    (own / "c.png").rename(tmp_path / "c.png")
    with s3.server() as place:
        folder = Folder.open(s3.address(place, "store"))
        assert features(own, folder).ids == ("id0", "id1")
        (tmp_path / "c.png").rename(own / "c.png")
        assert features(own, folder).ids == ("id0", "id1", "id2")
        assert FeatureStore.open(folder).ids == ("id0", "id1", "id2")


def test_an_image_that_its_container_lacks_is_not_tried_by_every_job(tmp_path, folder, monkeypatch):
    cells = [
        {"bytes": (photographs(tmp_path, 0) / "a.png").read_bytes(), "path": ""},
        {"bytes": None, "path": "no.png"},
    ]
    pq.write_table(pa.table({"image": cells}), tmp_path / "data.parquet")
    uris = [f"data.parquet#row={row}&column=image" for row in range(2)]
    store = features(tmp_path, folder, uris)
    assert store.rejects == {"id1": "file is missing"}
    monkeypatch.setattr("vse.stages.extract._run", lambda *_: pytest.fail("extracted again"))
    assert features(tmp_path, folder, uris).fingerprint == store.fingerprint


def table(tmp_path, count):
    """The configuration of a run on so many photographs, the last of which is the only test image."""
    rows = [f"{k}.png,a dog,{'train' if k < count - 2 else 'val' if k < count - 1 else 'test'}" for k in range(count)]
    (tmp_path / "mine.csv").write_text("\n".join(["image,caption,split", *rows]))
    data = {"data": "table", "data.file": str(tmp_path / "mine.csv"), "features.backbone.weights": "random"}
    return override(preset("vsepp_tiny"), data)


def test_runs_on_fewer_images_have_another_identity(tmp_path, caplog):
    own = photographs(tmp_path / "own", 0, [f"{k}.png" for k in range(24)])
    config, workspace = override(table(tmp_path, 24), {"data.root": str(own)}), str(tmp_path / "workspace")
    (own / "3.png").rename(tmp_path / "3.png")
    with caplog.at_level("INFO", logger="vse"):
        fewer = [pipeline.prepare(config, Workspace.open(workspace)) for _ in range(2)]
        notice.cache_clear()  # as in another process
        pipeline.prepare(config, Workspace.open(workspace))
    note = "data set 'mine': left out 1 of 24 images (1 x file is missing); each is listed in "
    assert sum(message.startswith(note) for message in caplog.messages) == 2
    assert [len(each.records.images) for each in fewer] == [23, 23]
    (tmp_path / "3.png").rename(own / "3.png")
    whole = pipeline.prepare(config, Workspace.open(workspace))
    assert len(whole.records.images) == 24
    assert set(fewer[0].fingerprints) - set(whole.fingerprints) == {"rejected"}
    assert fewer[0].fingerprints == fewer[1].fingerprints
    assert run_fingerprint(config, fewer[0]) != run_fingerprint(config, whole)


def test_every_job_that_takes_features_compares_their_images(tmp_path):
    names = ("0.png", "1.png", "2.png")
    own, blurred = photographs(tmp_path / "own", 0, names), photographs(tmp_path / "blurred", 1, names)
    config, place = table(tmp_path, 3), Workspace.open(str(tmp_path / "workspace"))
    records = pipeline.prepare(override(config, {"data.root": str(own)}), place).records
    other = override(config, {"data.root": str(blurred)})
    with pytest.raises(InputError, match=r"blurred/0\.png: is not the file"):
        pipeline.prepare(other, place)
    with pytest.raises(InputError, match=r"blurred/0\.png: is not the file"):
        kept_features(other, place, records, ("pooled",))
