"""Shards of WebDataset, written by its own library: the records, the pictures in the archives, and bad shards."""

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from tests import photographs, s3
from vse.data.images import UnreadableImage, open_image
from vse.data.records import Records
from vse.data.source import recognise, rejects
from vse.data.sources.table import Table
from vse.data.sources.webdataset import WebDataset
from vse.errors import InputError
from vse.features.backbones import SmallBackbone
from vse.features.rejects import TooManyRejects
from vse.stages.extract import ExtractionConfig, extract
from vse.storage.folder import Folder

SMALL = SmallBackbone.Config(weights="random")
CAPTIONS = {"a": ["a red ball", "ein Ball, größer als 猫"], "b": ["a cat"], "c": ["two dogs", "dogs", "a dog"]}


def picture(number: int) -> bytes:
    """The bytes of a PNG file."""
    pixels = np.random.default_rng(number).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    PIL.Image.fromarray(pixels).save(stream := io.BytesIO(), "PNG")
    return stream.getvalue()


def write(path: Path, samples: Iterable[Mapping[str, Any]]) -> Path:
    """A shard as the library writes it."""
    webdataset = pytest.importorskip("webdataset")
    path.parent.mkdir(parents=True, exist_ok=True)
    with webdataset.TarWriter(str(path)) as shard:
        for sample in samples:
            shard.write(sample)
    return path


def sample(key: str, number: int = 0, **files: Any) -> dict[str, Any]:
    """A picture with further files."""
    return {"__key__": key, "png": picture(number), **files}


def records(root: Path | str, **keys: Any) -> Records:
    """What the source reads."""
    return WebDataset(WebDataset.Config(root=str(root), **keys)).describe()


def test_ragged_captions_of_text_and_json_are_those_of_the_shards(tmp_path: Path) -> None:
    write(
        tmp_path / "train-000000.tar",
        [
            sample("a", 1, txt="\n".join(CAPTIONS["a"])),
            sample("b", 2, json={"caption": CAPTIONS["b"][0], "url": "x"}),
            sample("c", 3, json={"captions": CAPTIONS["c"]}),
        ],
    )
    write(tmp_path / "dev-000000.tar", [sample("d", 4, **{"0.txt": "first", "1.txt": "second"})])
    whole = records(tmp_path)
    assert {i.id: i.split for i in whole.images} == {"d": "val", "a": "train", "b": "train", "c": "train"}
    texts = {i.id: [c.text for c in whole.captions if c.image == i.id] for i in whole.images}
    assert texts == {**CAPTIONS, "d": ["first", "second"]}
    assert [c.id for c in whole.captions if c.image == "c"] == ["c#0", "c#1", "c#2"]
    for number, key in enumerate("abcd", 1):
        uri = next(i.uri for i in whole.images if i.id == key)
        expected = PIL.Image.open(io.BytesIO(picture(number)))
        assert np.array_equal(np.asarray(open_image(uri, str(tmp_path))), np.asarray(expected))
    assert recognise(str(tmp_path)) == ("webdataset", {"root": str(tmp_path)})


def test_text_is_preferred_to_json_unless_a_key_is_named(tmp_path: Path) -> None:
    write(tmp_path / "train.tar", [sample("a", txt="from text", json={"caption": "from json", "re": ["one", "two"]})])
    assert [c.text for c in records(tmp_path).captions] == ["from text"]
    assert [c.text for c in records(tmp_path, caption_key="re").captions] == ["one", "two"]


def test_splits_come_from_keys_names_or_a_hash(tmp_path: Path) -> None:
    for shard in ("x-0.tar", "x-1.tar", "sub/x-2.tar"):
        write(tmp_path / shard, [sample(f"{shard[-5]}_{k}", k, txt="a dog") for k in range(12)])
    dealt = records(tmp_path)
    assert {i.split for i in dealt.images} <= {"train", "val", "test"}
    assert sum(i.split == "train" for i in dealt.images) > 20
    named = records(tmp_path, train="x-*.tar", test="sub/*")
    assert {(i.id[0], i.split) for i in named.images} == {("0", "train"), ("1", "train"), ("2", "test")}
    write(tmp_path / "train.tar", [sample("z", txt="a dog")])
    with pytest.raises(InputError, match=r"the name train\.tar has a split and sub/x-2\.tar has none"):
        records(tmp_path)
    with pytest.raises(InputError, match=r"data\.val=q\*: no such shard"):
        records(tmp_path, train="x*", val="q*")
    with pytest.raises(InputError, match=r"data\.train, data\.val: both name"):
        records(tmp_path, train="x*", val="x-0.tar")


