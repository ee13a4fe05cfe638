"""Metrics by many positives against loops, values by hand, and files of ids."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.unit.evaluation.contexts import MadeUpRuns, evaluated, split_of
from tests.unit.evaluation.models import Cosine, unit
from vse.errors import InputError
from vse.evaluation.extended_positives import located, precisions, r_precision, read_positives
from vse.evaluation.protocol import Protocol
from vse.evaluation.task import Context
from vse.evaluation.tasks.extended_positives import ExtendedPositivesTask

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "eccv_cxc"


def by_loop(scores, relevant):
    """(mAP@R, R-Precision, R@1, R@5, R@10) of one query without ties."""
    ranking = [int(relevant[k]) for k in np.argsort(-scores)]
    number = sum(ranking)
    precision = sum(sum(ranking[: i + 1]) / (i + 1) for i in range(number) if ranking[i]) / number
    return [precision, sum(ranking[:number]) / number, *(float(any(ranking[:k])) for k in (1, 5, 10))]


def test_by_a_loop():
    rng = np.random.default_rng(0)
    scores, relevant = rng.normal(size=(40, 23)), rng.random((40, 23)) < rng.uniform(0.05, 0.9, size=(40, 1))
    relevant[:, 7] = True
    found = precisions(torch.tensor(scores), torch.tensor(relevant))
    expected = np.array([by_loop(*each) for each in zip(scores, relevant, strict=True)])
    assert np.allclose(torch.stack(list(found.values()), 1).numpy(), expected)


def test_by_hand():
    scores = torch.tensor([[0.9, 0.8, 0.7, 0.6]])
    found = precisions(scores, torch.tensor([[True, False, True, False]]))
    assert found["map_at_r"].item() == pytest.approx(0.5)
    assert found["r_precision"].item() == pytest.approx(0.5)
    assert found["r1"].item() == 1


def test_ties_are_expectations_over_random_orders():
    rng = np.random.default_rng(1)
    scores, relevant = rng.integers(0, 3, size=9).astype(float), np.array([1, 0, 1, 0, 1, 1, 0, 0, 0], dtype=bool)
    shuffled = [by_loop(scores + 1e-3 * rng.random(9), relevant)[1] for _ in range(4000)]
    found = r_precision(torch.tensor(scores)[None], torch.tensor(relevant)[None]).item()
    assert found == pytest.approx(np.mean(shuffled), abs=0.02)


def context_of_codes(sizes=(3, 1, 4, 2)):
    """Images with unequal numbers of captions on random codes."""
    image = np.repeat(np.arange(len(sizes)), sizes)
    generator = torch.Generator().manual_seed(3)
    images = {"v": unit(torch.randn(len(sizes), 5, generator=generator))}
    captions = {"u": unit(torch.randn(len(image), 5, generator=generator))}
    split = split_of(image, len(sizes))
    runs: Any = MadeUpRuns(Cosine(), images, captions, split)
    return Context(runs, split, Protocol(name="all"), {}, whole=True), (images["v"] @ captions["u"].T).numpy()


def test_task_in_both_directions_with_positives_outside(tmp_path):
    context, scores = context_of_codes()
    images, captions = [i.id for i in context.split.images], [c.id for c in context.split.captions]
    of_images = {images[0]: [captions[0], captions[5], "elsewhere"], images[3]: [captions[9]], "gone": [captions[1]]}
    of_captions = {captions[4]: [images[2], images[1]], captions[5]: [images[0]], captions[8]: ["elsewhere"]}
    files = [tmp_path / "i2t.json", tmp_path / "t2i.json"]
    for file, content in zip(files, (of_images, of_captions), strict=True):
        file.write_text(json.dumps(content))
    config = ExtendedPositivesTask.Config(image_to_caption=str(files[0]), caption_to_image=str(files[1]))
    result = evaluated(ExtendedPositivesTask(config), context)
    rows = {"i2t": [(0, [0, 5]), (3, [9])], "t2i": [(4, [1, 2]), (5, [0])]}
    for way, matrix in (("i2t", scores), ("t2i", scores.T)):
        expected = [by_loop(matrix[row], np.isin(np.arange(matrix.shape[1]), each)) for row, each in rows[way]]
        names = ("map_at_r", "r_precision", "r1", "r5", "r10")
        found = [result.values[f"extended_{way}/{name}"] for name in names]
        assert found == pytest.approx(100 * np.mean(expected, axis=0))
        assert result.values[f"extended_{way}/queries"] == 2
        assert result.values[f"extended_{way}/positives"] == 1.5
    for each in result.queries:
        assert 100 * each.hits.sum() / each.queries.sum() == pytest.approx(result.values[each.metric])


def test_ids_of_the_other_direction_are_one_line(tmp_path):
    context, _ = context_of_codes()
    file = tmp_path / "swapped.json"
    file.write_text(json.dumps({"caption 0": [1]}))
    task = ExtendedPositivesTask(ExtendedPositivesTask.Config(image_to_caption=str(file)))
    records: Any = type("Data", (), {"images": context.split.images, "captions": context.split.captions})()
    with pytest.raises(InputError, match=r"image_to_caption=.*none of its 1 queries .* the other direction"):
        task.check(records)


@pytest.mark.parametrize("content", ["[]", "{}", '{"1": []}', '{"1": 2}', '{"1": [true]}'])
def test_files_of_another_form(tmp_path, content):
    file = tmp_path / "wrong.json"
    file.write_text(content)
    with pytest.raises(InputError, match=r"wrong\.json: .*expected a"):
        read_positives(str(file))


@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data/eccv_cxc")
@pytest.mark.parametrize(
    ("name", "queries", "positives", "outside"), [("image", 1261, 22550, 2), ("caption", 1332, 11279, 0)]
)
def test_published_counts_of_eccv_caption(name, queries, positives, outside):
    """Two positive captions are none of the 25,000 that the package's file of COCO's own pairs lists."""
    other = "caption" if name == "image" else "image"
    given = read_positives(str(DATA / f"eccv_{name}_to_{other}.json"))
    all_queries = list(read_positives(str(DATA / f"original_{name}_to_{other}.json")))
    candidates = list(read_positives(str(DATA / f"original_{other}_to_{name}.json")))
    rows, relevant = located(given, all_queries, candidates)
    assert len(rows) == len(given) == queries
    assert sum(map(len, given.values())) == positives
    assert sum(map(len, relevant)) == positives - outside
