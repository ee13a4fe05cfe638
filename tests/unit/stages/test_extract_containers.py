"""Extraction of images inside other files with Ray Data: two workers read the containers, as one process does."""

from pathlib import Path

import numpy as np
import pytest

from tests import photographs
from tests.unit.data.test_webdataset import as_shards
from vse.cluster import runtime
from vse.data.sources.webdataset import WebDataset
from vse.features.backbones import SmallBackbone
from vse.stages.extract import ExtractionConfig, extract
from vse.storage.folder import Folder

pytestmark = [pytest.mark.slow, pytest.mark.process]
SMALL = SmallBackbone.Config(weights="random")


def test_two_workers_read_shards_as_one_process_does(tmp_path: Path) -> None:
    source = WebDataset(WebDataset.Config(root=str(as_shards(photographs.write(tmp_path / "f"), tmp_path / "shards"))))
    records, options = source.describe(), ExtractionConfig(workers=0)
    here = extract(records, SMALL, ["pooled"], Folder.open(tmp_path / "1"), root=source.image_root, options=options)
    with runtime.running_ray(runtime.Config(address="local", cpus=3, gpus=0, store_mib=150)):
        options, folder = ExtractionConfig(workers=2, batch=4), Folder.open(tmp_path / "2")
        there = extract(records, SMALL, ["pooled"], folder, root=source.image_root, options=options)
    ids = [image.id for image in records.images]
    assert set(there.ids) == set(ids)
    np.testing.assert_allclose(there.array("pooled", ids), here.array("pooled", ids), rtol=2e-3, atol=2e-3)
