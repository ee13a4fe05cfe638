"""Recall of phrases by enumeration, on scenes and on regions written by hand."""

import io
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from vse.data.images import open_image
from vse.data.records import Records
from vse.data.regions import sides_of, split_uri
from vse.data.sources.phrase_regions import PhraseRegions
from vse.data.sources.scenes import Scenes
from vse.errors import InputError
from vse.evaluation.localisation import Photograph, localised, photographs_of
from vse.evaluation.protocol import WHOLE_SPLIT
from vse.evaluation.task import Context, Subject, UnitValues, measured
from vse.evaluation.tasks.phrase_localisation import PhraseLocalisationTask


def _records(**config: Any) -> Records:
    scenes = Scenes.Config(num_train=2, num_val=1, num_test=5, num_shifted=0)
    return PhraseRegions(PhraseRegions.Config(of=scenes, number=25, **config)).describe()


def _iou(a: Any, b: Any) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


class _Model:
    """Scores by a table of random numbers."""

    def score_parts(self, images: Any, captions: Any) -> dict[str, torch.Tensor]:
        return {"score": images["row"] @ captions["row"].T}

    def combine(self, parts: Any, **settings: float) -> torch.Tensor:
        return parts["score"]


class _Codes:
    def __init__(self, images: int, captions: int) -> None:
        draw = torch.Generator().manual_seed(0)
        self.images = {"row": torch.randn(images, 5, generator=draw)}
        self.captions = {"row": torch.randn(captions, 5, generator=draw)}


class _Runs:
    model = _Model()

    def __init__(self, records: Records) -> None:
        self.records = records

    def encode(self, part: Any) -> Any:
        return _Codes(len(part.images), len(part.captions))

    def image(self, id_: str) -> PIL.Image.Image:
        return open_image(next(image.uri for image in self.records.images if image.id == id_))


def _context(records: Records, split: str = "test") -> Context:
    runs: Any = _Runs(records)
    return Context(runs, records.split(split), WHOLE_SPLIT, {}, True)


@pytest.mark.seconds
def test_recall_by_enumeration() -> None:
    records = _records()
    context, task = _context(records), PhraseLocalisationTask()
    values, pictures, outcomes = measured(task, context)
    hits = dict.fromkeys((1, 5, 10), 0)
    possible = whole = centre = phrases = 0
    chance = 0.0
    split, codes = context.split, context.codes
    for photograph in {split_uri(image.id)[0] for image in split.images}:
        boxes = records.boxes[photograph]
        for caption in {box.caption for box in boxes}:
            mine = [(b.left, b.top, b.right, b.bottom) for b in boxes if b.caption == caption]
            box = [min(b[0] for b in mine), min(b[1] for b in mine), max(b[2] for b in mine), max(b[3] for b in mine)]
            row = codes.captions["row"][[c.id for c in split.captions].index(caption)]
            scored = [
                (float(codes.images["row"][k] @ row), _iou(box, sides) >= 0.5)
                for k, image in enumerate(split.images)
                if split_uri(image.id)[0] == photograph and (sides := sides_of(image.id))
            ]
            assert len(scored) == 25
            ranked = [right for _, right in sorted(scored, key=lambda pair: -pair[0])]
            for k in hits:
                hits[k] += any(ranked[:k])
            possible, phrases, chance = possible + any(ranked), phrases + 1, chance + sum(ranked) / 25
            whole += _iou(box, (0, 0, 1, 1)) >= 0.5
            centre += _iou(box, (0.1, 0.1, 0.9, 0.9)) >= 0.5
    expected = {f"r{k}": count for k, count in hits.items()}
    expected |= {"upper_bound": possible, "chance": chance, "whole": whole, "centre": centre}
    assert phrases > 10
    assert values == pytest.approx({f"phrase_localisation/{k}": 100 * v / phrases for k, v in expected.items()})
    assert 0 < hits[1] < hits[5] < hits[10] <= possible
    for each in outcomes:  # the interval is of the same number
        assert isinstance(each, UnitValues)
        assert 100 * each.hits.sum() / each.queries.sum() == pytest.approx(values[each.metric])
        assert len(each.units) == 5
    (png,) = pictures.values()
    assert PIL.Image.open(io.BytesIO(png)).size[0] > 600
    assert len(png) < 300_000


def test_a_phrase_without_a_right_region_is_missed() -> None:
    sides = np.array([[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    boxes = np.array([[0.0, 0.0, 0.1, 0.1], [0.0, 0.0, 1.0, 0.9], [0.0, 0.0, 0.45, 1.0]])
    photograph = Photograph("a", np.arange(3), sides, np.arange(3), boxes)
    scores = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 2.0], [0.0, 0.0, 0.0]])
    met = localised(photograph, scores, (1, 2))
    np.testing.assert_allclose(met.hits[1], [0, 0.5, 1 / 3])  # ties at random
    np.testing.assert_allclose(met.hits[2], [0, 1, 2 / 3])
    np.testing.assert_array_equal(met.possible, [False, True, True])
    np.testing.assert_allclose(met.chance, [0, 1 / 3, 1 / 3])
    np.testing.assert_array_equal(met.whole, [False, True, False])
    np.testing.assert_array_equal(met.centre, [False, True, False])


def test_photographs_hold_their_own_regions_and_phrases() -> None:
    records = _records()
    split = records.split("test")
    found = photographs_of(split, records.boxes)
    assert [each.id for each in found] == [image.id for image in split.images if image.id in records.boxes]
    assert sorted(np.concatenate([each.captions for each in found])) == list(range(len(split.captions)))
    for each in found:
        assert all(split_uri(split.images[k].id)[0] == each.id for k in each.regions)


@pytest.mark.seconds
def test_a_missing_photograph_costs_no_numbers(caplog: pytest.LogCaptureFixture) -> None:
    context, task = _context(_records()), PhraseLocalisationTask()
    expected = measured(task, context)[0]

    def image(id_: str) -> PIL.Image.Image:
        raise InputError(f"image {id_!r}: no such file")

    context.runs.image = image
    assert measured(task, context)[:2] == (expected, {})
    assert "phrase_localisation: no picture of phrases: image" in caplog.text


def test_a_split_without_all_proposals_is_refused() -> None:
    records = _records()

    def missing(*splits: str) -> str:
        subject = Subject(families=(), source=PhraseRegions, records=records, own_data=True, splits=splits)
        return PhraseLocalisationTask().missing(subject)

    assert missing("test") == ""
    assert missing("test", "train").startswith("all proposals of split train, which has training regions only; ")
    assert "phrases are localised in test, or in a split that" in missing("train")
    with pytest.raises(InputError, match=r"data\.complete: no split has all proposals"):
        PhraseLocalisationTask().check(_records(complete=()))
