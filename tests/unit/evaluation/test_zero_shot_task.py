"""Zero-shot classification by loops, through the task, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.unit.evaluation.contexts import context_of, evaluated
from tests.unit.evaluation.test_own_pool import Cosine
from vse.data.records import Box, Records
from vse.errors import Diverged, InputError
from vse.evaluation.protocol import Protocol
from vse.evaluation.tasks.zero_shot import ZeroShotTask, class_ranks

CLASSES = [f"class {k}" for k in range(8)]
TEMPLATES = ("a {}.", "the {} here")


def task(**fields: Any) -> ZeroShotTask:
    return ZeroShotTask(ZeroShotTask.Config(**fields))


def context(images: torch.Tensor, texts: dict[str, torch.Tensor], folds: int = 1) -> Any:
    protocol = Protocol(name="folds", folds=folds)
    made: Any = context_of(Cosine(), {"code": images}, {"code": images}, list(range(len(images))), protocol)
    made.runs.encode_texts = lambda given: {"code": torch.stack([texts[text] for text in given])}
    return made


def test_ranks_by_a_loop_with_several_classes_and_ties() -> None:
    generator = torch.Generator().manual_seed(2)
    scores = torch.randint(0, 5, (30, 8), generator=generator).float()
    labels = torch.rand(30, 8, generator=generator) < 0.3
    ranks = class_ranks(scores, labels)
    for i, c in labels.nonzero().tolist():
        others = [float(scores[i, k]) for k in range(8) if not labels[i, k]]
        assert ranks[i, c] == 1 + sum(other >= float(scores[i, c]) for other in others)
    for bad in ("nan", "inf"):
        with pytest.raises(Diverged):
            class_ranks(scores.masked_fill(labels, float(bad)), labels)


@pytest.mark.parametrize("classes", [3, 7, 33])
def test_classes_with_one_vector_tie_whatever_the_last_bits(classes: int) -> None:
    """A matrix product may give equal vectors scores that differ in their last bits."""
    generator = torch.Generator().manual_seed(classes)
    bits = 1e-7 * torch.randint(-4, 5, (200, classes), generator=generator)
    scores = 20 * torch.rand(200, 1, generator=generator, dtype=torch.float64) - 10
    labels = torch.eye(classes, dtype=torch.bool)[torch.randint(classes, (200,), generator=generator)]
    assert (class_ranks(scores + bits, labels)[labels] == classes).all()
    apart = class_ranks(scores + torch.arange(classes) * 1e-4 + bits, labels)
    assert all(apart[i, c] == classes - c for i, c in labels.nonzero().tolist())


def test_an_oracle_is_always_right_and_one_class_is_by_chance() -> None:
    labels = torch.eye(8, dtype=torch.bool).repeat(3, 1)
    assert (class_ranks(labels.float(), labels)[labels] == 1).all()
    assert (class_ranks(torch.zeros(24, 8), labels)[labels] == 8).all()


@pytest.mark.parametrize("of_boxes", [True, False])
def test_task_by_a_loop(tmp_path: Path, of_boxes: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(20, 4, generator=generator)
    texts = {t.replace("{}", c): torch.randn(4, generator=generator) for t in TEMPLATES for c in CLASSES}
    made = context(images, texts)
    ids = [image.id for image in made.split.images]
    drawn = torch.rand(20, 8, generator=generator) < 0.25
    labels = {id_: [CLASSES[k] for k in range(8) if drawn[row, k]] for row, id_ in enumerate(ids)}
    if of_boxes:
        boxes = {id_: tuple(Box(name, 0, 0, 1, 1) for name in names) for id_, names in labels.items()}
        boxes[ids[0]] += (Box("of a caption", 0, 0, 1, 1, caption="c"),)
        made.runs.records = Records("made up", made.split.images, (), boxes=boxes)
        measured = task(templates=TEMPLATES)
    else:
        file = tmp_path / "classes.json"
        file.write_text(json.dumps({"classes": CLASSES, "images": {k: v for k, v in labels.items() if v}}))
        measured = task(templates=TEMPLATES, classes=str(file))
        measured.check(Records("made up", made.split.images, ()))
    result = evaluated(measured, made)
    per_class: dict[str, list[bool]] = {name: [] for name in CLASSES}
    for row, id_ in enumerate(ids):
        scores = {}
        for name in CLASSES:
            codes = torch.stack([texts[t.replace("{}", name)] for t in TEMPLATES])
            parts = made.model.score_parts({"code": images[row : row + 1]}, {"code": codes})
            scores[name] = float(made.model.combine(parts).mean())
        for name in labels[id_]:
            better = sum(scores[other] >= scores[name] for other in CLASSES if other not in labels[id_])
            per_class[name].append(better < 1)
    hits = [each for listed in per_class.values() for each in listed]
    assert result.values["zero_shot/acc1"] == pytest.approx(100 * sum(hits) / len(hits))
    means = [sum(each) / len(each) for each in per_class.values() if each]
    assert result.values["zero_shot/class1"] == pytest.approx(100 * sum(means) / len(means))
    assert result.values["zero_shot/acc5"] >= result.values["zero_shot/acc1"]
    assert result.values["zero_shot/queries"] == len(hits)
    for each in result.queries:
        assert 100 * each.hits.sum() / each.queries.sum() == pytest.approx(result.values[each.metric])


@pytest.mark.parametrize("folds", [1, 2, 4])
def test_folds_have_all_queries_and_one_list_of_classes(folds: int) -> None:
    made = context(torch.ones(8, 4), {f"a photo of a {name}.": torch.ones(4) for name in CLASSES}, folds)
    boxes = {image.id: tuple(Box(name, 0, 0, 1, 1) for name in CLASSES[:6]) for image in made.split.images[:7]}
    boxes |= {made.split.images[7].id: (Box(CLASSES[7], 0, 0, 1, 1),)}
    made.runs.records = Records("made up", made.split.images, (), boxes=boxes)
    values = evaluated(task(), made).values
    assert values["zero_shot/queries"] == 6 * 7 + 1
    assert values["zero_shot/classes"] == 7


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("[]", r"expected \{\"classes\": \[names\], "),
        ('{"classes": [], "images": {}}', "expected "),
        ('{"classes": {"n01": "tench"}, "images": {"1": "n01"}}', "expected "),
        ('{"classes": "ab", "images": {"1": "a"}}', "expected "),
        ('{"classes": ["a"], "images": {"1": {"a": 0}}}', "expected "),
        ('{"classes": ["a"], "images": {"1": [["a"]]}}', "expected "),
        ('{"classes": ["a"], "images": {"1": "b"}}', "image 1 is of class 'b', which is not among its classes$"),
        ('{"classes": ["a"], "images": {"nowhere": "a"}}', "none of its 1 images is one of made up; name an image by"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, content: str, line: str) -> None:
    file = tmp_path / "classes.json"
    file.write_text(content)
    images = context_of(Cosine(), {"code": torch.zeros(2, 3)}, {"code": torch.zeros(2, 3)}, [0, 1]).split.images
    with pytest.raises(InputError, match=rf"^measure\.zero_shot\.classes=.*classes\.json: {line}"):
        task(classes=str(file)).check(Records("made up", images, ()))


@pytest.mark.parametrize(
    ("content", "line"), [("[" * 100_000, "is nested too deeply"), ('{"classes": [', r"is not complete JSON \(line 1")]
)
def test_a_file_that_is_no_json_is_one_line(tmp_path: Path, content: str, line: str) -> None:
    file = tmp_path / "classes.json"
    file.write_text(content)
    with pytest.raises(InputError, match=rf"classes\.json: {line}"):
        task(classes=str(file)).check(Records("made up", (), ()))


def test_a_template_without_a_place_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^measure\.zero_shot\.templates=a dog: needs \{\} once"):
        task(templates=("a dog",)).check(Records("made up", (), ()))
