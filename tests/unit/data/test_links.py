"""Images that are links, as in hub caches, are followed into the folders that `data.links` names, and no others."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from vse.data.image_files import locate
from vse.data.images import open_image
from vse.data.places import AddressError
from vse.data.source import Source
from vse.data.sources.karpathy import Karpathy
from vse.data.sources.precomp import Precomp
from vse.data.sources.table import Table
from vse.errors import InputError


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A snapshot of a hub's cache: every file is a link to its blob."""
    blobs, snapshot = tmp_path / "hub/blobs", tmp_path / "hub/snapshots/1a2b"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)

    def place(name: str, write: Callable[[Path], object]) -> None:
        write(blobs / f"blob-of-{name}")
        (snapshot / name).symlink_to(f"../../blobs/blob-of-{name}")

    sentences = [{"raw": "a dog"}]
    images = [{"filename": "1.jpg", "split": "train", "sentences": sentences}]
    place("1.jpg", lambda path: PIL.Image.new("RGB", (4, 4)).save(path, format="jpeg"))
    place("dataset_x.json", lambda path: path.write_text(json.dumps({"images": images})))
    place("captions.csv", lambda path: path.write_text("image,caption\n1.jpg,a dog\n"))
    place("train_caps.txt", lambda path: path.write_text("a dog\n"))
    features = np.ones((1, 4), np.float32)
    with (blobs / "features").open("wb") as stream:
        np.save(stream, features)
    (snapshot / "train_ims.npy").symlink_to("../../blobs/features")
    return snapshot


def sources(root: Path, *links: str) -> list[Source]:
    return [
        Karpathy(Karpathy.Config(root=str(root), links=links)),
        Table(Table.Config(root=str(root), file=str(root / "captions.csv"), links=links)),
        Table(Table.Config(file=str(root / "captions.csv"), links=links)),
    ]


def test_links_into_a_folder_that_a_key_names_are_followed(hub: Path) -> None:
    blobs = str(hub.parents[1] / "blobs")
    for source, plain in zip(sources(hub, blobs), sources(hub), strict=True):
        assert source.describe().fingerprint == plain.describe().fingerprint
        assert open_image("1.jpg", source.image_root).size == (4, 4)
        with pytest.raises(AddressError, match=rf"data\.links={blobs} allows"):
            open_image("1.jpg", plain.image_root)
    assert len(Precomp(Precomp.Config(root=str(hub), links=(blobs,))).describe().images) == 1
    with pytest.raises(InputError, match=rf"data\.links={blobs} allows"):
        Precomp(Precomp.Config(root=str(hub))).describe()


def test_images_that_are_links_are_no_missing_files(hub: Path) -> None:
    plain, linked = sources(hub)[0], sources(hub, str(hub.parents[1] / "blobs"))[0]
    assert locate(linked.image_root, ["1.jpg"]).missing == {}
    advice = rf"it is a symbolic link that leads out; data\.links={hub.parents[1]}/blobs allows links into that folder"
    assert re.fullmatch(advice, locate(plain.image_root, ["1.jpg"]).missing["1.jpg"])


def test_links_to_anywhere_else_are_refused(hub: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").touch()
    (hub / "2.jpg").symlink_to(tmp_path / "secret.jpg")
    (hub.parents[1] / "blobs/3").symlink_to(tmp_path / "secret.jpg")
    (hub / "3.jpg").symlink_to("../../blobs/3")
    for source in sources(hub, str(hub.parents[1] / "blobs")):
        for name in ("2.jpg", "3.jpg", "../../../secret.jpg"):
            with pytest.raises(AddressError, match="leaves its root"):
                open_image(name, source.image_root)


def test_folders_that_do_not_exist_are_named(hub: Path) -> None:
    with pytest.raises(InputError, match=r"^data\.links=/nowhere: no such folder"):
        _ = sources(hub, "/nowhere")[0].image_root
