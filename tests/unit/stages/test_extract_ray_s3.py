"""Extraction with Ray Data of pictures on S3, with weights there, into a workspace there: no local file takes part."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests import photographs, s3
from vse.cluster import runtime
from vse.data.sources.karpathy import Karpathy
from vse.features.backbones import SmallBackbone
from vse.stages.extract import ExtractionConfig, extract
from vse.storage.folder import Folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server, its credentials and a cache in the environment, and then one Ray, whose workers inherit them."""
    patch = pytest.MonkeyPatch()
    patch.setenv("VSE_CACHE", str(tmp_path_factory.mktemp("cache")))
    ray = runtime.Config(address="local", cpus=2, gpus=0, store_mib=150)
    with s3.server() as place, runtime.running_ray(ray):
        yield place
    patch.undo()


def test_the_store_is_that_of_the_disk(server: str, tmp_path: Path) -> None:
    disk = photographs.write(tmp_path / "tiny")
    data = photographs.upload(disk, Folder.open(s3.address(server, "data")))
    data.child("images").write_bytes("3.png", b"")
    stores = []
    for root, weights, folder, workers in (
        (str(disk), str(disk / photographs.WEIGHTS), Folder.open(tmp_path / "here"), 0),
        (data.uri, data.address(photographs.WEIGHTS), Folder.open(s3.address(server, "there")), 1),
    ):
        source = Karpathy(Karpathy.Config(root=root))
        config, options = SmallBackbone.Config(weights=weights), ExtractionConfig(workers=workers, max_rejected=0.2)
        records = source.describe()
        stores.append(extract(records, config, ["map"], folder, root=source.image_root, options=options))
    here, there = stores
    assert there.rejects == {"3.png": "file is empty"}
    assert there.ids == tuple(image for image in here.ids if image != "3.png")
    ours, theirs = here.array("map", there.ids), there.array("map", there.ids)
    np.testing.assert_allclose(theirs, ours, rtol=2e-3, atol=2e-3)
