"""Tables of captions as people write them: CSV, TSV, JSON; splits by name or by hash; errors by line."""

import json
import unicodedata
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from vse.config import override
from vse.data.images import open_image
from vse.data.records import Records
from vse.data.source import rejects
from vse.data.sources.table import Table
from vse.errors import InputError

ROWS = [
    ("a.jpg", "A dog, running", "train"),
    ("sub/b.jpg", 'A "stop" sign', "val"),
    ("a.jpg", "Two\u2028dogs\u0085here", "train"),
    ("c ü.jpg", "A cat\nsits", "test"),
]


def described(folder: Path, content: str | bytes, name: str = "captions.csv", **changes: Any) -> Records:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return Table(override(Table.Config(file=name, root=str(folder)), changes)).describe()


def quoted(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


OBJECTS = [{"caption": c, "image": i, "split": s, "note": 1} for i, c, s in ROWS]
CSV = "image,caption,split\n" + "".join(f"{i},{quoted(c)},{s}\n" for i, c, s in ROWS)
FORMS = {
    "csv": CSV,
    "windows": CSV.replace("\n", "\r\n").replace("cat\r\n", "cat\n"),
    "spreadsheet": "\ufeff" + CSV,
    "without a last line feed": CSV.rstrip("\n"),
    "blank lines": CSV.replace("\nsub", "\n\nsub") + "\n\n",
    "tsv": "image\tcaption\tsplit\n" + "".join(f"{i}\t{quoted(c)}\t{s}\n" for i, c, s in ROWS),
    "other order": "Split, Caption ,note,IMAGE\n" + "".join(f'{s}, {quoted(c)},"x, y",{i} \n' for i, c, s in ROWS),
    "json": "".join(
        json.dumps({"image": i, "caption": c, "split": s, "note": 1}, ensure_ascii=False) + "\n" for i, c, s in ROWS
    ),
    "json list": json.dumps(OBJECTS),
    "json list over lines": "\ufeff\n" + json.dumps(OBJECTS, indent=2),
}


@pytest.mark.parametrize("form", FORMS)
def test_records(tmp_path: Path, form: str) -> None:
    records = described(tmp_path, FORMS[form])
    assert records.name == "captions"
    assert [(i.id, i.uri, i.split) for i in records.images] == [
        ("a.jpg", "a.jpg", "train"),
        ("sub/b.jpg", "sub/b.jpg", "val"),
        ("c ü.jpg", "c ü.jpg", "test"),
    ]
    assert [(c.id, c.image, c.text) for c in records.captions] == [
        ("a.jpg#0", "a.jpg", "A dog, running"),
        ("a.jpg#1", "a.jpg", "Two dogs here"),
        ("sub/b.jpg#0", "sub/b.jpg", 'A "stop" sign'),
        ("c ü.jpg#0", "c ü.jpg", "A cat sits"),
    ]


def test_ids_of_captions_may_be_given(tmp_path: Path) -> None:
    records = described(tmp_path, "id,image,caption\n7,a.jpg,A dog\n,a.jpg,A cat\n")
    assert [c.id for c in records.captions] == ["7", "a.jpg#1"]
    lines = [{"image": "a.jpg", "caption": "A dog", "id": 7}, {"image": "a.jpg", "caption": "A cat", "id": None}]
    again = described(tmp_path, "\n".join(map(json.dumps, lines)), "lines.jsonl")
    assert again.captions == records.captions


def test_an_object_may_have_several_captions(tmp_path: Path) -> None:
    items = [
        {"image": "a.jpg", "captions": ["A dog", "Two dogs"], "caption": None},
        {"image": "b.jpg", "captions": ["A cat", "A bird"], "id": 7},
        {"image": "a.jpg", "captions": None, "caption": "Three dogs", "id": "x"},
    ]
    records = described(tmp_path, json.dumps(items), "captions.json")
    assert [(c.id, c.image, c.text) for c in records.captions] == [
        ("a.jpg#0", "a.jpg", "A dog"),
        ("a.jpg#1", "a.jpg", "Two dogs"),
        ("x", "a.jpg", "Three dogs"),
        ("7#0", "b.jpg", "A cat"),
        ("7#1", "b.jpg", "A bird"),
    ]
    lines = described(tmp_path, "\n".join(map(json.dumps, items)), "captions.jsonl")
    assert lines.captions == records.captions


def test_a_null_in_place_of_a_caption_is_an_empty_cell(tmp_path: Path) -> None:
    dog, cells = (
        {"image": "a.jpg", "caption": "A dog"},
        [{"image": "a.jpg", "caption": None}, {"image": "b.jpg", "caption": None}],
    )
    table = described(tmp_path, "image,caption\na.jpg,A dog\na.jpg,\nb.jpg,\n")
    records = described(tmp_path, json.dumps([dog, *cells]), "captions.json")
    assert (records.captions, rejects(records)) == (table.captions, rejects(table))
    for empty in ([None], []):
        listed = [{"image": "a.jpg", "captions": ["A dog", None]}, {"image": "b.jpg", "captions": empty}]
        assert rejects(described(tmp_path, json.dumps(listed), "captions.json")) == rejects(table)


def test_what_cannot_serve_is_a_reject(tmp_path: Path) -> None:
    records = described(tmp_path, 'image,caption\na.jpg,A dog\na.jpg," "\nb.jpg,\n')
    assert [c.text for c in records.captions] == ["A dog"]
    assert [(r.id, r.reason) for r in rejects(records)] == [
        ("a.jpg#1", "caption without a word"),
        ("b.jpg#0", "caption without a word"),
        ("b.jpg", "image without a caption"),
    ]


def test_one_image_under_several_spellings_is_one(tmp_path: Path) -> None:
    """Else it would be two, and could be trained on and tested on."""
    spellings = ["./0.jpg", "0.jpg", "a/../0.jpg", "a//b.jpg", "a/./b.jpg", "a/b.jpg"]
    records = described(tmp_path, "image,caption\n" + "".join(f"{image},A dog\n" for image in spellings))
    assert [(i.id, i.uri) for i in records.images] == [("0.jpg", "0.jpg"), ("a/b.jpg", "a/b.jpg")]
    assert [c.id for c in records.captions] == [f"{i}#{k}" for i in ("0.jpg", "a/b.jpg") for k in range(3)]
    lines = [json.dumps({"image": image, "caption": "A dog"}) for image in spellings]
    assert described(tmp_path, "\n".join(lines)).fingerprint == records.fingerprint
    with pytest.raises(InputError, match=r"line 3: image '0\.jpg' has split 'test' here and 'train' in line 2"):
        described(tmp_path, "image,caption,split\n0.jpg,A dog,train\n./0.jpg,A dog,test\n")


def test_one_image_in_two_forms_of_unicode_is_one(tmp_path: Path) -> None:
    """Both name the same file (`open_image`)."""
    one, other = (unicodedata.normalize(form, "\u00e9.jpg") for form in ("NFD", "NFC"))
    records = described(tmp_path, f"image,caption\n{one},A dog\n{other},A cat\n")
    assert [(i.id, i.uri) for i in records.images] == [(one, one)]  # as written first
    assert [(c.id, c.image) for c in records.captions] == [(f"{one}#{k}", one) for k in range(2)]


OUTSIDE = ["../0.jpg", "a/../../0.jpg", "/etc/x.jpg", "s3://other/x.jpg", "file:///etc/x.jpg"]


def test_addresses_that_leave_the_root_are_refused_however_they_are_spelt(tmp_path: Path) -> None:
    images = described(tmp_path, "image,caption\n" + "".join(f"{image},A dog\n" for image in OUTSIDE)).images
    assert [image.uri for image in images] == ["../0.jpg", "../0.jpg", *OUTSIDE[2:]][1:]
    for image in images:
        with pytest.raises(InputError, match="leaves its root"):
            open_image(image.uri, str(tmp_path))
    whole = [f"{tmp_path}/a/../0.jpg", f"file://{tmp_path}/./0.jpg", "s3://bucket/a/../0.jpg"]  # as they are written
    images = described(tmp_path, "image,caption\n" + "".join(f"{image},A dog\n" for image in whole)).images
    assert [image.id for image in images] == whole


def drawn(folder: Path, images: list[str], **changes: Any) -> Mapping[str, str]:
    rows = [f"{image},a dog {k}" for k in range(2) for image in images]
    records = described(folder, "\n".join(["image,caption", *rows]), **changes)
    assert len(records.captions) == 2 * len(records.images) == 2 * len(images)
    return {image.id: image.split for image in records.images}


@pytest.mark.seconds
def test_splits_are_drawn_by_image(tmp_path: Path) -> None:
    images = [f"{k}.jpg" for k in range(3000)]
    few = drawn(tmp_path, images[:1000])
    more = drawn(tmp_path, images[::-1])
    assert {image: more[image] for image in few} == few  # what is added moves nothing, in whatever order
    counts = Counter(more.values())
    assert counts["train"] == pytest.approx(2400, abs=90)  # four standard deviations
    assert counts["val"] == pytest.approx(300, abs=66)
    assert counts["test"] == pytest.approx(300, abs=66)
    other = drawn(tmp_path, images, seed=1)
    assert sum(other[image] != more[image] for image in images) == pytest.approx(3000 * 0.34, abs=105)
    assert set(drawn(tmp_path, images[:300], val=0.5, test=0).values()) == {"train", "val"}
    wider = drawn(tmp_path, images, val=0.1, test=0.3)
    assert {image for image in images if wider[image] == "val"} == {image for image in images if more[image] == "val"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; expected a header"),
        ("photo,A dog\n", "line 1: expected JSON, or a header .* image and caption .* found photo, A dog"),
        ("image:caption\n", "found image:caption"),
        ('[{"image": "a.jpg"}]', r"lacks 'caption'; found image; data\.caption_column names a column of another name"),
        (
            '[{"image": "a.jpg", "caption": "A dog"}, {"image": "a.jpg"}]',
            r"entry 2: lacks the key 'caption' \(str, or a list of them\)",
        ),
        ('{"image": "a.jpg", "captions": ["A dog", 7]}', "line 1: each of 'captions' must be str, got int"),
        ('{"image": "a.jpg", "caption": 7}', "line 1: 'caption' must be str, got int"),
        ('{"image": "a.jpg", "caption": "A dog", "captions": []}', "line 1: has 'caption' and 'captions'; give it one"),
        ("[]", "holds no image with a caption"),
        ('[{"image": "a.jpg", "caption": "A dog"}, 7]', "entry 2: expected an object with 'image', got int"),
        (
            '[{"image": "a.jpg", "caption": "A dog"},\n{"image": "b',
            "line 2: is not JSON .* expected a list of objects",
        ),
        ('["image", "caption"]\n["a.jpg", "A dog"]\n', r"line 2: is not JSON \(Extra data\); expected a list"),
        (
            '[{"image": "a.jpg", "caption": "", "split": "val"}, {"image": "a.jpg", "caption": "", "split": "test"}]',
            "entry 2: image 'a.jpg' has split 'test' here and 'val' in entry 1",
        ),
        ("[" * 100_000, "is nested too deeply"),
        ("image,caption,image\n", r"captions\.csv: the column image occurs 2 times"),
        ("image,caption\n", "holds no image with a caption"),
        ("image,caption\na.jpg,A dog, running\n", "line 2: 3 fields, but the header has 2; .* holds a comma in double"),
        ("image\tcaption\na.jpg\n", "line 2: 1 fields, but the header has 2; .* holds a tab"),
        (
            'image,caption\na.jpg,"A dog\nb.jpg,A cat\n',
            "line 2: unexpected end of data; double the quotes inside a quoted field",
        ),
        ('image,caption\na.jpg,"A\ndog"\nb.jpg,"A" cat\n', "line 4: ',' expected after '\"'"),
        (f'image,caption\na.jpg,"{"a dog " * 30_000}"\n', "line 2: field larger than field limit"),
        ("image,caption\n ,A dog\n", "line 2: image is empty"),
        (b"image,caption\na.jpg,A dog\nb.jpg,caf\xe9\n", "line 3: is not UTF-8 text"),
        (
            "image,caption,id\na.jpg,A dog,1\nb.jpg,A cat,1\n",
            r"column 'id' \(line 3\): '1' is also the id of line 2; this column holds caption ids, so rename it if",
        ),
        (
            "image,caption,split\na.jpg,A dog,held-out\n",
            "line 2: unknown split 'held-out' in column 'split'; expected one of train, val, test; rename or delete",
        ),
        (
            "image,caption,split\na.jpg,A dog,train\na.jpg,A cat,val\n",
            "line 3: image 'a.jpg' has split 'val' here and 'train' in line 2",
        ),
        (
            "image,caption,split\na.jpg,A dog,train\nb.jpg,A cat,\n",
            "line 3: column 'split' is empty in line 3 but not in line 2; fill it in every line, or rename or delete",
        ),
        (
            "image,caption,split\na.jpg,A dog,\nb.jpg,A cat,val\n",
            "line 3: column 'split' is empty in line 2 but not in line 3; fill it in every line, or rename or delete",
        ),
        ('{"image": "a.jpg", "caption": "A dog"}\n{"image": "b', "line 2: is not JSON .* expected one object per line"),
        ('{"image": "a.jpg"}\n', "lacks 'caption'; found image"),
        ('{"image": "a.jpg", "caption": 3}\n', "line 1: 'caption' must be str, got int"),
        ('{"image": "a.jpg", "caption": "A dog"}\n\n[1]\n', "line 3: expected an object with 'image', got list"),
        ('{"image": "a.jpg", "caption": "A dog", "id": %s}' % ("1" * 5000), "line 1: holds an integer of thousands of"),
        ('{"image": ' + "[" * 100_000, "line 1: is nested too deeply"),
        ('{"image": "a\\ud83d.jpg", "caption": "A dog"}\n', "line 1: image id .* is not valid text"),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        described(tmp_path, content)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "captions.csv") in str(caught.value)


def test_shares_leave_something_to_train_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.val=0\.6, data\.test=0\.4: must leave"):
        described(tmp_path, "image,caption\na.jpg,A dog\n", val=0.6, test=0.4)
    described(tmp_path, "image,caption,split\na.jpg,A dog,test\n", val=0.6, test=0.4)


def test_finding_file_and_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photographs, here = tmp_path / "photographs", tmp_path / "here"
    photographs.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    for place in (photographs, here):
        (place / "captions.csv").write_text(f"image,caption\n{place.name}.jpg,A dog\n")
    (here / "mine.csv").write_text("image,caption\nx.jpg,A dog\n")
    found = {
        (file, root): Table(Table.Config(file=file, root=root))
        for file, root in (
            ("captions.csv", ""),
            ("captions.csv", str(photographs)),
            ("mine.csv", str(photographs)),
            (str(here / "captions.csv"), str(photographs)),
        )
    }
    images = [source.describe().images[0].id for source in found.values()]
    assert images == ["here.jpg", "photographs.jpg", "x.jpg", "here.jpg"]
    assert [Path(source.image_root).resolve() for source in found.values()] == [here] + 3 * [photographs]
    for config, message in (
        (Table.Config(), r"data\.file: name the table of captions"),
        (Table.Config(file="no.csv"), rf"data\.file=no\.csv: no such file in {here}"),
        (Table.Config(file="no.csv", root=str(photographs)), f"no such file in {photographs} or in {here}"),
        (Table.Config(file="mine.csv", root="absent"), r"data\.root=absent: no such folder"),
    ):
        with pytest.raises(InputError, match=message):
            Table(config).describe()


def test_moving_the_folder_changes_no_fingerprint(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    prints = [described(tmp_path / name, CSV).fingerprint for name in ("one", "two")]
    assert prints[0] == prints[1]
