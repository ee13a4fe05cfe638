"""Accuracy on pairs, by hand."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.unit.evaluation.contexts import context_of, split_of
from tests.unit.evaluation.test_own_pool import Cosine
from vse.adversaries.caption_pairs import CaptionPair, Rewrite
from vse.data.records import Records
from vse.data.sources.karpathy import Karpathy
from vse.evaluation.outcomes import pack, rows_of, unpack
from vse.evaluation.tasks.caption_pairs import CaptionPairsTask
from vse.stages.measuring.stage import intervals_of
from vse.storage.folder import Folder

PAIR = CaptionPair("1.jpg", "a", "b", "finer")


def accuracy(tmp_path, images, captions, negatives, image, categories, training=(), queries=None):
    """What the task measures of pairs whose codes are given; `training`: numbers of training images.

    `queries` receives what the task keeps of single images.
    """
    rows = [
        {"filename": f"{k}.png", "caption": f"true {n}", "negative_caption": f"false {n}", "category": category}
        for n, (k, category) in enumerate(zip(image, categories, strict=True))
    ]
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(rows))
    context = context_of(Cosine(), images, captions, list(range(len(images["code"]))))
    codes = {f"true {n}": row for n, row in enumerate(captions["code"])}
    codes |= {f"false {n}": row for n, row in enumerate(negatives["code"])}
    position = {each.id: k for k, each in enumerate(context.split.images)}
    context.training_images = frozenset(each for each, k in position.items() if k in training)
    context.runs.encode_texts = lambda texts: {"code": torch.stack([codes[text] for text in texts])}
    context.runs.encode_images = lambda ids: {"code": images["code"][[position[each] for each in ids]]}
    found = CaptionPairsTask(CaptionPairsTask.Config(files=(str(path),))).measure(context)
    if queries is not None:
        queries.extend(context.queries)
    return found


def test_accuracy_by_category_with_ties(tmp_path):
    images = {"code": torch.tensor([[1.0, 0.0], [0.0, 1.0]])}
    captions = {"code": torch.tensor([[0.9, 0.0], [0.2, 0.0], [0.0, 0.7], [0.0, 0.5]])}
    negatives = {"code": torch.tensor([[0.1, 9.0], [0.3, 0.0], [9.0, 0.7], [0.0, 0.4]])}
    found = accuracy(tmp_path, images, captions, negatives, [0, 0, 1, 1], ["swap", "swap", "add", "add"])
    assert found == {"add": 75.0, "swap": 50.0, "mean": 62.5, "found": 100.0, "training_images": 0.0}


def test_pairs_of_training_images_are_counted_and_reported(tmp_path, caplog):
    codes = {"code": torch.eye(3)}, {"code": torch.ones(4, 3)}, {"code": torch.zeros(4, 3)}
    given = (tmp_path, *codes, [0, 0, 1, 2], ["swap"] * 4)
    assert accuracy(*given)["training_images"] == 0.0
    assert caplog.messages == []
    assert accuracy(*given, training={0, 2})["training_images"] == 75.0
    (line,) = caplog.messages
    assert line.startswith("measure.caption_pairs.files=")
    assert "pairs.json: 3 of 4 measured pairs have an image that the run was trained on" in line


def test_categories_weigh_alike(tmp_path):
    images = {"code": torch.eye(1)}
    captions, negatives = {"code": torch.ones(4, 1)}, {"code": torch.tensor([[0.0], [0.0], [0.0], [2.0]])}
    found = accuracy(tmp_path, images, captions, negatives, [0, 0, 0, 0], ["a", "a", "a", "b"])
    assert found["mean"] == pytest.approx(50.0)


def test_the_mean_over_categories_has_an_interval(tmp_path):
    """Images 0 to 39 have a pair of each category, and the other 40 another pair of the first."""
    rng = np.random.default_rng(0)
    image = np.array([*range(40), *range(40), *range(40, 80)])
    right = rng.random(len(image)) < 0.7
    images = {"code": torch.ones(80, 1)}
    captions, negatives = ({"code": torch.tensor(each, dtype=torch.float32)[:, None]} for each in (right, ~right))
    queries = []
    categories = ["a"] * 40 + ["b"] * 40 + ["a"] * 40
    found = accuracy(tmp_path, images, captions, negatives, image, categories, queries=queries)
    outcomes = unpack(pack(rows_of(queries, split_of([0], 1), "test"), {}))[0]["test"]
    low, high = intervals_of(CaptionPairsTask(), found, outcomes)["mean"]

    def mean_of(drawn):
        of_first = right[:40][drawn[drawn < 40]].sum() + right[80:][drawn[drawn >= 40] - 40].sum()
        return 50 * (of_first / 80 + right[40:80][drawn[drawn < 40]].mean())

    assert found["mean"] == pytest.approx(mean_of(np.arange(80)))
    drawn = [mean_of(rng.integers(0, 80, 80)) for _ in range(4000)]
    assert (low, high) == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=1.5)


def test_finer_captions_keep_their_numbers_where_a_caption_is_left_out(tmp_path, monkeypatch):
    raw = ["...", "a dog", None, "a cat", "!"]
    images = [{"filename": "1.jpg", "split": "test", "sentences": [{"raw": each} for each in raw]}]
    (tmp_path / "dataset_made.json").write_text(json.dumps({"images": images}))
    records = Karpathy(Karpathy.Config(root=str(tmp_path))).describe()
    records.save(Folder.open(str(tmp_path / "records")))
    path = tmp_path / "finer.json"
    path.write_text(json.dumps({"1.jpg": ["finer 0", "finer 1", "finer 2", "finer 3", "finer 4"]}))
    task = CaptionPairsTask(CaptionPairsTask.Config(files=(str(path),)))
    compared = []
    monkeypatch.setattr(Rewrite, "pair", lambda rewrite, texts: compared.append(texts[rewrite.number]) or PAIR)
    for each in (records, Records.load(Folder.open(str(tmp_path / "records")))):
        compared.clear()
        task.check(each)
        assert compared == [None, "a dog", None, "a cat", None]


def test_finer_captions_against_those_of_the_data_set(tmp_path):
    images = {"code": torch.eye(2)}
    context = context_of(Cosine(), images, {"code": torch.ones(3, 2)}, [0, 0, 1])
    first, second = (image.id for image in context.split.images)
    runs: Any = context.runs
    runs.records = replace(runs.records, captions=context.split.captions)
    path = tmp_path / "finer.json"
    path.write_text(json.dumps({second: ["finer 2"], first: ["finer 0", "Text 1."], "elsewhere": ["finer 3"]}))
    scores = {"finer 2": [0.0, 0.1], "text 2": [9.0, 0.2], "finer 0": [0.5, 0.0], "text 0": [0.4, 9.0]}
    runs.encode_texts = lambda texts: {"code": torch.tensor([scores[text] for text in texts])}
    position = {image.id: k for k, image in enumerate(context.split.images)}
    runs.encode_images = lambda ids: {"code": images["code"][[position[each] for each in ids]]}
    found = CaptionPairsTask(CaptionPairsTask.Config(files=(str(path),))).measure(context)
    assert found == {"finer": 50.0, "mean": 50.0, "found": 75.0, "training_images": 0.0}