def test_keys_that_start_again_in_each_shard_are_named_by_it(tmp_path: Path) -> None:
    for split in ("train", "val"):
        write(tmp_path / f"{split}.tar", [sample("0", len(split), txt="a dog")])
    assert [i.id for i in records(tmp_path).images] == ["train/0", "val/0"]


def test_incomplete_samples_are_rejects(tmp_path: Path) -> None:
    samples = [
        sample("a", txt="a dog"),
        {"__key__": "text", "txt": "no picture"},
        sample("mute", json={"url": "x"}),
        sample("null", json={"caption": [None, "..."]}),
    ]
    write(tmp_path / "train.tar", samples)
    whole = records(tmp_path)
    assert [i.id for i in whole.images] == ["a"]
    assert {r.id: r.reason for r in rejects(whole)} == {
        "text": "sample without an image",
        "mute": "image without a caption",
        "null": "image without a caption",
        "null#0": "caption is null",
        "null#1": "caption without a word",
    }


def plain(path: Path, files: Iterable[tuple[str, bytes]]) -> Path:
    """An archive of any files."""
    with tarfile.open(path, "w") as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def test_bad_shards_are_one_line(tmp_path: Path) -> None:
    shard = tmp_path / "train.tar"

    def refused(message: str, **keys: str) -> None:
        with pytest.raises(InputError, match=message):
            records(tmp_path, **keys)

    refused(r"holds no \.tar file")
    plain(shard, [("a.jpg", b"x"), ("a.txt", b"a dog"), ("b.jpg", b"y"), ("a.jpg", b"z")])
    refused(r"train\.tar: has the file a\.jpg twice")
    plain(shard, [("a.jpg", b"x"), ("a.png", b"x"), ("a.txt", b"a dog")])
    refused(r"sample 'a': has the images jpg, png; choose with data\.image=jpg$")
    plain(shard, [("img.v1.jpg", b"x"), ("img.v2.jpg", b"x"), ("img.v1.txt", b"a dog")])
    refused(r"choose with data\.image=v1\.jpg; or, .* rename them, for a key ends at the first dot of a name$")
    plain(shard, [("a.jpg", b"x"), ("a.png", b"x"), ("a.txt", b"a dog")])
    assert len(records(tmp_path, image="png").images) == 1
    plain(shard, [("a.jpg", b"x"), ("a.json", b"{")])
    refused(r"sample 'a': \.json: is not complete JSON")
    plain(shard, [("a.jpg", b"x"), ("a.json", json.dumps({"alt": "a dog"}).encode())])
    refused(r"\.json lacks the key 'caption'; its keys are alt; data\.caption_key names one")
    assert len(records(tmp_path, caption_key="alt").captions) == 1
    plain(shard, [("a.jpg", b"x"), ("a.json", json.dumps({"caption": 7}).encode())])
    refused(r"\.json: 'caption': expected text or a list of texts, got int")
    plain(shard, [("a.jpg", b"x")])
    refused(r"sample 'a': has no captions; expected a file \.txt or \.json next to \.jpg")
    plain(shard, [("a.jpg", b"x"), ("a.txt", b"\xff\xfea")])
    whole = plain(shard, [(f"{k}.jpg", bytes([k]) * 2000) for k in range(1, 9)]).read_bytes()
    shard.write_bytes(whole[:6000])
    refused(r"train\.tar: is cut off within 3\.jpg")
    shard.write_bytes(whole[:5120] + b"#" * 512 + whole[5632:])
    refused(r"train\.tar: is damaged at byte 5,120")
    shard.write_bytes(b"")
    refused(r"train\.tar: file is empty")
    shard.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    refused(r"train\.tar: is not a complete tar archive \(is a Git LFS pointer")
    shard.rename(tmp_path / "train.tar.gz")
    refused(r"train\.tar\.gz is compressed")


