"""Shapes that signatures state are checked while tests run, wherever the package states any."""

import os

import pytest
import torch

from tests.conftest import SHAPED
from vse.models.pooling import pool_regions
from vse.objectives.hinge import same_meaning

unchecked = pytest.mark.skipif(bool(os.environ.get("JAXTYPING_DISABLE")), reason="JAXTYPING_DISABLE is set")


@unchecked
def test_sizes_that_do_not_agree_are_refused() -> None:
    rows, columns = torch.arange(3), torch.arange(4)
    assert same_meaning(rows, rows, columns, columns).shape == (3, 4)
    with pytest.raises(Exception, match="other_texts"):
        same_meaning(rows, rows, columns, rows)


@unchecked
def test_other_kinds_of_numbers_are_refused() -> None:
    with pytest.raises(Exception, match="images"):
        same_meaning(torch.rand(3), torch.arange(3), torch.arange(3), torch.arange(3))


def test_the_modules_that_state_shapes_are_known() -> None:
    assert {same_meaning.__module__, pool_regions.__module__} <= set(SHAPED)
    assert {"vse.text.components", "vse.config"}.isdisjoint(SHAPED)
    assert not any(name.endswith("__init__") for name in SHAPED)  # its functions would go unchecked
