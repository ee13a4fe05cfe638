import itertools

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse.data.images import open_image
from vse.data.phrases import Phrase, background, jittered, phrases_of, positives, upper_bound
from vse.data.records import Box
from vse.data.regions import around, cleaned, cropped, geometry, iou, region_uri, sides_of, split_uri

GRID = 40


def _pixels(box: np.ndarray) -> set[tuple[int, int]]:
    left, top, right, bottom = (round(side * GRID) for side in box)
    return set(itertools.product(range(left, right), range(top, bottom)))


def _boxes(seed: int, number: int) -> np.ndarray:
    corners = np.random.default_rng(seed).integers(0, GRID + 1, (number, 2, 2)) / GRID
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    one, other = _pixels(a), _pixels(b)
    return len(one & other) / len(one | other) if one | other else 0.0


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 5), (3, 0)])
def test_iou_counts_pixels(rows: int, columns: int) -> None:
    boxes, others = _boxes(1, rows), _boxes(2, columns)
    expected = [[_overlap(a, b) for b in others] for a in boxes]
    np.testing.assert_allclose(iou(boxes, others), np.reshape(expected, (rows, columns)), atol=1e-12)


def test_iou_of_a_box_with_itself_and_of_empty_boxes() -> None:
    box, empty = np.array([[0.1, 0.2, 0.3, 0.4]]), np.array([[0.5, 0.5, 0.5, 0.5]])
    assert iou(box, box)[0, 0] == pytest.approx(1)
    assert iou(box, empty)[0, 0] == iou(empty, empty)[0, 0] == 0


def test_the_box_around_boxes_holds_all_of_their_pixels() -> None:
    boxes = _boxes(3, 6)
    whole = _pixels(around(boxes))
    assert all(_pixels(box) <= whole for box in boxes)
    sides = list(zip(*whole, strict=True))
    points = list(zip(*set().union(*map(_pixels, boxes)), strict=True))
    assert [min(sides[0]), max(sides[1])] == [min(points[0]), max(points[1])]


@given(st.lists(st.integers(0, 10**5), min_size=4, max_size=4, unique=True))
def test_an_address_keeps_its_region(numbers: list[int]) -> None:
    a, b, c, d = (number / 10**5 for number in numbers)
    sides = (min(a, b), min(c, d), max(a, b), max(c, d))
    uri = region_uri("my photo#1.jpg", sides)
    assert split_uri(uri)[0] == "my photo#1.jpg"
    assert sides_of(uri) == sides


def test_addresses_of_whole_images() -> None:
    for uri in ("a.jpg", "feats.npy#17", "a.jpg#xywh=10,20,30,40"):
        assert split_uri(uri) == (uri, "")
        assert sides_of(uri) is None


def test_a_region_is_cut_out_of_its_picture() -> None:
    uri = "scene:seed=0,split=train,index=0,drawing=plain,size=112"
    whole = np.asarray(open_image(uri))
    region = np.asarray(open_image(region_uri(uri, (0.25, 0.5, 0.75, 1.0))))
    np.testing.assert_array_equal(region, whole[56:, 28:84])


@pytest.mark.parametrize(
    ("sides", "size"),
    [((0.0, 0.0, 1.0, 1.0), (7, 5)), ((0.999, 0.999, 1.0, 1.0), (1, 1)), ((0.1, 0.3, 0.2, 0.5), (2, 2))],
)
def test_a_region_has_the_pixels_that_it_touches(sides: tuple[float, ...], size: tuple[int, int]) -> None:
    left, top, right, bottom = sides
    assert cropped(PIL.Image.new("RGB", (7, 5)), (left, top, right, bottom)).size == size


def test_cleaned_boxes_are_distinct_and_inside() -> None:
    boxes = [[0, 0, 2, 1], [0.5, 0.5, 0.5, 0.9], [0, 0, 1, 1.0000001], [-1, 0.2, 0.4, 0.3], [0.9, 0.1, 0.2, 0.3]]
    np.testing.assert_array_equal(cleaned(np.array(boxes)), [[0, 0, 1, 1], [0, 0.2, 0.4, 0.3]])
    assert cleaned(np.empty((0, 4))).shape == (0, 4)


def test_geometry() -> None:
    np.testing.assert_allclose(geometry(np.array([[0.1, 0.2, 0.5, 0.7]])), [[0.1, 0.2, 0.5, 0.7, 0.4 * 0.5]])


def test_phrases_are_boxes_of_one_caption_and_label() -> None:
    boxes = (
        Box("two men", 0, 0, 0.2, 1, "c0", ("7", "people")),
        Box("a man", 0, 0, 0.2, 1, "c1", ("7", "people")),
        Box("two men", 0.5, 0.1, 0.7, 1, "c0", ("7", "people")),
        Box("ball", 0, 0, 0.1, 0.1, attributes=("red", "small")),
    )
    phrases = phrases_of(boxes)
    assert [(p.text, p.caption, len(p.boxes)) for p in phrases] == [
        ("two men", "c0", 2),
        ("a man", "c1", 1),
        ("red small ball", "", 1),
    ]
    np.testing.assert_array_equal(phrases[0].box, [0, 0, 0.7, 1])


def test_positives_and_background_by_enumeration() -> None:
    proposals, phrases = cleaned(_boxes(4, 80)), [Phrase("a", _boxes(5, 2)), Phrase("b", _boxes(6, 1))]
    for phrase in phrases:
        overlaps = {tuple(box): _overlap(phrase.box, box) for box in proposals}
        expected = sorted((box for box in overlaps if overlaps[box] >= 0.3), key=lambda box: -overlaps[box])
        every = positives(phrase, proposals, 0.3, 0)
        assert sorted(map(tuple, every)) == sorted(expected)
        assert [overlaps[tuple(box)] for box in every] == [overlaps[box] for box in expected]
        np.testing.assert_array_equal(positives(phrase, proposals, 0.3, 1), every[:1])
    others = background(phrases, proposals, 0.2)
    expected = [box for box in proposals if all(_overlap(phrase.box, box) < 0.2 for phrase in phrases)]
    np.testing.assert_array_equal(others, expected)
    assert len(others)


def test_upper_bound_by_enumeration() -> None:
    phrases = {name: [Phrase("x", _boxes(seed, 1)) for seed in range(start, start + 3 + k)]
               for k, (name, start) in enumerate([("a", 10), ("b", 20), ("c", 30)])}  # fmt: skip
    proposals = {"a": cleaned(_boxes(7, 60)), "b": cleaned(_boxes(8, 9))}
    for number in (1, 10, 100):
        hits = sum(
            any(_overlap(phrase.box, box) >= 0.5 for box in proposals.get(name, np.empty((0, 4)))[:number])
            for name, each in phrases.items()
            for phrase in each
        )
        assert upper_bound(phrases, proposals, number) == (hits, 12)
    assert upper_bound(phrases, proposals, 100)[0] > 0


def test_jittered_boxes_hold_the_annotated_ones() -> None:
    boxes = cleaned(_boxes(9, 3))
    proposals = jittered(boxes, 50, 1, "image")
    np.testing.assert_array_equal(proposals[: len(boxes)], boxes)
    assert len(proposals) == 50
    np.testing.assert_array_equal(proposals, jittered(boxes, 50, 1, "image"))
    assert not np.array_equal(proposals, jittered(boxes, 50, 1, "other"))
    near = iou(boxes, proposals).max(axis=0)
    assert (near > 0.4).sum() > 15
    assert (near < 0.3).sum() > 5
