"""The task `saliency` against a loop over captions and adversaries, on made-up saliency."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import PIL.Image
import pytest

from tests.synthetic import make_family, synthetic
from vse.data.records import Box, Caption, Image, Records
from vse.data.sources.scenes import Scenes
from vse.errors import InputError
from vse.evaluation.protocol import Protocol
from vse.evaluation.saliency import Saliency, changed_words
from vse.evaluation.task import AdversarialTexts, Context, Subject, UnitValues, measured
from vse.evaluation.tasks.contrast import VSEC
from vse.evaluation.tasks.saliency import BY_VECTORS, PIXELS, SaliencyTask
from vse.text.components import Components, Object

NOUNS = {"dog", "cat", "ball", "man", "tree", "sea"}
TEXTS = {"a": ["a dog and a ball", "a big dog"], "b": ["the cat", "a man near a tree"], "c": ["a sea"]}
ADVERSARIES = {0: ["a cat and a ball", "a dog and a tree", "a dog and a sea"], 3: ["a man in front of a tree"]}
ROWS, COLUMNS = 5, 8


def numbers(*keys: str) -> np.random.Generator:
    return np.random.default_rng([ord(letter) for key in keys for letter in key])


def answer(image: str, text: str, of_image: bool, level: str) -> Saliency:
    words = tuple(text.split())
    shares = numbers("words", image, text).random(len(words))
    seen = np.zeros((ROWS, COLUMNS), dtype=bool)
    seen[:, 1:7] = True
    map_ = numbers("map", image, text).random((ROWS, COLUMNS)) * seen
    return Saliency(0.0, words, shares / shares.sum(), map_ if of_image else None, seen, level)


class MadeUpRuns:
    names = "run"

    def __init__(self, records: Records, level: str = "pixels") -> None:
        self.records, self.level, self.families = records, level, ()

    def parsed(self, texts):
        found = [[(k, word) for k, word in enumerate(text.split()) if word in NOUNS] for text in texts]
        return [(None, Components(tuple(Object(word, k) for k, word in each), (), ())) for each in found]

    def saliencies(self, queries, level):
        for query in queries:
            assert len(set(query.texts)) == len(query.texts) > 0
            yield [answer(query.image, text, k in query.of_image, self.level) for k, text in enumerate(query.texts)]

    def image(self, id_):
        return PIL.Image.new("RGB", (40, 25), "white")


def context_of(boxes: bool = True, level: str = "pixels", folds: int = 1) -> Context:
    images = tuple(Image(name, f"{name}.png", "test") for name in TEXTS)
    captions = tuple(Caption(f"{i}{k}", i, text) for i, texts in TEXTS.items() for k, text in enumerate(texts))
    of_image = {
        "a": (Box("dog", 0, 0, 0.5, 0.6), Box("ball", 0.6, 0.2, 1, 1)),
        "b": (Box("person", 0.1, 0.1, 0.3, 0.9), Box("the cat", 0.2, 0.3, 0.9, 1, "b0")),
    }
    records = Records("made up", images, captions, {}, of_image if boxes else {})
    runs: Any = MadeUpRuns(records, level)
    texts = tuple(text for each in ADVERSARIES.values() for text in each)
    of = np.repeat(list(ADVERSARIES), [len(each) for each in ADVERSARIES.values()])
    sets: Any = {"noun": SimpleNamespace(caption=of)}
    known = {(VSEC, "shared"): AdversarialTexts({"noun": texts}, sets)}
    return Context(runs, records.split("test"), Protocol(name="test", split="test", folds=folds), known, whole=True)


def test_values_and_outcomes_against_a_loop() -> None:
    context, task = context_of(), SaliencyTask(SaliencyTask.Config(per_caption=2))
    values, pictures, outcomes = measured(task, context)
    rows, replaced = [], []
    for caption, adversaries in ADVERSARIES.items():
        own = context.split.captions[caption]
        for text in adversaries[:2]:
            before, after = changed_words(own.text.split(), text.split())
            adversary = answer(own.image, text, False, "pixels").shares
            original = answer(own.image, own.text, False, "pixels").shares
            assert adversary is not None
            assert original is not None
            changed, earlier = sum(adversary[k] for k in after), sum(original[k] for k in before)
            rows.append((changed, len(after) / len(adversary)))
            if len(before) == len(after):
                replaced.append((changed, earlier))
    assert len(rows) > len(replaced) > 1
    changed, uniform = 100 * np.mean(rows, axis=0)
    expected = {"changed": changed, "uniform": uniform, "queries": len(rows), "over_uniform": changed - uniform}
    changed, before = 100 * np.mean(replaced, axis=0)
    expected |= {"before": before, "over_before": changed - before, "word_for_word": len(replaced)}
    for name, value in expected.items():
        assert values[f"saliency_contrast_noun/{name}"] == pytest.approx(value)
    # pixels: boxes of what each caption names, every pixel's share of them by a grid of 50 points a side
    boxes = {"a0": [(0, 0, 0.5, 0.6), (0.6, 0.2, 1, 1)], "a1": [(0, 0, 0.5, 0.6)]}
    boxes |= {"b0": [(0.2, 0.3, 0.9, 1)], "b1": [(0.1, 0.1, 0.3, 0.9)]}
    masses, areas = [], []
    for caption in context.split.captions:
        if caption.id not in boxes:
            continue
        points = (np.arange(50 * COLUMNS) + 0.5) / (50 * COLUMNS), (np.arange(50 * ROWS) + 0.5) / (50 * ROWS)
        inside = np.zeros((50 * ROWS, 50 * COLUMNS))
        for left, top, right, bottom in boxes[caption.id]:
            x, y = (points[0] >= left) & (points[0] < right), (points[1] >= top) & (points[1] < bottom)
            inside = np.maximum(inside, y[:, None] & x[None])
        covered = inside.reshape(ROWS, 50, COLUMNS, 50).mean((1, 3))
        each = answer(caption.image, caption.text, True, "pixels")
        assert each.image is not None
        assert each.seen is not None
        masses.append((each.image * covered).sum() / each.image.sum())
        areas.append(covered[each.seen].mean())
    assert values["saliency_pixels/queries"] == len(masses) == 4
    assert values["saliency_pixels/mass"] == pytest.approx(100 * np.mean(masses))
    assert values["saliency_pixels/area"] == pytest.approx(100 * np.mean(areas))
    assert values["saliency_pixels/over_area"] == pytest.approx(100 * (np.mean(masses) - np.mean(areas)))
    over = values["saliency_pixels/mass"] - values["saliency_pixels/other"]
    assert values["saliency_pixels/over_other"] == pytest.approx(over)
    assert outcomes
    for each in outcomes:
        assert isinstance(each, UnitValues)
        assert each.units == tuple(TEXTS)
        assert values[each.metric] == pytest.approx(100 * each.hits.sum() / each.queries.sum())
    assert pictures["saliency.png"].startswith(b"\x89PNG")


def test_the_other_caption_names_nothing_of_the_image() -> None:
    context = context_of()
    queries = list(SaliencyTask()._texts_of_images(context, context.folds[0]))
    assert [each.image for each in queries] == ["a", "b", "c"]
    for each in queries:
        texts = each.query.texts
        for own, other, _ in each.boxes:
            assert texts[own] in TEXTS[each.image]
            assert texts[other] not in TEXTS[each.image]
            assert not set(texts[own].split()) & set(texts[other].split()) & NOUNS
        assert set(each.query.of_image) == {place for own, other, _ in each.boxes for place in (own, other)}


def test_queries_of_folds_are_added_up() -> None:
    one, three = (measured(SaliencyTask(), context_of(boxes=False, folds=folds))[0] for folds in (1, 3))
    for name in ("queries", "word_for_word"):
        assert three[f"saliency_contrast_noun/{name}"] == one[f"saliency_contrast_noun/{name}"] > 1


def test_an_image_without_captions_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _, outcomes = measured(SaliencyTask(), context_of())
    monkeypatch.setattr(f"{__name__}.TEXTS", {"0": [], **TEXTS})
    values, _, others = measured(SaliencyTask(), context_of())
    assert values == expected
    for one, other in zip(outcomes, others, strict=True):
        assert isinstance(one, UnitValues)
        assert isinstance(other, UnitValues)
        assert other.units == ("0", *one.units)
        assert other.hits.tolist() == [0, *one.hits]


def test_number_of_images_whose_pixels_are_differentiated() -> None:
    context = context_of()
    queries = list(SaliencyTask(SaliencyTask.Config(images=1))._texts_of_images(context, context.folds[0]))
    assert sum(bool(each.boxes) for each in queries) <= 1


@pytest.mark.parametrize("case", ["no boxes", "features", "level"])
def test_pixels_are_left_out_without_boxes_or_pictures(case: str) -> None:
    context = context_of(boxes=case != "no boxes", level="pixels" if case == "no boxes" else "features")
    task = SaliencyTask(SaliencyTask.Config(level="features" if case == "level" else "pixels"))
    values, pictures, _ = measured(task, context)
    assert not any(name.startswith("saliency_pixels/") for name in values)
    assert values["saliency_contrast_noun/queries"] == 4
    assert pictures["saliency.png"].startswith(b"\x89PNG")


def test_a_missing_picture_costs_no_numbers(caplog: pytest.LogCaptureFixture) -> None:
    context, task = context_of(), SaliencyTask()
    expected = measured(task, context)[0]

    def image(id_: str) -> PIL.Image.Image:
        raise InputError(f"image {id_!r}: no such file")

    context.runs.image = image
    assert measured(task, context)[:2] == (expected, {})
    assert "saliency: no picture: image" in caplog.text


@pytest.mark.parametrize(("aggregation", "needs"), [("gru", BY_VECTORS.name), ("avg", "")])
def test_a_score_by_ids_of_words_has_no_saliency(aggregation: str, needs: str) -> None:
    family = make_family("univse", synthetic(seed=7, images=8).context, aggregation=aggregation)
    records = context_of().runs.records
    assert SaliencyTask().missing(Subject((family,), Scenes, records, own_data=True)) == needs


@pytest.mark.parametrize(("pictures", "boxes"), [(True, True), (True, False), (False, True)])
def test_without_attacks_pixels_are_needed(pictures: bool, boxes: bool) -> None:
    family = make_family("vsepp", synthetic(seed=7, images=8).context)
    records = context_of(boxes=boxes).runs.records
    subject = Subject((family,), Scenes, records, own_data=True, pictures=lambda: pictures)
    assert SaliencyTask().missing(subject) == ""
    lacks = SaliencyTask(SaliencyTask.Config(attacks=())).missing(subject)
    assert lacks == ("" if pictures and boxes else PIXELS.name)


def test_words_are_left_out_of_families_that_read_none() -> None:
    context = context_of()

    def saliencies(queries, level):
        for query in queries:
            without = [answer(query.image, text, k in query.of_image, level) for k, text in enumerate(query.texts)]
            yield [Saliency(s.score, s.words, None, s.image, s.seen, s.level) for s in without]

    context.runs.saliencies = saliencies
    values, pictures, _ = measured(SaliencyTask(), context)
    assert {name.split("/")[0] for name in values} == {"saliency_pixels"}
    assert pictures["saliency.png"].startswith(b"\x89PNG")
