"""The figure of images with lists of words."""

import io

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
        colours = image.convert("RGB").getcolors(1 << 20)
    assert colours is not None
    assert {tuple(bytes.fromhex(each[1:])) for each in (RIGHT, WRONG)} <= {colour for _, colour in colours}
    assert len(data) < 100_000
