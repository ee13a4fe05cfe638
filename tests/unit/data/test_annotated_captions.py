"""Files of captions that a person annotated, and what is refused."""

import json

import pytest

from vse.data.annotated_captions import read_annotated
from vse.errors import InputError

ENTRY = {
    "image": "1.jpg",
    "caption": "A white clock hangs on the wall",
    "objects": ["clock", "wall"],
    "attributes": [["white", "clock"]],
    "relations": [{"any": [["clock", "hang", "wall"], ["wall", "have", "clock"]]}],
    "optional_attributes": [["white", "wall"]],
}


def test_readings_and_what_is_optional(tmp_path):
    file = tmp_path / "gold.json"
    file.write_text(json.dumps([ENTRY]))
    (caption,) = read_annotated(str(file))
    assert (caption.filename, caption.caption) == ("1.jpg", "A white clock hangs on the wall")
    assert caption.required["relations"] == (frozenset({("clock", "hang", "wall"), ("wall", "have", "clock")}),)
    assert caption.optional["attributes"] == {("white", "wall")}
    components = caption.components()
    assert [each.word for each in components.objects] == ["clock", "wall"]
    assert [(each.word, each.noun) for each in components.attributes] == [("white", "clock")]
    assert [each.word for each in components.relations] == ["hang", "have"]


@pytest.mark.parametrize("image", [42, 42.0, "42"])
def test_images_may_be_named_by_number(tmp_path, image):
    file = tmp_path / "gold.json"
    file.write_text(json.dumps([ENTRY | {"image": image}]))
    assert [each.filename for each in read_annotated(str(file))] == ["42"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"image": None}, "entry 0: 'image' must be int or str, got NoneType"),
        ({"image": 1.5}, "entry 0: 'image' must be a whole number or text, got 1.5"),
        ({"relations": None}, "entry 0: 'relations' must be list, got NoneType"),
        ({"attributes": ["white"]}, r"entry 0: 'attributes': expected a list of 2 words, or .* got 'white'"),
        ({"objects": [["clock", "wall"]]}, r"entry 0: 'objects': expected a word, or .* got \['clock', 'wall'\]"),
        ({"relations": [{"any": []}]}, r"entry 0: 'relations': expected a list of 3 words, or .* got {'any': \[\]}"),
        (
            {"relations": [{"any": [["a", "b"]]}]},
            r"entry 0: 'relations': expected a list of 3 words, .* got \['a', 'b'\]",
        ),
        ({"optional_objects": "clock"}, "entry 0: 'optional_objects' must be list, got str"),
        ({"optional_objects": [" "]}, "entry 0: 'optional_objects': expected a word, or .* got ' '"),
    ],
)
def test_malformed_entries_are_one_line(tmp_path, changed, message):
    file = tmp_path / "gold.json"
    file.write_text(json.dumps([ENTRY | changed]))
    with pytest.raises(InputError, match=rf"gold\.json: {message}$"):
        read_annotated(str(file))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not complete JSON"),
        ("[]", "expected a JSON list of one or more"),
        ("{}", "expected a JSON list of one or more"),
        ("[1]", "entry 0: expected an object with 'image', got int"),
        ('[{"image": "1"}]', "entry 0: lacks the key 'caption'"),
    ],
)
def test_files_of_another_form_are_one_line(tmp_path, content, message):
    file = tmp_path / "gold.json"
    file.write_text(content)
    with pytest.raises(InputError, match=rf"gold\.json: {message}"):
        read_annotated(str(file))
