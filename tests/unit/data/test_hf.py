"""Data sets written by the library `datasets` itself: records, pictures in their cells, and what is refused."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import photographs, s3
from vse.data.images import UnreadableImage, open_image
from vse.data.records import Records
from vse.data.source import recognise, rejects
from vse.data.sources.hf import HuggingFace
from vse.data.sources.table import Table
from vse.errors import InputError
from vse.features.backbones import SmallBackbone
from vse.stages.extract import extract
from vse.storage.folder import Folder

datasets = pytest.importorskip("datasets")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:multiprocess")  # of the library, when it forks

SMALL = SmallBackbone.Config(weights="random")
CAPTIONS = [["a red ball", "ein Ball, größer als 猫"], ["a cat"], ["two dogs", "dogs", "a dog"], ["a cup"]]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets.disable_progress_bars()


def picture(number: int) -> PIL.Image.Image:
    return PIL.Image.fromarray(np.random.default_rng(number).integers(0, 256, (30, 40, 3), dtype=np.uint8))


def written(rows: Sequence[Mapping[str, Any]], **features: Any) -> Any:
    """A data set with pictures 0, 1, ... in the column image, and the columns of the rows."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    kinds: dict[str, Any] = {"image": datasets.Image(), **features}
    kinds |= {name: datasets.Value("string") for name in columns if name not in kinds}
    columns = {"image": [picture(k) for k in range(len(rows))], **columns}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))


def listed(number: int = 4) -> Any:
    return written([{"caption": each} for each in CAPTIONS[:number]], caption=datasets.List(datasets.Value("string")))


def records(root: Path | str, **keys: Any) -> Records:
    return HuggingFace(HuggingFace.Config(root=str(root), **keys)).describe()


def texts(found: Records) -> dict[str, list[str]]:
    return {image.id: [c.text for c in found.captions if c.image == image.id] for image in found.images}


def check_pictures(found: Records, root: Path | str) -> None:
    """Every picture is the one of its row, pixel by pixel."""
    for image in found.images:
        number = int(image.id.rpartition("/")[2])
        assert np.array_equal(np.asarray(open_image(image.uri, str(root))), np.asarray(picture(number)))


def test_what_save_to_disk_writes(tmp_path: Path) -> None:
    parts = {"train": listed(), "validation": listed(2), "test": listed(1)}
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "set"))
    found = records(tmp_path / "set")
    assert [len(found.split(name).images) for name in ("train", "val", "test")] == [4, 2, 1]
    assert texts(found)["train/data-00000-of-00001/0"] == CAPTIONS[0]
    assert found.split("train").images[0].uri == "train/data-00000-of-00001.arrow#row=0&column=image"
    assert found.name == "set"
    check_pictures(found, tmp_path / "set")


def test_caches_and_shards_of_an_earlier_data_set_are_not_read(tmp_path: Path) -> None:
    place = str(tmp_path / "set")
    listed().save_to_disk(place, num_shards=2)
    datasets.load_from_disk(place).map(lambda row: row, load_from_cache_file=False)
    assert [*(tmp_path / "set").glob("cache-*.arrow")]
    assert len(records(place).images) == 4
    listed(3).save_to_disk(str(tmp_path / "fewer"))
    for file in (tmp_path / "fewer").iterdir():
        (tmp_path / "set" / file.name).write_bytes(file.read_bytes())
    assert len([*(tmp_path / "set").glob("data-*.arrow")]) == 3
    found = records(place)
    assert len(found.images) == 3
    check_pictures(found, place)
    (tmp_path / "set" / "state.json").unlink()
    assert len(records(place).images) == 4 + 3  # without the list all shards count, and caches never


