import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.shared import SHARED
from vse.data.records import Box
from vse.data.source import recognise, rejects
from vse.data.sources.flickr30k_entities import Flickr30kEntities, Phrase, parse_sentence
from vse.errors import InputError

SENTENCES = """[/EN#7/people A bearded man] holds [/EN#8/bodyparts/people a man 's arm] in [/EN#0/notvisual the dark] .
[/EN#7/people He] sits on [/EN#9/scene a beach] .
"""
OBJECTS = """<object><name>7</name><bndbox><xmin>1</xmin><ymin>11</ymin><xmax>50</xmax><ymax>60</ymax></bndbox></object>
<object><name>7</name><name>8</name>
<bndbox><xmin>61</xmin><ymin>1</ymin><xmax>100</xmax><ymax>200</ymax></bndbox></object>
<object><name>9</name><scene>1</scene><nobndbox>0</nobndbox></object>"""


def _annotations(objects: str = OBJECTS, size: str = "<width>100</width><height>200</height>") -> str:
    return f"<annotation><filename>5.jpg</filename><size>{size}<depth>3</depth></size>{objects}</annotation>"


def _official(folder: Path, sentences: str = SENTENCES, annotations: str = "", ids: str = "5\n") -> Flickr30kEntities:
    for name in ("Annotations", "Sentences", "flickr30k-images"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "Sentences" / "5.txt").write_text(sentences)
    (folder / "Annotations" / "5.xml").write_text(annotations or _annotations())
    (folder / "val.txt").write_text(ids)
    return Flickr30kEntities(Flickr30kEntities.Config(root=str(folder)))


def test_official_files(tmp_path: Path) -> None:
    source = _official(tmp_path)
    records = source.describe()
    assert source.image_root == str(tmp_path / "flickr30k-images")
    assert [(i.id, i.uri, i.split) for i in records.images] == [("5", "5.jpg", "val")]
    assert [(c.id, c.text) for c in records.captions] == [
        ("5#0", "A bearded man holds a man 's arm in the dark ."),
        ("5#1", "He sits on a beach ."),
    ]
    first, second = (0.0, 0.05, 0.5, 0.3), (0.6, 0.0, 1.0, 1.0)  # pixels from 1, both ends inclusive
    assert records.boxes["5"] == (
        Box("A bearded man", *first, "5#0", ("7", "people")),
        Box("A bearded man", *second, "5#0", ("7", "people")),
        Box("a man 's arm", *second, "5#0", ("8", "bodyparts", "people")),
        Box("He", *first, "5#1", ("7", "people")),
        Box("He", *second, "5#1", ("7", "people")),
    )
    assert recognise(str(tmp_path)) == ("flickr30k_entities", {"root": str(tmp_path)})


def test_markup_of_the_published_samples() -> None:
    if SHARED is None:
        pytest.skip("needs ../shared/data")
    page = (SHARED / "data" / "flickr30k_entities" / "official_markup_samples.md").read_text()
    lines = re.findall(r"^.*\[/EN#.*$", page, re.M)
    assert len(lines) > 30
    for line in lines:
        text, phrases = parse_sentence(line, "sample")
        assert len(phrases) == line.count("[/EN#")
        assert "EN#" not in text
        assert all(phrase.text in text for phrase in phrases)


def test_a_sentence_without_phrases() -> None:
    assert parse_sentence("A plain [text] .", "here") == ("A plain [text] .", [])
    assert parse_sentence("[/EN#3/other x]", "here") == ("x", [Phrase("x", "3", ("other",))])


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("[/EN#1/people a man", "expected phrases as"),
        ("[/EN#/people a man] runs", "expected phrases as"),
        ("[/EN#1people a man] runs", "expected phrases as"),
        ("[/EN#1/people a [/EN#2/other b] c]", "expected phrases as"),
        ("[/EN#1/people ] runs", "phrase of entity 1 is empty"),
    ],
)
def test_damaged_sentences(tmp_path: Path, sentence: str, reason: str) -> None:
    with pytest.raises(InputError, match=rf"5\.txt: line 1: .*{reason}"):
        _official(tmp_path, sentence).describe()


