import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tests.levels import slow_but
from vse.data.records import Records
from vse.data.regions import iou
from vse.data.sources.scenes import Scenes
from vse.errors import InputError
from vse.features.proposing import ProposalConfig, propose
from vse.stages import propose as stage
from vse.workspace.layout import Workspace

SQUARE = np.array([[0.25, 0.2, 0.75, 0.6]])


def _picture() -> Image.Image:
    picture = Image.new("RGB", (120, 100), (240, 240, 240))
    ImageDraw.Draw(picture).rectangle((30, 20, 89, 59), fill=(200, 30, 30))
    return picture


@pytest.mark.seconds
@pytest.mark.parametrize("changes", slow_but([{}, {"quality": True}, {"method": "edge_boxes"}, {"side": 60}], {}))
def test_an_object_is_proposed(changes: dict[str, Any]) -> None:
    pytest.importorskip("cv2", reason="needs the extra `proposals`")
    config = ProposalConfig(number=100, **changes).check()
    boxes = propose(_picture(), config)
    assert 0 < len(boxes) <= 100
    assert iou(SQUARE, boxes).max() > 0.7
    np.testing.assert_array_equal(boxes, propose(_picture(), config))  # nothing depends on earlier pictures
    np.testing.assert_array_equal(boxes[:3], propose(_picture(), ProposalConfig(number=3, **changes)))


def test_a_picture_too_small_to_segment_is_one_region() -> None:
    np.testing.assert_array_equal(propose(Image.new("RGB", (5, 90)), ProposalConfig()), [[0, 0, 1, 1]])


@pytest.mark.seconds
def test_what_edge_boxes_need(tmp_path: Path) -> None:
    pytest.importorskip("cv2", reason="needs the extra `proposals`")
    with pytest.raises(InputError, match=r"proposals\.model: Edge Boxes .* OpenCV does not ship"):
        ProposalConfig(method="edge_boxes", edges="structured").check()
    with pytest.raises(InputError, match=r"no\.yml: no such file"):
        ProposalConfig(method="edge_boxes", edges="structured", model=str(tmp_path / "no.yml")).check()
    with pytest.raises(InputError, match=r"goes with proposals\.method=edge_boxes"):
        ProposalConfig(model="model.yml.gz").check()
    (tmp_path / "model.yml").write_text("nothing")
    config = ProposalConfig(method="edge_boxes", edges="structured", model=str(tmp_path / "model.yml")).check()
    with pytest.raises(InputError, match=r"model\.yml: is not a model of structured forests"):
        propose(_picture(), config)


def test_without_opencv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(InputError, match=r"pip install -c constraints\.txt -e '\.\[proposals\]'"):
        ProposalConfig().check()


def _few() -> Records:
    return Scenes(Scenes.Config(num_train=stage.SHARD_IMAGES + 2, num_val=1, num_test=0, num_shifted=0)).describe()


@pytest.mark.seconds
def test_the_stage_keeps_finished_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cv2", reason="needs the extra `proposals`")
    records, config, workspace = _few(), ProposalConfig(number=20), Workspace.open(str(tmp_path))
    made: list[int] = []
    real = stage.propose_shard

    def shard(*given: Any, **more: Any) -> int:
        if made:
            raise KeyboardInterrupt
        made.append(real(*given, **more))
        return made[-1]

    monkeypatch.setattr(stage, "propose_shard", shard)
    with pytest.raises(KeyboardInterrupt):
        stage.propose_regions(records, "", config, workspace, num_workers=1)
    monkeypatch.setattr(stage, "propose_shard", lambda *given, **more: made.append(n := real(*given, **more)) or n)
    folder = stage.propose_regions(records, "", config, workspace, num_workers=1)
    assert made == [stage.SHARD_IMAGES, 3]
    bounds = {(split, count): (hits, phrases) for split, count, hits, phrases in
              stage.upper_bounds(records, folder.address(stage.FILE))}  # fmt: skip
    assert bounds.keys() == {(split, count) for split in ("train", "val") for count in stage.COUNTS}
    assert 0 < bounds["train", 100][0] <= bounds["train", 100][1]
    assert stage.propose_regions(records, "", config, workspace) == folder
    assert len(made) == 2
