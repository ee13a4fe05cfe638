"""What users give in place of sentences and pictures is read as they meant it, or refused in one line."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from vse.data.images import UnreadableImage
from vse.errors import InputError
from vse.inference.items import caption_of, captions_of, listed, source_of


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 3), (2, 8, 8, 3)])
def test_an_array_of_pixels_is_no_list_of_pictures(shape: tuple[int, ...]) -> None:
    told = r"^pictures: expected a list of pictures, got one ndarray; write \[PIL\.Image\.fromarray\(\.\.\.\)\]$"
    with pytest.raises(InputError, match=told):
        listed(np.zeros(shape, np.uint8), "pictures")


@pytest.mark.parametrize("given", [None, 3, b"a dog", pd.DataFrame({"text": ["a dog"]})])
def test_what_is_no_list_of_sentences_is_one_line(given: Any) -> None:
    told = rf"^texts: expected a list of sentences, got one {type(given).__name__}; write \[\.\.\.\]$"
    with pytest.raises(InputError, match=told):
        listed(given, "texts")


@pytest.mark.parametrize("text", [None, float("nan"), 3, b"x", ["a"]])
def test_what_is_no_sentence_is_named_with_its_number(text: Any) -> None:
    kind = type(text).__name__
    with pytest.raises(InputError, match=rf"^caption 1: expected a sentence, got {kind}$"):
        captions_of(["a dog", text])
    with pytest.raises(InputError, match=rf"^phrase: expected a sentence, got {kind}$"):
        caption_of(text, "phrase")


@pytest.mark.parametrize(
    ("picture", "told"),
    [
        (np.zeros((8, 8, 3), np.uint8), "ndarray; convert it with PIL.Image.fromarray"),
        (torch.zeros(3, 8, 8), "Tensor; convert it with PIL.Image.fromarray"),
        (io.BytesIO(b"x"), "BytesIO; open it with PIL.Image.open"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_picture_says_what_to_do(picture: Any, told: str) -> None:
    with pytest.raises(UnreadableImage) as error:
        source_of(picture)
    assert error.value.reason == f"expected a path, bytes of a file or an image of Pillow, got {told}"


def test_pictures_are_paths_bytes_and_images() -> None:
    image = Image.new("RGB", (2, 2))
    assert [source_of(each) for each in ("a.png", Path("a.png"), b"x", image)] == ["a.png", "a.png", b"x", image]