def _box(*sides: object) -> str:
    inner = "".join(f"<{n}>{v}</{n}>" for n, v in zip(("xmin", "ymin", "xmax", "ymax"), sides, strict=False))
    return f"<object><name>7</name><bndbox>{inner}</bndbox></object>"


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        (_annotations()[:100], "is not complete XML"),
        ("{}", "is not complete XML"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><annotation/>', "document type definition"),
        ("<annotation></annotation>", "<size/width> must be a whole number"),
        (_annotations(size="<width>0</width><height>200</height>"), "not inside an image of 0 x 200"),
        (_annotations("<object><scene>1</scene></object>"), "object 1: lacks a <name>"),
        (_annotations(_box(1, 2, 3)), "object 1: <bndbox/ymax> must be a whole number of pixels, got ''"),
        (_annotations(_box(1, 2, "x", 4)), "object 1: <bndbox/xmax> must be a whole number of pixels, got 'x'"),
        (_annotations(_box(50, 2, 20, 9)), "object 1: box .* is not inside"),
        (_annotations(_box(1, 2, 130, 9)), "object 1: box .* is not inside"),
    ],
)
def test_damaged_annotations(tmp_path: Path, annotations: str, reason: str) -> None:
    with pytest.raises(InputError, match=rf"5\.xml: .*{reason}"):
        _official(tmp_path, annotations=annotations).describe()


def test_boxes_in_the_pixel_beside_the_photograph_are_left_out(tmp_path: Path) -> None:
    """Or phrase regions could make no proposals of them."""
    source = _official(tmp_path, annotations=_annotations(_box(0, 2, 0, 9)))
    records = source.describe()
    assert records.boxes == {}
    assert len(records.captions) == 2
    phrases = [{"phrase": "a cat", "boxes": [[0, 1, 0, 9]]}, *ENTRY["phrases"]]
    assert len(_json(tmp_path, ENTRY | {"phrases": phrases}).describe().boxes["a.jpg"]) == 1


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lacks the folder Annotations"):
        Flickr30kEntities(Flickr30kEntities.Config(root=str(tmp_path))).describe()
    with pytest.raises(InputError, match=r"Sentences/6\.txt: no such file; a list of ids names it"):
        _official(tmp_path, ids="5 6").describe()
    (tmp_path / "Annotations" / "5.xml").unlink()
    (tmp_path / "val.txt").write_text("5")
    source = Flickr30kEntities(Flickr30kEntities.Config(root=str(tmp_path)))
    with pytest.raises(InputError, match=r"Annotations/5\.xml: no such file"):
        source.describe()
    (tmp_path / "val.txt").unlink()
    with pytest.raises(InputError, match=r"lacks the lists of ids train\.txt, val\.txt and test\.txt"):
        source.describe()
    with pytest.raises(InputError, match=r"goes with data\.file"):
        Flickr30kEntities(Flickr30kEntities.Config(root=str(tmp_path), captions="x.json")).describe()


def test_sentences_that_are_not_utf8(tmp_path: Path) -> None:
    source = _official(tmp_path)
    (tmp_path / "Sentences" / "5.txt").write_bytes(b"[/EN#7/people Caf\xe9]")
    with pytest.raises(InputError, match=r"5\.txt: line 1: is not UTF-8 text \(byte 0xe9\); save it as UTF-8$"):
        source.describe()
    (tmp_path / "Sentences" / "5.txt").write_bytes(b"a\0b")
    with pytest.raises(InputError, match=r"5\.txt: line 1: holds a null character; save it as UTF-8$"):
        source.describe()


def test_a_list_may_not_lead_out_of_its_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not the id of a photograph"):
        _official(tmp_path, ids="../5").describe()


ENTRY: dict[str, Any] = {
    "split": "dev",
    "width": 100,
    "height": 200,
    "caption": 1,
    "phrases": [{"phrase": "a cat", "boxes": [[1, 1, 50, 202]]}],
}