def test_parquet_files_of_the_hub_s_form_with_several_row_groups(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    listed().to_parquet(str(tmp_path / "data" / "train-00000-of-00001.parquet"), batch_size=2)
    listed(3).to_parquet(str(tmp_path / "data" / "test-00000-of-00001.parquet"))
    assert pq.ParquetFile(tmp_path / "data" / "train-00000-of-00001.parquet").num_row_groups == 2
    found = records(tmp_path)
    assert {split: len(found.split(split).images) for split in ("train", "test")} == {"train": 4, "test": 3}
    assert list(texts(found).values()) == [*CAPTIONS[:3], *CAPTIONS]
    check_pictures(found, tmp_path)


def test_an_arrow_file_in_the_stream_form_of_the_library_s_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data set of the hub, with files in place of the network: the library's own cache is read."""
    listed().to_parquet(str(tmp_path / "some.parquet"))
    asked = list[Any]()
    load = datasets.load_dataset

    def local(name: str, subset: str | None, revision: str | None) -> Any:
        asked.append((name, subset, revision))
        return load("parquet", data_files={"test": str(tmp_path / "some.parquet")}, cache_dir=str(tmp_path / "cache"))

    monkeypatch.setattr(datasets, "load_dataset", local)
    source = HuggingFace(HuggingFace.Config(hub="me/set@main", subset="small"))
    found = source.describe()
    assert asked == [("me/set", "small", "main")]
    assert len(found.split("test").images) == 4
    assert list(texts(found).values()) == CAPTIONS
    assert (tmp_path / "cache") in Path(source.image_root).parents
    check_pictures(found, source.image_root)


def test_columns_are_named_by_keys_and_rows_of_one_id_are_one_image(tmp_path: Path) -> None:
    rows = [
        {"what": "a dog", "more": "dogs", "part": "train", "key": "one"},
        {"what": "a cat", "more": "cats", "part": "dev", "key": "two"},
        {"what": "a dog runs", "more": None, "part": "train", "key": "one"},
    ]
    written(rows).to_parquet(str(tmp_path / "all.parquet"))
    keys = {"caption_column": "what,more", "split_column": "part", "id_column": "key"}
    found = records(tmp_path, **keys)
    assert texts(found) == {"one": ["a dog", "dogs", "a dog runs"], "two": ["a cat", "cats"]}
    assert {image.id: image.split for image in found.images} == {"one": "train", "two": "val"}
    assert [(each.id, each.reason) for each in rejects(found)] == [("one#3", "caption is null")]
    check = open_image(found.images[0].uri, str(tmp_path))
    assert np.array_equal(np.asarray(check), np.asarray(picture(0)))


def captioned_twice(folder: Path, form: str) -> None:
    """Two photographs in two rows each, with their paths."""
    rows = [{"bytes": None, "path": str(folder / f"{name}.png")} for name in "abab"]
    for number, name in enumerate("ab"):
        picture(number).save(folder / f"{name}.png")
    columns = {"image": rows, "caption": ["one", "two", "three", "four"]}
    if form == "parquet":
        pq.write_table(pa.table(columns), folder / "set.parquet")
    else:
        features = datasets.Features({"image": datasets.Image(), "caption": datasets.Value("string")})
        datasets.Dataset.from_dict(columns, features=features).save_to_disk(str(folder / "set"))


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_rows_that_repeat_a_path_are_asked_about(tmp_path: Path, form: str) -> None:
    """Copies of a photograph would be in several splits, and each other's negatives."""
    captioned_twice(tmp_path, form)
    with pytest.raises(InputError, match=r"row 2: names the image '.*a\.png', as .*row 0 does; data\.id_column=image"):
        records(tmp_path)
    merged = records(tmp_path, id_column="image")
    assert [[c.text for c in merged.captions if c.image == image.id] for image in merged.images] == [
        ["one", "three"],
        ["two", "four"],
    ]
    assert [Path(image.id).name for image in merged.images] == ["a.png", "b.png"]
    assert np.array_equal(np.asarray(open_image(merged.images[1].uri, str(tmp_path))), np.asarray(picture(1)))
    assert len(records(tmp_path, id_column="row").images) == 4


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_column_of_text_is_its_own_path(tmp_path: Path, kind: pa.DataType) -> None:
    columns = {"image": pa.array(["a.jpg", "b.jpg", "a.jpg"], kind), "caption": ["one", "two", "three"]}
    pq.write_table(pa.table(columns), tmp_path / "set.parquet")
    with pytest.raises(InputError, match=r"row 2: names the image 'a\.jpg', as .*row 0 does; data\.id_column=image"):
        records(tmp_path)
    assert texts(records(tmp_path, id_column="image")) == {"a.jpg": ["one", "three"], "b.jpg": ["two"]}
    assert [image.id for image in records(tmp_path, id_column="row").images] == ["set/0", "set/1", "set/2"]


@pytest.mark.parametrize("name", ["image_id", "imgid", "cocoid", "fileName", "image_path"])
def test_rows_that_repeat_what_tells_images_apart_are_asked_about(tmp_path: Path, name: str) -> None:
    """Of embedded pictures without paths, such a column alone says that rows are of one photograph."""
    columns = {"image": [b"x"] * 4, "caption": ["one", "two", "three", "four"], name: [42.0, None, None, 42.0]}
    pq.write_table(pa.table(columns), tmp_path / "set.parquet")
    with pytest.raises(InputError, match=rf"row 3: names the image '42.0', as .*row 0 does; data\.id_column={name} "):
        records(tmp_path)
    assert len(records(tmp_path, id_column="row").images) == 4
    pq.write_table(pa.table({**columns, name: [1, 2, 3, 4]}), tmp_path / "set.parquet")
    assert [image.id for image in records(tmp_path).images] == [f"set/{k}" for k in range(4)]


def test_the_splits_of_rows_are_not_those_of_a_key(tmp_path: Path) -> None:
    columns = {"image": [b"x"] * 2, "caption": ["one", "two"], "split": ["test", "train"]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    expected = r"^data\.test=x\.parquet: .*x\.parquet: row 1 has the split train; leave .* out .*, or rename or delete"
    with pytest.raises(InputError, match=expected):
        records(tmp_path, test="x.parquet")
    assert [image.split for image in records(tmp_path).images] == ["test", "train"]
    pq.write_table(pa.table({**columns, "split": ["test", "testing"]}), tmp_path / "x.parquet")
    assert [image.split for image in records(tmp_path, test="x.parquet").images] == ["test", "test"]


def test_restval_is_for_training(tmp_path: Path) -> None:
    columns = {"image": [b"x"] * 2, "caption": ["one", "two"], "split": ["restval", "val"]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    assert [image.split for image in records(tmp_path).images] == ["train", "val"]
    pq.write_table(pa.table({**columns, "split": ["val", "val"]}).drop_columns(["split"]), tmp_path / "x.parquet")
    (tmp_path / "x.parquet").rename(tmp_path / "restval-0.parquet")
    assert {image.split for image in records(tmp_path).images} == {"train"}


@pytest.mark.parametrize("splits", [["val", None], [None, "val"]])
def test_splits_in_some_rows_alone_are_refused(tmp_path: Path, splits: list[str | None]) -> None:
    columns = {"image": [b"x"] * 2, "caption": ["one", "two"], "split": splits}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    empty, filled = (tmp_path / f"x.parquet: row {k}" for k in (splits.index(None), splits.index("val")))
    with pytest.raises(InputError, match=rf"the split is empty in {empty} but not in {filled}; fill the column"):
        records(tmp_path)
    (tmp_path / "x.parquet").rename(tmp_path / "val.parquet")
    assert [image.split for image in records(tmp_path).images] == ["val", "val"]


@pytest.mark.parametrize(
    ("ids", "found"), [([42.0, 7.0], "42"), ([42, 7], "42"), (["a", "b"], "a"), ([b"a", b"b"], ""), ([[1], [2]], "")]
)
def test_ids_are_whole_numbers_or_text(tmp_path: Path, ids: list[Any], found: str) -> None:
    columns = {"image": [b"x"] * 2, "caption": ["one", "two"], "key": ids}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    if found:
        assert records(tmp_path, id_column="key").images[0].id == found
    else:
        with pytest.raises(InputError, match=r"row 0: 'key' must be a whole number or text, got"):
            records(tmp_path, id_column="key")


def test_a_list_of_files_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"_data_files": ["a"]}')
    with pytest.raises(InputError, match=r"state\.json: _data_files: expected an object with 'filename', got str"):
        records(tmp_path)


def test_large_cells_are_cells(tmp_path: Path) -> None:
    cells = []
    for number in range(2):
        sink = io.BytesIO()
        picture(number).save(sink, "png")
        cells.append(sink.getvalue())
    image = pa.array(cells, pa.large_binary())
    pq.write_table(pa.table({"image": image, "caption": ["one", "two"]}), tmp_path / "set.parquet")
    check_pictures(records(tmp_path), tmp_path)
    with pytest.raises(InputError, match=r"data\.id_column=image: .* has no paths in this column"):
        records(tmp_path, id_column="image")


def test_without_splits_a_hash_deals_the_images(tmp_path: Path) -> None:
    rows = [{"caption": f"thing {k}", "name": f"n{k}"} for k in range(40)]
    written(rows).to_parquet(str(tmp_path / "some.parquet"))
    found, again = (records(tmp_path, id_column="name", seed=3) for _ in range(2))
    assert {split: len(found.split(split).images) for split in ("train", "val", "test")}["train"] > 20
    assert found.fingerprint == again.fingerprint != records(tmp_path, id_column="name", seed=4).fingerprint


def test_bytes_without_the_library_s_features_and_paths_in_place_of_bytes(tmp_path: Path) -> None:
    picture(0).save(tmp_path / "0.png")
    cells = {"bytes": (tmp_path / "0.png").read_bytes()}, {"bytes": None, "path": str(tmp_path / "0.png")}
    binary = pa.table({"image": [cells[0]["bytes"]], "caption": ["a dog"]})
    pq.write_table(binary, tmp_path / "train.parquet")
    struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pq.write_table(pa.table({"image": pa.array([cells[1]], struct), "caption": ["a cat"]}), tmp_path / "test.parquet")
    found = records(tmp_path)
    for image in found.images:
        assert np.array_equal(np.asarray(open_image(image.uri, str(tmp_path))), np.asarray(picture(0)))


def test_a_cell_without_a_picture_is_a_reject_of_extraction(tmp_path: Path) -> None:
    bad = {"image": [None, b"no picture"], "caption": ["a dog", "a cat"]}
    pq.write_table(pa.table(bad), tmp_path / "train.parquet")
    first, second = records(tmp_path).images
    with pytest.raises(UnreadableImage, match="image is null"):
        open_image(first.uri, str(tmp_path))
    with pytest.raises(UnreadableImage, match="not an image of a known format"):
        open_image(second.uri, str(tmp_path))
    with pytest.raises(UnreadableImage, match="its file has no such row or column"):
        open_image("train.parquet#row=2&column=image", str(tmp_path))
    with pytest.raises(UnreadableImage, match="its file has no such row or column"):
        open_image("train.parquet#row=0&column=picture", str(tmp_path))


def test_features_are_those_of_the_same_files(tmp_path: Path) -> None:
    folder = photographs.write(tmp_path / "files")
    table = Table(Table.Config(file=str(folder / "captions.csv")))
    ours = extract(table.describe(), SMALL, ("pooled",), Folder.open(tmp_path / "1"), root=table.image_root)
    files = [str(folder / "images" / f"{k}.png") for k in range(len(photographs.SPLITS))]
    rows = {"image": files, "caption": [photographs.captions_of(k) for k in range(len(files))]}
    kinds = {"image": datasets.Image(), "caption": datasets.List(datasets.Value("string"))}
    whole = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds))
    datasets.DatasetDict({"train": whole}).save_to_disk(str(tmp_path / "set"), num_shards={"train": 3})
    source = HuggingFace(HuggingFace.Config(root=str(tmp_path / "set")))
    found = source.describe()
    assert len({image.uri.partition("#")[0] for image in found.images}) == 3
    theirs = extract(found, SMALL, ("pooled",), Folder.open(tmp_path / "2"), root=source.image_root)
    mine = ours.array("pooled", [f"images/{k}.png" for k in range(len(files))])
    assert np.array_equal(theirs.array("pooled", [image.id for image in found.images]), mine)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"caption_column": "words"}, r"data\.caption_column=words: .* has no column 'words'; it has image, caption"),
        ({"image_column": "caption"}, r"both name 'caption'|expected images"),
        ({"split_column": "fold"}, r"^data\.split_column=fold: .* has no such column; it has image, caption$"),
        ({"id_column": "key"}, r"^data\.id_column=key: .* has no such column"),
        ({"train": "other-*"}, r"^data\.train=other-\*: no such shard in"),
        ({"subset": "small"}, r"^data\.subset=small: only with data\.hub"),
        ({"hub": "me/set"}, r"^data\.root, data\.hub: name a folder or a data set of the hub"),
    ],
)
def test_keys_that_fit_nothing_are_one_line(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    listed().to_parquet(str(tmp_path / "train.parquet"))
    with pytest.raises(InputError, match=message) as told:
        records(tmp_path, **keys)
    assert len(str(told.value).splitlines()) == 1


def test_damaged_and_empty_folders_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"holds no \.parquet or \.arrow file; expected what `datasets` writes"):
        records(tmp_path)
    (tmp_path / "train.parquet").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 3\n")
    with pytest.raises(InputError, match=r"train\.parquet: is a Git LFS pointer, .*; run `git lfs pull`"):
        records(tmp_path)
    listed().to_parquet(str(tmp_path / "train.parquet"))
    whole = (tmp_path / "train.parquet").read_bytes()
    (tmp_path / "train.parquet").write_bytes(whole[:-100])
    with pytest.raises(InputError, match=r"train\.parquet: is damaged .*; copy or download it again"):
        records(tmp_path)

    columns = {"image": [b"x"] * 2, "text": pa.array([b"caf\xe9", b"a"], pa.binary()).view(pa.string())}
    pq.write_table(pa.table(columns), tmp_path / "train.parquet")
    with pytest.raises(InputError, match=r"train\.parquet: rows from 0 on hold text that is not UTF-8"):
        records(tmp_path)
    group = pq.ParquetFile(pa.BufferReader(whole)).metadata.row_group(0)
    texts_at = next(
        group.column(k).data_page_offset
        for k in range(group.num_columns)
        if "image" not in group.column(k).path_in_schema
    )
    (tmp_path / "train.parquet").write_bytes(whole[:texts_at] + b"\xff" * 24 + whole[texts_at + 24 :])
    with pytest.raises(InputError, match=r"train\.parquet: is damaged .*; copy or download it again"):
        records(tmp_path)

    def unlike(*_: Any, **__: Any) -> Any:
        raise datasets.exceptions.DatasetGenerationError("files differ in their columns")

    monkeypatch.setattr(datasets, "load_dataset", unlike)
    with pytest.raises(InputError, match=r"^data\.hub=me/unlike: cannot be loaded \(files differ in their columns\)"):
        HuggingFace(HuggingFace.Config(hub="me/unlike")).describe()

    def absent(*_: Any, **__: Any) -> Any:
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(datasets, "load_dataset", absent)
    with pytest.raises(InputError, match=r"^data\.hub=me/absent: cannot be loaded \(no route to the hub\)"):
        HuggingFace(HuggingFace.Config(hub="me/absent")).describe()


def test_folders_are_recognised(tmp_path: Path) -> None:
    datasets.DatasetDict({"train": listed()}).save_to_disk(str(tmp_path / "set"))
    assert recognise(str(tmp_path / "set")) == ("hf", {"root": str(tmp_path / "set")})
    listed().to_parquet(str(tmp_path / "some.parquet"))
    assert recognise(str(tmp_path))[0] == "hf"


@pytest.mark.process
def test_files_on_s3_are_those_of_the_disk(s3_server: str, tmp_path: Path) -> None:
    listed().to_parquet(str(tmp_path / "train.parquet"))
    place = photographs.upload(tmp_path, Folder.open(s3.address(s3_server, "sets/tiny")))
    found = records(place.uri)
    assert list(texts(found).values()) == CAPTIONS
    assert found.images == records(tmp_path).images
    check_pictures(found, place.uri)
