"""Features are used again only for the image files that they were made of, if these can be seen."""

import numpy as np
import pytest
from PIL import Image as Picture

from vse.config import override
from vse.data.records import Image, Records
from vse.errors import InputError
from vse.features.backbones import SmallBackbone
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.extract import ExtractionConfig, extract, kept_features
from vse.storage.folder import Folder
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


def test_every_job_that_takes_features_compares_their_images(tmp_path):
    own, blurred = photographs(tmp_path / "own", 0), photographs(tmp_path / "blurred", 1)
    rows = ["a.png,a dog,train", "b.png,a cat,val", "c.png,a bird,test"]
    (tmp_path / "mine.csv").write_text("\n".join(["image,caption,split", *rows]))
    data = {"data": "table", "data.file": str(tmp_path / "mine.csv"), "features.backbone.weights": "random"}
    config, place = override(preset("vsepp_tiny"), data), Workspace.open(str(tmp_path / "workspace"))
    records = pipeline.prepare(override(config, {"data.root": str(own)}), place).records
    other = override(config, {"data.root": str(blurred)})
    with pytest.raises(InputError, match=r"blurred/a\.png: is not the file"):
        pipeline.prepare(other, place)
    with pytest.raises(InputError, match=r"blurred/a\.png: is not the file"):
        kept_features(other, place, records, ("pooled",))
