"""Scores of two images and two captions: by loops, by chance, and through the task."""

import itertools
import json

import pytest
import torch

from tests.unit.evaluation.contexts import context_of, evaluated
from tests.unit.evaluation.test_own_pool import Cosine
from vse.adversaries.caption_pairs import read_pairs, read_twins
from vse.errors import InputError
from vse.evaluation.tasks.winoground import WinogroundTask, right_examples


def test_chance_levels_over_all_orders():
    scores = torch.tensor(list(itertools.permutations([1.0, 2.0, 3.0, 4.0]))).view(-1, 2, 2)
    found = {name: each.sum().item() for name, each in right_examples(scores).items()}
    assert found == {"text": 6, "image": 6, "group": 4}


def test_ties_are_wrong():
    found = right_examples(torch.tensor([[[1.0, 1.0], [0.0, 2.0]]]))
    assert {name: each.item() for name, each in found.items()} == {"text": False, "image": True, "group": False}


def test_task_by_a_loop(tmp_path, caplog):
    generator = torch.Generator().manual_seed(0)
    images, captions = (torch.randn(number, 3, generator=generator) for number in (7, 40))
    drawn = torch.rand(20, 7, generator=generator).argsort(1)[:, :2].tolist()
    rows = [
        {
            "id": n,
            "image_0": f"{i}.png",
            "image_1": f"{j}.png",
            "caption_0": f"t {2 * n}",
            "caption_1": f"t {2 * n + 1}",
        }
        for n, (i, j) in enumerate(drawn)
    ]
    rows.append({**rows[0], "image_1": "nowhere.png"})
    file = tmp_path / "examples.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    context = context_of(Cosine(), {"code": images}, {"code": captions[:7]}, list(range(7)))
    position = {each.id: k for k, each in enumerate(context.split.images)}
    context.runs.encode_texts = lambda texts: {"code": captions[[int(text.split()[1]) for text in texts]]}
    context.runs.encode_images = lambda ids: {"code": images[[position[each] for each in ids]]}
    result = evaluated(WinogroundTask(WinogroundTask.Config(files=(str(file),))), context)
    text = image = group = 0
    for n, (i, j) in enumerate(drawn):
        s = {(c, k): float(captions[2 * n + c] @ images[row]) for c in (0, 1) for k, row in enumerate((i, j))}
        one = s[0, 0] > s[1, 0] and s[1, 1] > s[0, 1]
        other = s[0, 0] > s[0, 1] and s[1, 1] > s[1, 0]
        text, image, group = text + one, image + other, group + (one and other)
    found = [result.values[f"winoground/{name}"] for name in ("text", "image", "group", "found")]
    assert found == pytest.approx([5 * text, 5 * image, 5 * group, 100 * 20 / 21])
    assert result.values["winoground/training_images"] == 0.0
    context.training_images = frozenset({context.split.images[drawn[0][0]].id})
    seen = sum(drawn[0][0] in pair for pair in drawn)
    again = evaluated(WinogroundTask(WinogroundTask.Config(files=(str(file),))), context)
    assert again.values["winoground/training_images"] == 100 * seen / 20
    assert f"{seen} of 20 measured examples have an image that the run was trained on" in caplog.text
    for each in result.queries:
        assert 100 * each.hits.sum() / each.queries.sum() == pytest.approx(result.values[each.metric])


def test_a_missing_caption_is_one_line(tmp_path):
    file = tmp_path / "examples.json"
    file.write_text(json.dumps([{"image_0": "a", "image_1": "b", "caption_0": "c"}]))
    with pytest.raises(InputError, match=r"examples\.json, entry 0: lacks caption_1; its fields are image_0, "):
        read_twins(str(file))


def test_valse_is_read_as_published(tmp_path):
    file = tmp_path / "plurals.json"
    row = {
        "image_file": "7.jpg",
        "caption": "one dog",
        "foil": "two dogs",
        "mturk": {"foil": 0, "caption": 2, "other": 1},
    }
    file.write_text(json.dumps({"a": row, "b": {**row, "mturk": {"caption": 1}}}))
    (pair,) = read_pairs(str(file))
    assert (pair.filename, pair.caption, pair.negative, pair.category) == ("7.jpg", "one dog", "two dogs", "plurals")
