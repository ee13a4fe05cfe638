"""What users give in place of sentences and pictures is read as they meant it, or refused in one line."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from vse.errors import InputError
from vse.inference.items import listed


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
