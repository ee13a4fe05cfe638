"""Files of (image, caption, negative caption): SugarCrepe's JSON, JSON lines, tables."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.shared import SHARED
from vse.adversaries.caption_pairs import CaptionPair, match_images, read_files, read_pairs, read_rewrites, read_twins
from vse.errors import InputError
from vse.text.tokens import words

ROW = {"filename": "1.jpg", "caption": "a dog", "negative_caption": "a cat"}
PAIR = CaptionPair("1.jpg", "a dog", "a cat", "add_obj")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("add_obj.json", json.dumps({"0": ROW, "1": ROW})),
        ("add_obj.json", json.dumps([ROW, ROW])),
        ("add_obj.json", json.dumps({name: [each] * 2 for name, each in ROW.items()})),
        ("add_obj.json", json.dumps([{**ROW, "image": "7.jpg", "foil": "a cow"}, {"foil": "a cow", **ROW}])),
        ("add_obj.jsonl", f"{json.dumps(ROW)}\n\n{json.dumps(ROW)}\n"),
        ("add_obj.tsv", "image\tcaption\tnegative\n1.jpg\ta dog\ta cat\n1.jpg\ta dog\ta cat\n"),
        ("add_obj.TSV", "Image\tCaption\tNegative\n1.jpg\ta dog\ta cat\n1.jpg\ta dog\ta cat\n"),
        ("add_obj.CSV", '\ufefffilename, caption, negative\n1.jpg, "a dog", a cat\n\n1.jpg,a dog,a cat\n'),
        ("add_obj.csv", 'filename,caption,negative_caption\n1.jpg,"a dog",a cat\n1.jpg,a dog,a cat\n'),
    ],
)
def test_formats(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert read_pairs(str(path)) == (PAIR, PAIR)


def test_ids_of_images_may_be_numbers(tmp_path):
    """As COCO's are."""
    for name, row in (
        ("pairs", ROW | {"filename": 42}),
        ("columns", {key: [ROW[key]] for key in ROW} | {"filename": [42]}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps([row] if name == "pairs" else row))
        assert [pair.filename for pair in read_pairs(str(tmp_path / f"{name}.json"))] == ["42"]
    (tmp_path / "twins.json").write_text(json.dumps([{"image_0": 1, "image_1": 2, "caption_0": "a", "caption_1": "b"}]))
    assert [pair.filename for pair in read_twins(str(tmp_path / "twins.json"))[0]] == ["1", "2"]


def test_captions_are_in_composed_unicode(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(ROW | {"caption": "a cafe\u0301", "negative_caption": "a the\u0301"}))
    (pair,) = read_pairs(str(path))
    assert (pair.caption, pair.negative) == ("a caf\u00e9", "a th\u00e9")


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
def test_only_an_end_of_line_ends_a_row(tmp_path, name):
    """Captions from the web hold separators of lines and of paragraphs, which `str.splitlines` takes for ends."""
    path, comma = tmp_path / name, "," if name == "x.csv" else "\t"
    pair = CaptionPair("1.jpg", "a\u2028dog\x85", "a\u2029cat\x0b\x0c\x1e", "x")
    rows = [("filename", "caption", "negative_caption"), (pair.filename, pair.caption, pair.negative)]
    path.write_text("".join(comma.join(row) + "\r\n" for row in rows), newline="")
    assert read_pairs(str(path)) == (pair,)


@pytest.mark.parametrize(
    ("text", "caption"),
    [('"A sign that says ""STOP"""', 'A sign that says "STOP"'), ('"Stop" says a sign', '"Stop" says a sign')],
)
def test_quotation_marks_between_tabs_enclose_a_caption_or_are_of_it(tmp_path, text, caption):
    """The first is how pandas writes, the second how data sets come."""
    path = tmp_path / "x.tsv"
    path.write_text(f"image\tcaption\tnegative\n1.jpg\t{text}\ta cat\n")
    assert read_pairs(str(path)) == (CaptionPair("1.jpg", caption, "a cat", "x"),)


@pytest.mark.parametrize(
    ("category", "name"), [(0, "0"), (2.0, "2"), ("swap", "swap"), ("", "x"), (None, "x"), (math.nan, "x")]
)
def test_only_an_empty_category_is_the_file_s_name(tmp_path, category, name):
    path = tmp_path / "x.json"
    path.write_text(json.dumps([ROW | {"category": category}]))
    assert [pair.category for pair in read_pairs(str(path))] == [name]


def test_a_category_of_its_own_and_a_single_line(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(ROW | {"category": "swap"}))
    assert read_pairs(str(path)) == (CaptionPair("1.jpg", "a dog", "a cat", "swap"),)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.json", "{", "neither JSON nor JSON lines"),
        ("x.json", "{}", "holds no pairs"),
        ("x.json", "\n", "holds no pairs"),
        ("x.json", json.dumps({"7": {"filename": "1.jpg", "caption": "a dog"}}), "entry 7: lacks negative_caption"),
        ("x.json", json.dumps({"7": ROW | {"caption": " "}}), "entry 7: caption must be one text, got ' '"),
        (
            "x.json",
            json.dumps([ROW | {"negative_caption": ["a cat", "a cow"]}]),
            "negative_caption must be one text, got",
        ),
        ("x.json", json.dumps([ROW | {"filename": 4.5}]), "entry 0: 'filename' must be a whole number or text"),
        ("x.json", json.dumps([{"image": "1.jpg", "text": ""}]), "entry 0: lacks caption; its fields are image, text"),
        ("x.json", json.dumps([ROW | {"category": False}]), "entry 0: 'category' must be a whole number or text"),
        ("x.json", json.dumps({name: ["a", "b"][name == "caption" :] for name in ROW}), "columns differ in length"),
        ("x.json", "3", "expected an object with filename, caption, negative_caption, got int"),
        ("x.json", "[" * 100_000, "nested too deeply"),
        ("x.tsv", "image\tcaption\n1.jpg\ta dog\n", "line 2: lacks negative_caption or negative or foil; its"),
        ("x.tsv", "image\tcaption\tnegative\n1.jpg\ta dog\ta cat\ta cow\n", "line 2: 4 fields, .* header has 3"),
        ("x.csv", "image,caption,negative\n1.jpg,A dog, brown,A cat, brown\n", "line 2: 5 fields, .* header has 3"),
        ("x.csv", "image,caption,negative\n1.jpg,A dog\n", "line 2: 2 fields, but the header has 3"),
        ("x.csv", 'image,caption,negative\n1.jpg,"A dog,A cat\n2.jpg,A,B\n', "line 2: unexpected end of data"),
        ("x.csv", f'image,caption,negative\n1.jpg,"{"dog " * 40_000}",A\n', "line 2: field larger than field limit"),
        ("x.csv", "image,filename,caption,negative\n", "line 1: the column filename occurs 2 times"),
    ],
)
def test_wrong_files_are_named(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_pairs(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"absent.json: cannot be read"):
        read_pairs(str(tmp_path / "absent.json"))


def files(tmp_path, contents):
    """The paths of JSON files in folders."""
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    return [str(tmp_path / name) for name in contents]


@pytest.mark.parametrize(("one", "other"), [("swap (obj)", "swap [obj]"), ("a//b", "a/_b"), ("count/", "count_")])
def test_categories_with_one_name_in_mlflow_are_refused(tmp_path, one, other):
    paths = files(tmp_path, {"x.json": [ROW | {"category": one}], "y.json": [ROW | {"category": other}]})
    assert {pair.category for path in paths for pair in read_files([path])} == {one, other}
    with pytest.raises(InputError) as caught:
        read_files(paths)
    text = str(caught.value)
    assert text.startswith(f"{paths[1]}: MLflow shows category {other!r} as ")
    assert f"like {one!r} of {paths[0]}" in text
    (tmp_path / "x.json").write_text(json.dumps([ROW | {"category": one}, ROW | {"category": other}]))
    with pytest.raises(InputError, match="rename one"):
        read_files(paths[:1])


@pytest.mark.parametrize("content", [[ROW], {"1.jpg": ["a big dog"]}], ids=["pairs", "rewritten"])
def test_two_files_of_one_name_are_refused_unless_a_category_separates_them(tmp_path, content):
    paths = files(tmp_path, {"v1/add_att.json": content, "v2/add_att.json": [ROW]})
    with pytest.raises(InputError) as caught:
        read_files(paths)
    assert str(caught.value).startswith(f"{paths[0]}, {paths[1]}: the pairs of both have the category add_att")
    with pytest.raises(InputError, match=r"v1/add_att\.json, \S+/v1/add_att\.json: "):
        read_files([paths[0], paths[0]])
    (tmp_path / "v2" / "add_att.json").write_text(json.dumps([ROW | {"category": "second"}]))
    assert [pair.category for pair in read_files(paths)] == ["add_att", "second"]


def test_one_category_of_files_of_other_names_is_one_number(tmp_path):
    paths = files(tmp_path, {name: [ROW | {"category": "swap"}] for name in ("x.json", "y.json")})
    assert [pair.category for pair in read_files(paths)] == ["swap", "swap"]


def test_images_are_found_by_name():
    images = [("one", "dir/1.jpg"), ("2", "whatever.png"), ("coco", "val2014/COCO_val2014_000000000042.jpg?x=y")]
    found = matched(["1.jpg", "a/b/2.png", "000000000042.jpg", "9.jpg", ""], images)
    assert found.ids == {"1.jpg": "one", "a/b/2.png": "2", "000000000042.jpg": "coco"}
    assert not found.ambiguous


def matched(names, images):
    return match_images([CaptionPair(name, "a", "b", "c") for name in names], images)


BEACH, CITY, CROSSING = "beach/001.jpg", "city/001.jpg", "crossing.png"


def test_a_number_in_the_name_of_another_data_set_is_not_coco_s():
    names = ["VisualDialog_val2018_000000000042.jpg", "COCO_train2014_000000000042.jpg"]
    assert matched(names, [("coco", "000000000042.jpg")]).ids == {names[1]: "coco"}


def test_images_of_the_same_name_are_told_apart_by_their_folders():
    names = [BEACH, CITY, "./city/001.jpg", "/data/city/001.jpg", "city/001", "crossing"]
    found = matched(names, [(name, name) for name in (BEACH, CITY, CROSSING)])
    assert found.ids == dict(zip(names, [BEACH, CITY, CITY, CITY, CITY, CROSSING], strict=True))
    assert not found.ambiguous


def test_a_name_of_several_images_is_none_of_theirs():
    images = [(name, name) for name in (BEACH, CITY, "a/city/2.jpg", "b/city/2.jpg")]
    found = matched(["001.jpg", "001", "city/2.jpg", "a/city/2.jpg"], images)
    assert found.ids == {"a/city/2.jpg": "a/city/2.jpg"}
    assert found.ambiguous == {"001.jpg", "001", "city/2.jpg"}
    twice = [("1", "train2014/COCO_train2014_000000000042.jpg"), ("2", "val2014/COCO_val2014_000000000042.jpg")]
    assert matched(["000000000042.jpg"], twice).ambiguous == {"000000000042.jpg"}


def test_an_image_of_another_folder_is_another_image():
    """Of a part of a data set, the only 001.jpg need not be the one that is meant."""
    found = matched([CITY, "park/001.jpg"], [(BEACH, BEACH)])
    assert not found.ids
    assert not found.ambiguous


def test_ids_and_whole_paths_go_before_what_is_like_them():
    images = [("1", "2.jpg"), ("2", "1.jpg"), ("001.jpg", "001.jpg"), (BEACH, BEACH), ("q", "get?image=7")]
    found = matched(["1", "2", "1.jpg", "2.jpg", "001.jpg", "get?image=7"], images)
    assert found.ids == {"1": "1", "2": "2", "1.jpg": "2", "2.jpg": "1", "001.jpg": "001.jpg", "get?image=7": "q"}


def test_a_number_that_is_an_id_and_a_file_of_another_is_ambiguous():
    assert matched(["7.png"], [("7", "9.jpg"), ("8", "7.jpg")]).ambiguous == {"7.png"}


@pytest.mark.skipif(SHARED is None, reason="the shared data are not here")
def test_sugarcrepe_as_published():
    assert SHARED is not None
    files = sorted((SHARED / "data" / "sugarcrepe").glob("*.json"))
    pairs = [pair for file in files for pair in read_pairs(str(file))]
    assert len(pairs) == 7511
    assert {pair.category for pair in pairs} == {
        *("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
    }
    assert all(pair.caption != pair.negative for pair in pairs)


def test_rewrites_are_paired_with_the_captions_that_they_rewrite(tmp_path):
    path = tmp_path / "finer.json"
    path.write_text(json.dumps({"1": ["a brown dog", "A dog, on grass."], "2": ["a cat on a red mat"]}))
    first, second, third = read_rewrites(str(path))
    own = ["A dog.", "a dog on grass", "a third caption"]
    assert first.pair(own) == CaptionPair("1", "a brown dog", "A dog.", "finer")
    assert second.pair(own) is None  # the same words
    assert second.pair(["A dog.", None, "a dog that sleeps"]) is None  # the data set leaves it out
    assert (third.filename, third.number, third.category) == ("2", 0, "finer")
    with pytest.raises(InputError, match="rewrites caption 2, and the data set has 1 of this image"):
        second.pair(own[:1])
    path.write_text(json.dumps({"1": ["a dog", 3]}))
    with pytest.raises(InputError, match="entry 1: expected a list of captions"):
        read_rewrites(str(path))
    path.write_text(json.dumps({"0": {"filename": "1.jpg", "caption": "a", "negative_caption": "b"}}))
    assert read_rewrites(str(path)) == ()
    path.write_text(json.dumps({name: [each] for name, each in ROW.items()}))
    assert read_rewrites(str(path)) == ()
    assert read_files([str(path)]) == (replace(PAIR, category="finer"),)


@pytest.mark.skipif(SHARED is None, reason="the shared data are not here")
def test_published_rewrites_fit_the_captions_of_photographs():
    assert SHARED is not None
    file = SHARED / "data" / "probes" / "retrieval_fg" / "MSCOCO_FG_ann.json"
    data = json.loads((SHARED / "data" / "coco_276" / "dataset_coco.json").read_text())["images"]
    texts = {str(image["cocoid"]): [each["raw"] for each in image["sentences"]] for image in data}
    rewrites = read_rewrites(str(file))
    ids = match_images(rewrites, [(str(image["cocoid"]), image["filename"]) for image in data]).ids
    there = [each for each in rewrites if each.filename in ids]
    pairs = [pair for each in there if (pair := each.pair(texts[ids[each.filename]]))]
    assert len(ids) == 27
    assert 0.3 < len(pairs) / len(there) < 0.7
    # they are in the order of the data set: each has most words of the caption that it rewrites
    kept = [len({*words(p.negative)} & {*words(p.caption)}) / len({*words(p.negative)}) for p in pairs]
    other = [len({*words(p.negative)} & {*words(q.caption)}) / len({*words(p.negative)}) for p, q in pairwise(pairs)]
    assert sum(kept) / len(kept) > 0.7 > 2 * sum(other) / len(other)