def _json(folder: Path, entry: Any, sentences: tuple[str, ...] = ("Cats .", "I see a cat"), **config: Any) -> Any:
    (folder / "phrases.json").write_text(json.dumps({"a.jpg": entry}))
    said = [{"raw": text} for text in sentences]
    images = [{"filename": "a.jpg", "split": "test", "sentences": said}]
    (folder / "dataset.json").write_text(json.dumps({"images": images}))
    keys: dict[str, Any] = {"root": str(folder), "file": "phrases.json", "captions": "dataset.json"}
    return Flickr30kEntities(Flickr30kEntities.Config(**(keys | config)))


def test_json_of_phrases(tmp_path: Path) -> None:
    records = _json(tmp_path, ENTRY).describe()
    assert [(i.id, i.split) for i in records.images] == [("a.jpg", "val")]
    assert [c.id for c in records.captions] == ["a.jpg#0", "a.jpg#1"]
    assert records.boxes == {"a.jpg": (Box("a cat", 0.0, 0.0, 0.5, 1.0, "a.jpg#1"),)}  # 202 > 200 is rounding
    without = _json(tmp_path, ENTRY | {"caption": None}).describe()
    assert without.boxes == {"a.jpg": (Box("a cat", 0.0, 0.0, 0.5, 1.0),)}
    wordless = _json(tmp_path, ENTRY, ("Cats .", "...")).describe()
    assert wordless.boxes["a.jpg"][0].caption == ""
    assert [reject.id for reject in rejects(wordless)] == ["a.jpg#1"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"split": "extra"}, "unknown split 'extra'"),
        ({"width": None}, "'width' must be int or float"),
        ({"caption": 2}, "'caption' is 2, but there are 2 sentences"),
        ({"caption": "1"}, "'caption' must be int, got str"),
        ({"phrases": [{"phrase": "a cat"}]}, r"phrases\[0\]: lacks the key 'boxes'"),
        ({"phrases": [{"phrase": "a cat", "boxes": []}]}, "a phrase needs a word and at least one box"),
        ({"phrases": [{"phrase": "...", "boxes": [[1, 1, 2, 2]]}]}, "a phrase needs a word"),
        ({"phrases": [{"phrase": "a cat", "boxes": [5]}]}, "lists of four numbers"),
        ({"phrases": [{"phrase": "a cat", "boxes": [[1, 2, 3]]}]}, "must be four numbers"),
        ({"phrases": [{"phrase": "a cat", "boxes": [[1, 1, 103, 9]]}]}, "is not inside an image"),
        ({"phrases": [{"phrase": "a cat", "boxes": [[9, 1, 4, 9]]}]}, "is not inside an image"),
    ],
)
def test_damaged_json(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=rf"a\.jpg.*{reason}"):
        _json(tmp_path, ENTRY | change).describe()


def test_json_needs_the_sentences(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.captions: name the Karpathy file"):
        _json(tmp_path, ENTRY, captions="").describe()
    source = _json(tmp_path, ENTRY)
    with pytest.raises(InputError, match="lacks the key 'caption'"):
        _json(tmp_path, {key: value for key, value in ENTRY.items() if key != "caption"}).describe()
    (tmp_path / "phrases.json").write_text("[]")
    with pytest.raises(InputError, match="expected an object with one entry for each photograph"):
        source.describe()
    (tmp_path / "phrases.json").write_text(json.dumps({"b.jpg": ENTRY}))
    with pytest.raises(InputError, match=r"b\.jpg: data\.captions=dataset\.json has no such photograph"):
        source.describe()


def test_phrases_of_flickr8k() -> None:
    if SHARED is None:
        pytest.skip("needs ../shared/data")
    data = SHARED / "data"
    config = Flickr30kEntities.Config(
        root=str(data / "flickr30k_entities"),
        file="phrase_boxes_flickr8k_800.json",
        captions=str(data / "flickr8k_800" / "dataset_flickr8k_800.json"),
        images=str(data / "flickr8k_800" / "images"),
    )
    records = Flickr30kEntities(config).describe()
    assert len(records.images) == 792
    assert sum(map(len, records.boxes.values())) == 3544
    assert len({(image, box.label) for image, boxes in records.boxes.items() for box in boxes}) == 2706  # "one" twice
    texts = {caption.id: caption.text.lower() for caption in records.captions}
    inside = [box.label.lower() in texts[box.caption] for b in records.boxes.values() for box in b if box.caption]
    assert sum(inside) / len(inside) > 0.98
