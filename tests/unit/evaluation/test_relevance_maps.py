"""Maps against boxes: fine rasters and loops as oracles, ties, windows, and invariance."""

from dataclasses import astuple

import numpy as np
import pytest

from vse.errors import Diverged
from vse.evaluation.relevance_maps import WHOLE, Grid, Rectangle, ground, grounded, upsampled

FINE = 840  # divisible by the rows and columns below


def some_boxes(rng, number):
    """Boxes whose sides are multiples of 1 / FINE, some of them overlapping, some beyond a window."""
    boxes = []
    for _ in range(number):
        x, y = np.sort(rng.choice(FINE + 1, 2, replace=False)), np.sort(rng.choice(FINE + 1, 2, replace=False))
        boxes.append(Rectangle(x[0] / FINE, y[0] / FINE, x[1] / FINE, y[1] / FINE))
    return boxes


def raster(boxes):
    """Which of FINE x FINE pixels are in a box."""
    inside = np.zeros((FINE, FINE), dtype=bool)
    for left, top, right, bottom in boxes:
        inside[round(top * FINE) : round(bottom * FINE), round(left * FINE) : round(right * FINE)] = True
    return inside


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (1, 1), (5, 3)])
@pytest.mark.parametrize("window", [WHOLE, Rectangle(0.25, 0.125, 0.75, 0.875)])
def test_coverage_is_that_of_a_fine_raster(seed, rows, columns, window):
    rng = np.random.default_rng(seed)
    boxes, grid = some_boxes(rng, int(rng.integers(1, 5))), Grid(rows, columns, window)
    inside, (across, down) = raster(boxes), grid.edges
    scale = 8  # cells of the window begin between pixels
    fine = inside.repeat(scale, 0).repeat(scale, 1)
    expected = np.empty((rows, columns))
    for r in range(rows):
        for c in range(columns):
            y, x = (
                np.rint(down[r : r + 2] * FINE * scale).astype(int),
                np.rint(across[c : c + 2] * FINE * scale).astype(int),
            )
            expected[r, c] = fine[y[0] : y[1], x[0] : x[1]].mean()
    np.testing.assert_allclose(grid.coverage(boxes), expected, atol=1e-9)


def test_the_area_is_what_a_uniform_point_meets():
    rng = np.random.default_rng(3)
    grid, boxes = Grid(7, 7, Rectangle(0.1, 0.0, 0.9, 1.0)), some_boxes(rng, 3)
    x, y = rng.uniform(0.1, 0.9, 200_000), rng.uniform(0, 1, 200_000)
    hit = np.zeros(len(x), dtype=bool)
    for left, top, right, bottom in boxes:
        hit |= (left <= x) & (x < right) & (top <= y) & (y < bottom)
    result = ground(rng.random((7, 7)), boxes, grid)
    assert result.area == pytest.approx(hit.mean(), abs=5e-3)
    assert ground(np.full((7, 7), 0.3), boxes, grid).mass == pytest.approx(result.area)


@pytest.mark.parametrize("seed", range(8))
def test_a_loop_over_cells(seed):
    rng = np.random.default_rng(seed)
    grid, boxes = Grid(5, 4, Rectangle(0.0, 0.2, 1.0, 0.8)), some_boxes(rng, 2)
    values = rng.integers(0, 4, (5, 4)).astype(float)  # many ties
    values[0, 0] = 3
    best, mass, any_inside = [], 0.0, False
    for r in range(5):
        for c in range(4):
            x, y = (c + 0.5) / 4, 0.2 + 0.6 * (r + 0.5) / 5
            inside = any(b.left <= x < b.right and b.top <= y < b.bottom for b in boxes)
            any_inside |= inside
            if values[r, c] == values.max():
                best.append(inside)
            mass += values[r, c] / values.sum() * grid.coverage(boxes)[r, c]
    result = ground(values, boxes, grid)
    assert result.pointing == pytest.approx(np.mean(best))
    assert result.mass == pytest.approx(mass)
    assert result.reachable == any_inside


def test_sides_belong_to_the_left_and_the_top():
    grid, values = Grid(1, 1), np.ones((1, 1))
    assert ground(values, [Rectangle(0.5, 0.5, 1, 1)], grid).centre == 1
    assert ground(values, [Rectangle(0, 0, 0.5, 1)], grid).centre == 0
    assert ground(values, [Rectangle(0.5, 0.5, 1, 1)], grid).pointing == 1
    assert ground(values, [Rectangle(0, 0, 1, 0.5)], grid).pointing == 0


def test_boxes_that_overlap_count_once_and_scale_does_not_count():
    rng = np.random.default_rng(5)
    grid, values, box = Grid(7, 7), rng.random((7, 7)), Rectangle(0.1, 0.2, 0.55, 0.9)
    once = ground(values, [box], grid)
    for same in (ground(values, [box, box, Rectangle(0.2, 0.3, 0.4, 0.5)], grid), ground(values * 2, [box], grid)):
        assert astuple(same) == pytest.approx(astuple(once))
    assert astuple(ground(values, [WHOLE], grid)) == pytest.approx((1.0,) * 5)


def test_a_nan_is_refused():
    values = np.ones((7, 7))
    values[3, 4] = np.nan
    with pytest.raises(Diverged, match="a relevance map has a NaN, so the training has diverged"):
        ground(values, [WHOLE], Grid(7, 7))


def test_mirrored_maps_and_boxes_agree():
    rng = np.random.default_rng(6)
    grid, values, box = Grid(7, 7), rng.random((7, 7)), Rectangle(0.13, 0.2, 0.55, 0.9)
    mirrored = ground(values[:, ::-1], [Rectangle(1 - box.right, box.top, 1 - box.left, box.bottom)], grid)
    result = ground(values, [box], grid)
    assert (mirrored.pointing, mirrored.reachable) == (result.pointing, result.reachable)
    assert mirrored.mass == pytest.approx(result.mass)


def test_a_map_at_the_size_of_its_picture():
    values = np.zeros((7, 7))
    values[2, 5] = 1.0
    large = upsampled(values, Grid(7, 7), (140, 70))
    assert large.shape == (70, 140)
    assert np.unravel_index(large.argmax(), large.shape)[0] in (24, 25)  # the centre of the third row of ten pixels
    assert np.unravel_index(large.argmax(), large.shape)[1] in (109, 110)
    assert 0 < grounded(large).sum() < large.size / 7
    assert not grounded(np.zeros((3, 3))).any()
    shifted = upsampled(np.ones((2, 2)), Grid(2, 2, Rectangle(0.25, 0, 0.75, 1)), (40, 20))
    assert not shifted[:, :10].any()
    assert not shifted[:, 30:].any()
    np.testing.assert_allclose(shifted[:, 10:30], 1)


def test_only_square_maps_have_a_grid_of_their_own():
    assert Grid.square(49) == Grid(7, 7)
    with pytest.raises(ValueError, match="48"):
        Grid.square(48)
