"""The page for readers."""

import json

import pytest

from tests.unit.adversaries.vsec.made import TEXTS
from vse.adversaries.vsec.candidates import Rules
from vse.errors import InputError
from vse.studies.contrast_page import page_of, read_images
from vse.text.parser import Parser


@pytest.mark.seconds
def test_captions_with_adversaries_and_reasons():
    images = [(text,) for text in TEXTS]
    page = page_of(images, Rules(minimum=5), Parser.Config(), "all", 5, 2, 0)
    lines = page.text.splitlines()
    captions = [line[2:] for line in lines if line.startswith("# ")]
    assert len(captions) == 5
    assert set(captions) <= set(TEXTS)
    samples = [line for line in lines if line.startswith("  ") and " -> " not in line]
    reasons = [line for line in lines if " -> " in line]
    assert len(samples) == len(reasons) > 5
    assert page.headline["captions"] == len(TEXTS)
    with pytest.raises(InputError, match="contain no captions"):
        page_of([], Rules(), Parser.Config(), "all", 5, 2, 0)


def test_captions_of_an_image_stay_together(tmp_path):
    rows = {str(k): {"filename": f"{k // 2}.jpg", "caption": f"a dog {k}", "negative_caption": "x"} for k in range(4)}
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(rows))
    assert read_images(str(path)) == [("a dog 0", "a dog 1"), ("a dog 2", "a dog 3")]
    plain = tmp_path / "captions.txt"
    plain.write_text("one\ntwo\n")
    assert read_images(str(plain)) == [("one",), ("two",)]