def as_shards(folder: Path, place: Path) -> Path:
    """The pictures and captions of `photographs.write` as shards of one split each."""
    numbers = {split: [k for k, each in enumerate(photographs.SPLITS) if each == split] for split in ("train", "val")}
    for split, of_split in numbers.items():
        files = ((folder / "images" / f"{k}.png").read_bytes() for k in of_split)
        captions = ("\n".join(photographs.captions_of(k)) for k in of_split)
        entries = zip(of_split, files, captions, strict=True)
        write(place / f"{split}-0.tar", [{"__key__": f"{k}", "png": png, "txt": text} for k, png, text in entries])
    return place


def test_features_are_those_of_the_same_files(tmp_path: Path) -> None:
    folder = photographs.write(tmp_path / "files")
    shards = as_shards(folder, tmp_path / "shards")
    backbone = SMALL
    table = Table(Table.Config(file=str(folder / "captions.csv")))
    ours = extract(table.describe(), backbone, ("pooled",), Folder.open(tmp_path / "1"), root=table.image_root)
    source = WebDataset(WebDataset.Config(root=str(shards)))
    whole = source.describe()
    theirs = extract(whole, backbone, ("pooled",), Folder.open(tmp_path / "2"), root=source.image_root)
    ids = [i.id for i in whole.images]
    assert len(ids) == 12
    mine = ours.array("pooled", [f"images/{i}.png" for i in ids])
    assert np.array_equal(theirs.array("pooled", ids), mine)


def test_an_image_that_cannot_be_decoded_is_a_reject(tmp_path: Path) -> None:
    write(tmp_path / "train.tar", [sample(str(k), k, txt="a dog") for k in range(9)])
    write(tmp_path / "val.tar", [{"__key__": "bad", "jpg": b"no picture", "txt": "a dog"}])
    source = WebDataset(WebDataset.Config(root=str(tmp_path)))
    whole, backbone = source.describe(), SMALL
    with pytest.raises(TooManyRejects, match="not an image of a known format"):
        extract(whole, backbone, ("pooled",), Folder.open(tmp_path / "f"), root=source.image_root)
    options = ExtractionConfig(max_rejected=0.2)
    store = extract(whole, backbone, ("pooled",), Folder.open(tmp_path / "f"), root=source.image_root, options=options)
    assert store.rejects == {"bad": "not an image of a known format"}


def test_an_archive_that_shrinks_later_gives_rejects(tmp_path: Path) -> None:
    shard = write(tmp_path / "train.tar", [sample(str(k), k, txt="a dog") for k in range(3)])
    last = records(tmp_path).images[-1]
    shard.write_bytes(shard.read_bytes()[:8000])
    with pytest.raises(UnreadableImage, match=r"its archive ends [\d,]+ bytes too early"):
        open_image(last.uri, str(tmp_path))
    shard.unlink()
    with pytest.raises(UnreadableImage, match="file is missing"):
        open_image(last.uri, str(tmp_path))


@pytest.mark.process
@pytest.mark.slow
def test_shards_on_s3_are_those_of_the_disk(s3_server: str, tmp_path: Path) -> None:
    shards = as_shards(photographs.write(tmp_path / "files"), tmp_path / "shards")
    place = photographs.upload(shards, Folder.open(s3.address(s3_server, "shards/tiny")))
    here, there = (WebDataset(WebDataset.Config(root=root)) for root in (str(shards), place.uri))
    ours, theirs = here.describe(), there.describe()
    assert theirs.images == ours.images
    assert theirs.captions == ours.captions
    for image in ours.images[:3]:
        mine, its = (np.asarray(open_image(image.uri, source.image_root)) for source in (here, there))
        assert np.array_equal(mine, its)
