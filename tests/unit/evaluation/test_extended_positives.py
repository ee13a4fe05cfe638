"""Metrics by many positives against loops, values by hand, and files of ids."""

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.levels import slow_but
from tests.shared import SHARED
from tests.unit.evaluation.contexts import MadeUpRuns, evaluated, split_of
from tests.unit.evaluation.models import Cosine, unit
from vse.data.records import Caption, Image, Split
from vse.errors import InputError
from vse.evaluation.extended_positives import located, precisions, r_precision, read_positives
from vse.evaluation.protocol import PUBLISHED, Protocol
from vse.evaluation.task import Context
from vse.evaluation.tasks.extended_positives import ExtendedPositivesTask
from vse.evaluation.tasks.retrieval import RetrievalTask

DATA = SHARED / "data" / "eccv_cxc" if SHARED else None
SIDES = (("image", "caption"), ("caption", "image"))
needs_files = pytest.mark.skipif(DATA is None, reason="needs data/eccv_cxc of the shared folder")


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


@needs_files
@pytest.mark.parametrize(
    ("name", "queries", "positives", "outside"), [("image", 1261, 22550, 2), ("caption", 1332, 11279, 0)]
)
def test_published_counts_of_eccv_caption(name, queries, positives, outside):
    """Two positive captions are none of the 25,000 that the package's file of COCO's own pairs lists."""
    other = "caption" if name == "image" else "image"
    given = read_positives(f"{DATA}/eccv_{name}_to_{other}.json")
    all_queries = list(read_positives(f"{DATA}/original_{name}_to_{other}.json"))
    candidates = list(read_positives(f"{DATA}/original_{other}_to_{name}.json"))
    rows, relevant = located(given, all_queries, candidates)
    assert len(rows) == len(given) == queries
    assert sum(map(len, given.values())) == positives
    assert sum(map(len, relevant)) == positives - outside


# Metrics().compute_all_metrics of eccv_caption 0.1.0 from PyPI, with its own files of positives and numpy 2.4.6, on the
# rankings by the scores of `published_runs`; R-Precision and mAP@R are offered for ECCV Caption alone.
PACKAGE = {
    "eccv": {
        "i2t/map_at_r": 1.6367646113141985,
        "i2t/r_precision": 4.133331326536075,
        "i2t/r1": 10.467882632831087,
        "t2i/map_at_r": 1.4548212077691042,
        "t2i/r_precision": 2.6890681976466296,
        "t2i/r1": 6.756756756756757,
    },
    "cxc": {
        "i2t/r1": 10.96,
        "i2t/r5": 27.66,
        "i2t/r10": 37.7,
        "t2i/r1": 6.210956271023546,
        "t2i/r5": 16.218164344065353,
        "t2i/r10": 22.485183405414064,
    },
    "coco_5k": {
        "i2t/r1": 10.98,
        "i2t/r5": 27.62,
        "i2t/r10": 37.68,
        "t2i/r1": 6.204,
        "t2i/r5": 16.188,
        "t2i/r10": 22.412,
    },
    "coco_1k_folds": {
        "i2t/r1": 24.44,
        "i2t/r5": 51.64,
        "i2t/r10": 63.92,
        "t2i/r1": 14.348,
        "t2i/r5": 32.464,
        "t2i/r10": 43.232,
    },
}


@cache
def published_runs():
    """COCO's 5,000 test images and 25,000 captions, each caption's code that of its image with noise."""
    captions_of = read_positives(f"{DATA}/original_image_to_caption.json")
    owner = {caption: image for image, captions in captions_of.items() for caption in captions}
    captions = [str(each) for each in np.load(f"{DATA}/coco_test_ids.npy")]
    images = list(dict.fromkeys(owner[each] for each in captions))  # in the order of Karpathy's split
    place = {each: k for k, each in enumerate(images)}
    image = np.array([place[owner[each]] for each in captions])
    rng = np.random.default_rng(20221)
    of_images = rng.standard_normal((len(images), 16))
    of_captions = of_images[image] + 1.5 * rng.standard_normal((len(captions), 16))
    split = Split(
        "test",
        tuple(Image(each, f"{each}.jpg", "test") for each in images),
        tuple(Caption(each, owner[each], "") for each in captions),
        image,
    )
    codes = {"v": torch.from_numpy(of_images)}, {"u": torch.from_numpy(of_captions)}
    return MadeUpRuns(Cosine(), *codes, split)


def same_as_package(name, values):
    """Scores that differ by less than 1e-6 tie in our numbers and not in the package's."""
    assert {key: values[key] for key in PACKAGE[name]} == pytest.approx(PACKAGE[name], abs=1e-3)


@needs_files
@pytest.mark.seconds
@pytest.mark.parametrize("name", slow_but(["eccv", "cxc"], "eccv"))
def test_positives_give_the_numbers_of_the_published_package(name):
    files = {f"{one}_to_{other}": f"{DATA}/{name}_{one}_to_{other}.json" for one, other in SIDES}
    runs: Any = published_runs()
    context = Context(runs, runs.split, Protocol(name="all"), {}, whole=True)
    values = evaluated(ExtendedPositivesTask(ExtendedPositivesTask.Config(**files)), context).values
    same_as_package(name, {key.removeprefix("extended_"): value for key, value in values.items()})


@needs_files
@pytest.mark.seconds
@pytest.mark.parametrize("name", ["coco_5k", "coco_1k_folds"])
def test_own_captions_give_the_numbers_of_the_published_package(name):
    runs: Any = published_runs()
    same_as_package(name, evaluated(RetrievalTask(), Context(runs, runs.split, PUBLISHED[name], {}, whole=True)).values)
