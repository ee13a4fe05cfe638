"""Features of regions that are pooled from the maps of their photographs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vse.config import override
from vse.data.regions import sides_of, split_uri
from vse.errors import InputError
from vse.presets import preset
from vse.stages.describe import describe, without
from vse.stages.extract import check_features, extracted, features_identity, kept_features, stored_features
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

FEW = {"data.of.num_train": 3, "data.of.num_val": 2, "data.of.num_test": 2, "data.number": 6}


def _config(changes: dict[str, Any]) -> RunConfig:
    return override(preset("cite_localisation_small"), FEW | {"data.regions": "pooled", **changes})


def test_only_photographs_are_extracted(tmp_path: Path) -> None:
    config, workspace = _config({}), Workspace.open(str(tmp_path))
    records = describe(config, workspace)
    features = stored_features(config, workspace, records, ("pooled",))
    photographs = [image.id for image in records.images if sides_of(image.id) is None]
    assert list(features.store.ids) == photographs
    assert len(photographs) == 7 < len(records.images)
    assert features.store.outputs == ("map",)
    regions = tuple(image.id for image in records.images if sides_of(image.id))
    found = features.array("pooled", regions)
    assert found.shape == (len(regions), features.channels("pooled"))
    maps = dict(zip(photographs, features.store.array("map", photographs).astype(np.float32), strict=True))
    side = round(maps[photographs[0]].shape[0] ** 0.5)
    for region, row in list(zip(regions, found, strict=True))[::7]:
        grid = maps[split_uri(region)[0]].reshape(side, side, -1)
        left, top, right, bottom = sides_of(region) or (0.0, 0.0, 1.0, 1.0)
        total, weight = 0.0, 0.0
        for y in range(side):
            for x in range(side):
                wide = max(0.0, min(right, (x + 1) / side) - max(left, x / side))
                high = max(0.0, min(bottom, (y + 1) / side) - max(top, y / side))
                total, weight = total + wide * high * grid[y, x], weight + wide * high
        np.testing.assert_allclose(row[:-5], total / weight, rtol=2e-3, atol=2e-3)
    assert kept_features(config, workspace, records, ("pooled",)) is not None
    cropped = override(config, {"data.regions": "cropped"})
    assert kept_features(cropped, workspace, records, ("pooled",)) is None
    assert features_identity(config, workspace, records, "pooled") != features_identity(
        cropped, workspace, records, "pooled"
    )


def test_regions_go_with_their_photograph(tmp_path: Path) -> None:
    records = describe(_config({}), Workspace.open(str(tmp_path)))
    gone = records.images[0].id
    left = without(records, {gone})
    assert {split_uri(image.id)[0] for image in left.images} == {split_uri(i.id)[0] for i in records.images} - {gone}
    assert {split_uri(caption.image)[0] for caption in left.captions}.isdisjoint({gone})


@pytest.mark.parametrize(
    ("changes", "outputs", "message"),
    [
        (
            {"features.backbone": "torchvision", "features.backbone.transform": "crop"},
            ("pooled",),
            "data.regions=pooled: needs maps of whole pictures; use features.backbone.transform=scale or "
            "data.regions=cropped",
        ),
        ({}, ("fc1",), "data.regions=pooled: has one mean vector per region, no 'fc1'; use model.image=pooled"),
        (
            {"features.backbone": "arrays"},
            ("pooled",),
            "data.regions=pooled: features.backbone=arrays has no network; choose one that reads images",
        ),
    ],
)
def test_refused_in_one_line(tmp_path: Path, changes: dict[str, Any], outputs: tuple[str, ...], message: str) -> None:
    config, workspace = _config(changes), Workspace.open(str(tmp_path))
    records = describe(config, workspace)
    for ask in (
        lambda: extracted(config, records, outputs),
        lambda: check_features(config, records, outputs, workspace),
    ):
        with pytest.raises(InputError) as caught:
            ask()
        assert str(caught.value) == message
