"""What every source shares: names of data sets from names of files, and text that is none."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from vse.data.reading import read_json
from vse.data.records import Caption, Image, Records
from vse.data.source import RecordsBuilder, readable_name, rejects, source_of, true_pairs
from vse.data.sources.scenes import Scenes
from vse.data.sources.table import Table
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.text.tokens import tokenize
from vse.text.vocabulary import build_vocabulary
from vse.workspace.layout import Workspace


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flickr8k", "flickr8k"),
        ("f30k_precomp", "f30k_precomp"),
        ("train2017", "train2017"),
        ("mein Ördner", "mein-rdner"),
        ("数据", "else"),
        ("..", "else"),
        ("-a-", "a"),
        ("", "else"),
        ("a/b\\c\n", "a-b-c"),
    ],
)
def test_any_name_becomes_one_that_a_workspace_takes(name: str, expected: str, tmp_path: Path) -> None:
    assert readable_name(name, "else") == expected
    builder = RecordsBuilder("here")
    builder.image(Image("1", "1.png", "train"), "here")
    builder.caption(Caption("c", "1", "a dog"), "here")
    Workspace.open(str(tmp_path)).dataset(builder.records(readable_name(name, "else"), {}))


def test_half_a_character_is_a_reject_in_a_caption_and_refused_in_an_id() -> None:
    builder = RecordsBuilder("here")
    builder.image(Image("1", "1.png", "train"), "here")
    builder.caption(Caption("whole", "1", "a dog \U0001f415"), "here")
    builder.caption(Caption("half", "1", "a dog \ud83d"), "here")
    records = builder.records("name", {})
    assert [c.id for c in records.captions] == ["whole"]
    assert [(r.id, r.reason.split(" (")[0]) for r in rejects(records)] == [("half", "caption with half a character")]
    with pytest.raises(InputError, match=r"there: image id '2\\ud83d' is not valid text"):
        builder.image(Image("2\ud83d", "2.png", "train"), "there")
    with pytest.raises(InputError, match=r"image id '2' is not valid text"):
        builder.image(Image("2", "2\ud83d.png", "train"), "there")
    with pytest.raises(InputError, match=r"caption id .* is not valid text"):
        builder.caption(Caption("\udc00", "1", "a cat"), "there")


WORDS = ["a", "\u00df", "7", "\u0663", "\u0939\u093f", "\u732b", "\u2460", "- x -"]
NO_WORDS = [
    ".",
    "-",
    "???",
    "...",
    "\u2026",
    "\u2014 \u2019",
    "_",
    "$ + = | ~ ^ `",
    "\u3002",
    "\u0301",
    " ",
    "\u200b",
    "\U0001f415 \u2600\ufe0f",
    "http://a.example @user",
    "",
]


def test_a_caption_of_signs_alone_has_no_word() -> None:
    builder = RecordsBuilder("here")
    builder.image(Image("1", "1.png", "train"), "here")
    for text in (*WORDS, *NO_WORDS):
        builder.caption(Caption(repr(text), "1", text), "here")
    records = builder.records("name", {})
    assert [c.text for c in records.captions] == WORDS
    assert [(r.id, r.reason) for r in rejects(records)] == [(repr(t), "caption without a word") for t in NO_WORDS]


def test_a_word_is_one_however_its_accents_were_typed() -> None:
    builder = RecordsBuilder("here")
    builder.image(Image("1", "1.png", "train"), "here")
    typed = ("a caf\u00e9", "a  cafe\u0301", "A cafe\u0301", "a cafe", "\u212b \ud55c", "\u1112\u1161\u11ab")
    for number, text in enumerate(typed):
        builder.caption(Caption(str(number), "1", text), "here")
    texts = [c.text for c in builder.records("name", {}).captions]
    assert texts == ["a caf\u00e9", "a caf\u00e9", "A caf\u00e9", "a cafe", "\u00c5 \ud55c", "\ud55c"]
    assert set(build_vocabulary(texts).words) >= {"caf\u00e9", "cafe", "\u00e5", "\ud55c"}
    assert len(build_vocabulary(texts).words) == len(build_vocabulary([]).words) + 5  # and the "a"
    for text in texts:
        assert all(text[token.start : token.end] == token.text for token in tokenize(text))


def test_json_without_end_in_depth_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text('{"a":' * 100_000)
    with pytest.raises(InputError, match=r"deep\.json: is nested too deeply to be a data set"):
        read_json(str(tmp_path / "deep.json"))


def test_json_with_an_integer_that_python_does_not_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "long.json").write_text('{"cocoid": %s}' % ("1" * 5000))
    with pytest.raises(InputError, match=r"long\.json: holds an integer of thousands of digits"):
        read_json(str(tmp_path / "long.json"))
    with pytest.raises(InputError, match=r"absent\.json: cannot be read"):
        read_json(str(tmp_path / "absent.json"))


def test_only_a_source_that_knows_is_asked_what_is_true(tmp_path: Path) -> None:
    (tmp_path / "captions.csv").write_text("image,caption\na.jpg,A dog\n")
    config = Table.Config(file="captions.csv", root=str(tmp_path))
    records = Table(config).describe()
    assert not source_of(config).knows_truth
    with pytest.raises(InputError, match=r"^objective.mask=truth: needs a source that knows which captions are true"):
        true_pairs(config, records, "train", "objective.mask=truth")
    scenes = Scenes.Config(num_train=2, num_val=0, num_test=0, num_shifted=0)
    assert source_of(scenes) is Scenes
    found = true_pairs(scenes, Scenes(scenes).describe(), "train", "objective.mask=truth")
    assert found.shape[0] == 2


def test_records_keep_the_raw_caption_where_its_text_is_read_otherwise(tmp_path: Path) -> None:
    builder = RecordsBuilder("here")
    builder.image(Image("1", "1.png", "train"), "here")
    raw = "Stone &amp; tile  @user http://a.example #beach"
    for number, text in enumerate((raw, "a  cafe\u0301", "a dog \U0001f415")):
        builder.caption(Caption(str(number), "1", text), "here")
    records = builder.records("name", {})
    assert [c.text for c in records.captions] == ["Stone & tile beach", "a caf\u00e9", "a dog \U0001f415"]
    assert [c.raw for c in records.captions] == [raw, "", ""]
    folder = Folder.open(str(tmp_path))
    records.save(folder)
    assert Records.load(folder).captions == records.captions


def test_captions_without_such_signs_are_kept_as_before(tmp_path: Path) -> None:
    builder = RecordsBuilder("here")
    builder.image(Image("1", "1.png", "train"), "here")
    builder.caption(Caption("1", "1", "A dog, R&D #5"), "here")
    records = builder.records("name", {})
    assert "tokens" not in records.source
    records.save(Folder.open(str(tmp_path)))
    assert pq.read_table(tmp_path / "captions.parquet").column_names == ["id", "image", "text"]


def test_records_say_that_scripts_without_spaces_are_split() -> None:
    builder = RecordsBuilder("here")
    builder.image(Image("1", "1.png", "train"), "here")
    builder.caption(Caption("1", "1", "\u4e00\u53ea\u732b"), "here")
    assert builder.records("name", {}).source["tokens"] == 2
