import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vse.data.proposal_files import proposals_as_parquet, read_proposals
from vse.data.records import Records
from vse.data.regions import around, iou, sides_of, split_uri
from vse.data.source import rejects
from vse.data.sources.flickr30k_entities import Flickr30kEntities
from vse.data.sources.phrase_regions import PhraseRegions
from vse.data.sources.scenes import Scenes
from vse.data.sources.table import Table
from vse.errors import InputError
from vse.registry import ComponentConfig
from vse.storage.folder import Folder

SCENES = Scenes.Config(num_train=6, num_val=2, num_test=3, num_shifted=0)


def _records(of: ComponentConfig = SCENES, **config: Any) -> Records:
    return PhraseRegions(PhraseRegions.Config(of=of, number=40, **config)).describe()


def _proposals(records: Records, photograph: str) -> np.ndarray:
    regions = [sides_of(i.id) for i in records.images if split_uri(i.id) == (photograph, i.id[len(photograph) :])]
    return np.array([sides for sides in regions if sides])


def test_photographs_keep_the_boxes_of_their_phrases() -> None:
    records, whole = _records(), Scenes(SCENES).describe()
    assert records.boxes.keys() == whole.boxes.keys()
    captions = {caption.id: caption for caption in records.captions}
    for photograph, boxes in records.boxes.items():
        assert len(boxes) == len(whole.boxes[photograph])
        for box in boxes:
            assert captions[box.caption].text == box.label
            assert split_uri(captions[box.caption].image)[0] == photograph


def test_complete_splits_pair_each_phrase_with_its_best_proposal() -> None:
    records = _records()
    for photograph in (image.id for image in records.images if image.split == "test" and image.id in records.boxes):
        proposals = _proposals(records, photograph)
        assert len(proposals) == 40
        for id_ in {box.caption for box in records.boxes[photograph]}:
            mine = np.array([(b.left, b.top, b.right, b.bottom) for b in records.boxes[photograph] if b.caption == id_])
            box = [*mine[:, :2].min(0), *mine[:, 2:].max(0)]
            (region,) = [caption.image for caption in records.captions if caption.id == id_]
            best = iou(np.array([box]), proposals).max()
            assert iou(np.array([box]), np.array([sides_of(region)]))[0, 0] == best
    texts = [c.id for c in records.captions if c.id.startswith("test")]
    assert not any("." in id_.partition("#phrase")[2] for id_ in texts)  # each phrase once


def test_every_phrase_has_a_correct_proposal_even_one_of_several_boxes() -> None:
    records, several = _records(), 0
    assert records.images[-1].split == "test"
    for photograph in (image.id for image in records.images if image.split == "test" and image.id in records.boxes):
        for id_ in {box.caption for box in records.boxes[photograph]}:
            mine = np.array([(b.left, b.top, b.right, b.bottom) for b in records.boxes[photograph] if b.caption == id_])
            several += len(mine) > 1
            assert iou(around(mine)[None], _proposals(records, photograph)).max() > 0.999
    assert several


def test_training_pairs_overlap_their_phrase() -> None:
    records = _records(positive=0.6, negative=0.2, most=3, background=5)
    first = {box.caption: photograph for photograph, boxes in records.boxes.items() for box in boxes}
    paired = {caption.image for caption in records.captions}
    assert any(".1" in caption.id for caption in records.captions)
    for caption in records.captions:
        if not caption.id.startswith("train"):
            continue
        base = re.sub(r"\.\d+$", "", caption.id)
        boxes = [b for b in records.boxes[first[base]] if b.caption == base]
        corners = np.array([(b.left, b.top, b.right, b.bottom) for b in boxes])
        box = np.array([[*corners[:, :2].min(0), *corners[:, 2:].max(0)]])
        assert iou(box, np.array([sides_of(caption.image)]))[0, 0] >= 0.6
    for photograph in (image.id for image in records.images if image.split == "train" and image.id in records.boxes):
        others = [image.id for image in records.images if split_uri(image.id)[0] == photograph]
        assert len([id_ for id_ in others if id_ != photograph and id_ not in paired]) <= 5


def test_records_are_kept_whole(tmp_path: Path) -> None:
    records = _records()
    records.save(Folder.open(str(tmp_path)))
    loaded = Records.load(Folder.open(str(tmp_path)))
    assert (loaded.fingerprint, loaded.boxes) == (records.fingerprint, records.boxes)


def test_proposals_of_a_file(tmp_path: Path) -> None:
    ids = [image.id for image in Scenes(SCENES).describe().images]
    boxes = {id_: np.array([[0.1, 0.1, 0.9, 0.9], [0.2, 0.2, 0.4, 0.4], [0.1, 0.1, 0.9, 0.9]]) for id_ in ids}
    np.savez(tmp_path / "boxes.npz", allow_pickle=False, **boxes)
    (tmp_path / "boxes.parquet").write_bytes(proposals_as_parquet(boxes))
    (tmp_path / "none.parquet").write_bytes(proposals_as_parquet({}))
    assert read_proposals(str(tmp_path / "none.parquet")) == {}
    of_npz, of_parquet = (read_proposals(str(tmp_path / f"boxes.{kind}")) for kind in ("npz", "parquet"))
    assert list(of_npz) == list(of_parquet) == ids
    for id_ in ids:
        np.testing.assert_array_equal(of_npz[id_], boxes[id_][:2])
        np.testing.assert_array_equal(of_npz[id_], of_parquet[id_])
    file = str(tmp_path / "boxes.npz")
    records = _records(proposals=file)
    assert len(_proposals(records, "test_000000")) == 2
    assert records.source["proposals"] != _records().source["proposals"]


