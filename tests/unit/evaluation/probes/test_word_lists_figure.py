"""The figure of images with lists of words."""

import io

import numpy as np
import PIL.Image
import pytest

from vse.evaluation.probes.word_lists_figure import RIGHT, WRONG, ShownImage, WordList, word_lists_figure


@pytest.mark.parametrize("lists", [1, 6])
def test_rows_with_and_without_pictures(lists: int) -> None:
    words = WordList(
        "a very long name of a table of words", (("dog", RIGHT), ("an-unusually-long-word", WRONG)), "(AP 7)"
    )
    row = ShownImage(PIL.Image.new("RGB", (40, 30)), "objects: dog " * 12, (words,) * lists)
    data = word_lists_figure([row, ShownImage(None, "", (words,) * lists)], (("right", RIGHT),))
    with PIL.Image.open(io.BytesIO(data)) as image:
        assert image.format == "PNG"
        assert image.height > 300
        drawn = np.asarray(image.convert("RGB"), dtype=int)
    for each in (RIGHT, WRONG):  # the file's palette may round them
        assert abs(drawn - list(bytes.fromhex(each[1:]))).max(-1).min() < 24, each
    assert len(data) < 100_000