@pytest.mark.parametrize(
    ("box", "said"),
    [
        ([0.5, 0.1, 0.2, 0.9], r"box 0 \(0.5, 0.1, 0.2, 0.9\): expected left < right"),
        ([0.1, 0.1, 17, 0.9], ": expected left < right"),
        ([0.1, 0.1, np.nan, 0.9], ": expected left < right"),
        ([0.1, 0.1, 0.9], r"expected numbers of shape \(boxes, 4\)"),
    ],
)
def test_wrong_boxes_are_refused(tmp_path: Path, box: list[float], said: str) -> None:
    np.savez(tmp_path / "boxes.npz", image=np.array([box]))
    with pytest.raises(InputError, match=rf"boxes\.npz: image 'image': .*{said}"):
        read_proposals(str(tmp_path / "boxes.npz"))


def test_damaged_files_of_proposals(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(proposals_as_parquet({"a": np.array([[0, 0, 1, 1]])})[:-20])
    with pytest.raises(InputError, match=r"neither a \.npz file nor a complete Parquet file"):
        read_proposals(str(tmp_path / "a.parquet"))
    np.savez(tmp_path / "a.npz", a=np.array([[0, 0, 1, 1]]))
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-30])
    with pytest.raises(InputError, match=r"is not a complete \.npz file"):
        read_proposals(str(tmp_path / "a.npz"))
    pq.write_table(pa.table({"image": ["a"], "left": [0.0]}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match="lacks the column 'top'"):
        read_proposals(str(tmp_path / "b.parquet"))
    numbers = {name: ["x"] for name in ("left", "top", "right", "bottom")}
    pq.write_table(pa.table({"image": ["a"], **numbers}), tmp_path / "c.parquet")
    with pytest.raises(InputError, match="expected text in 'image' and numbers in the others"):
        read_proposals(str(tmp_path / "c.parquet"))


def test_what_cannot_be_a_data_set_of_regions(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("image,caption\na.jpg,a cat\nb.jpg,a dog\n")
    with pytest.raises(InputError, match=r"data\.of=table: has no annotated boxes"):
        _records(Table.Config(root=str(tmp_path), file="rows.csv"))
    with pytest.raises(InputError, match=r"data\.of\.root=/nowhere: no such folder"):
        _records(Flickr30kEntities.Config(root="/nowhere"))
    with pytest.raises(InputError, match=r"data\.of=phrase_regions: expected a source of photographs"):
        _records(PhraseRegions.Config())
    with pytest.raises(InputError, match=r"data\.complete=dev: no such split"):
        _records(complete=("dev",))
    with pytest.raises(InputError, match=r"data\.negative=0\.8: must be at most data\.positive=0\.7"):
        _records(negative=0.8)
    np.savez(tmp_path / "boxes.npz", x=np.array([[0, 0, 1, 1]]))
    with pytest.raises(InputError, match="has no boxes of 6 of 6 photographs of split train, for one 'train_000000'"):
        _records(proposals=str(tmp_path / "boxes.npz"))


def test_a_photograph_of_boxes_without_an_area_has_no_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    scenes = Scenes.Config(num_train=30, num_val=2, num_test=3, num_shifted=0)
    whole = Scenes(scenes).describe()
    thin = tuple(replace(box, left=0, right=0) for box in whole.boxes["train_000000"])
    monkeypatch.setattr(Scenes, "describe", lambda source: replace(whole, boxes={**whole.boxes, "train_000000": thin}))
    assert [(r.id, r.reason) for r in rejects(_records(scenes))] == [("train_000000", "photograph without proposals")]


@pytest.mark.seconds
def test_no_split_may_lack_many_proposals(tmp_path: Path) -> None:
    """The test split is small: without its proposals R@k would be of few photographs."""
    scenes = Scenes.Config(num_train=60, num_val=2, num_test=3, num_shifted=0)
    images = Scenes(scenes).describe().images
    without = next(image.id for image in images if image.split == "test")
    boxes = {image.id: np.array([[0, 0, 1, 1]]) for image in images if image.id != without}
    np.savez(tmp_path / "boxes.npz", allow_pickle=False, **boxes)
    with pytest.raises(InputError, match=f"has no boxes of 1 of 3 photographs of split test, for one '{without}'"):
        _records(scenes, proposals=str(tmp_path / "boxes.npz"))


def test_a_few_photographs_may_lack_proposals(tmp_path: Path) -> None:
    scenes = Scenes.Config(num_train=30, num_val=2, num_test=3, num_shifted=0)
    ids = [image.id for image in Scenes(scenes).describe().images]
    np.savez(tmp_path / "boxes.npz", allow_pickle=False, **{id_: np.array([[0, 0, 1, 1]]) for id_ in ids[1:]})
    records = _records(scenes, proposals=str(tmp_path / "boxes.npz"))
    assert [(r.id, r.reason) for r in rejects(records)] == [("train_000000", "photograph without proposals")]
