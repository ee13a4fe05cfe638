"""The task `grounding` against a loop over texts, its queries on scenes, categories and phrases, and its messages."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from tests.synthetic import make_family, synthetic
from vse.data.records import Box, Caption, Image, Records
from vse.data.scenes.layout import Address
from vse.data.sources.scenes import Scenes, annotate, boxes_of
from vse.errors import InputError
from vse.evaluation.box_phrases import box_phrases, category_nouns, components_of
from vse.evaluation.protocol import Protocol
from vse.evaluation.relevance_maps import Grid, Rectangle, ground
from vse.evaluation.task import REGIONS, Context, Subject, UnitValues, measured
from vse.evaluation.tasks.grounding import GroundingTask
from vse.features.transforms import Transform

SIDE = 3


class MadeUpFamily:
    """Maps that depend on image and text only."""

    def relevance(self, images, queries, temperature):
        return (images["regions"][:, None] * queries["captions"][None] / temperature).softmax(-1)


class MadeUpRuns:
    def __init__(self, records):
        self.records, self.families = records, (MadeUpFamily(),)

    def encode_regions(self, ids):
        return {"regions": torch.stack([vector(one) for one in ids])}

    def encode_queries(self, texts, components):
        return {"captions": torch.stack([vector(text) for text in texts])}

    def window(self, id_):
        return (0.0, 0.1, 1.0, 0.9)

    def image(self, id_):
        return PIL.Image.new("RGB", (40, 30), "white")

    def unknown_words(self, texts):
        return 100.0 * ("zebra" in texts[0] or texts == ["television"])


def vector(name):
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    return torch.randn(SIDE * SIDE, generator=generator, dtype=torch.float64)


def made_up():
    """Four images: one without boxes, one with a category of two boxes, one with a phrase, one scene."""
    scene = Address(3, "test", 5, "plain", 128).uri
    images = tuple(
        Image(name, uri, "test") for name, uri in (("a", "a.png"), ("b", "b.png"), ("c", "c.png"), ("d", scene))
    )
    captions = tuple(Caption(f"{image.id}0", image.id, "a text") for image in images)
    boxes = {
        "b": (Box("tv", 0, 0, 0.4, 0.5), Box("tv", 0.5, 0.5, 1, 1), Box("zebra", 0, 0, 1, 1)),
        "c": (Box("a pink dress", 0.1, 0.1, 0.6, 0.9, "c0"), Box("person", 0.2, 0.2, 0.9, 0.9)),
        "d": boxes_of(scene),
    }
    return Records("made up", images, captions, {}, boxes)


def context_of(records, folds=1):
    runs: Any = MadeUpRuns(records)
    return Context(runs, records.split("test"), Protocol(name="test", split="test", folds=folds), {}, whole=True)


def test_values_and_outcomes_against_a_loop(caplog):
    caplog.set_level("INFO")
    records = made_up()
    context, task = context_of(records), GroundingTask()
    values, pictures, outcomes = measured(task, context)
    assert "texts of boxes left out for an unknown word: 1, such as 'zebra'" in caplog.text
    grid, expected = Grid(SIDE, SIDE, Rectangle(0.0, 0.1, 1.0, 0.9)), {}
    for image in records.images:
        for each in box_phrases(records.boxes.get(image.id, ()), image.uri):
            text = next((t for t in each.texts if "zebra" not in t and t != "television"), None)
            if text is None:
                continue
            relevance = (vector(image.id) * vector(text) / 0.1).softmax(-1).numpy().reshape(SIDE, SIDE)
            result = ground(relevance, each.boxes, grid)
            expected.setdefault(each.kind, []).append((result.pointing, result.mass, result.area, result.centre))
    assert set(expected) == {"noun", "pair", "triple", "phrase"}
    for kind, rows in expected.items():
        mean = 100 * np.mean(rows, axis=0)
        found = [values[f"grounding_{kind}/{name}"] for name in ("pointing", "mass", "area", "centre")]
        np.testing.assert_allclose(found, mean)
        assert values[f"grounding_{kind}/queries"] == len(rows)
        assert values[f"grounding_{kind}/over_area"] == pytest.approx(mean[0] - mean[2])
    assert outcomes
    for each in outcomes:
        assert isinstance(each, UnitValues)
        assert each.units == tuple(image.id for image in records.images)
        assert values[each.metric] == pytest.approx(100 * each.hits.sum() / each.queries.sum())
    assert pictures["maps.png"].startswith(b"\x89PNG")


def test_queries_of_folds_are_added_up():
    one, four = (measured(GroundingTask(), context_of(made_up(), folds))[0] for folds in (1, 4))
    queries = {name: value for name, value in one.items() if name.endswith("/queries")}
    assert len(queries) == 4
    assert {name: four[name] for name in queries} == queries


def test_the_map_of_one_text_is_drawn():
    task = GroundingTask(GroundingTask.Config(image="a", text="red ball"))
    context = context_of(made_up())
    task.check(context.runs.records)
    assert task.pictures(context, {})["map.png"].startswith(b"\x89PNG")


def test_a_text_of_unknown_words_has_no_map(caplog):
    task = GroundingTask(GroundingTask.Config(image="a", text="television"))
    assert "map.png" not in task.pictures(context_of(made_up()), {})
    assert "grounding: no map.png: measure.grounding.text=television: the run knows none of its words" in caplog.text


@pytest.mark.parametrize(
    ("keys", "message"),
    [({"image": "a"}, "image and text go together"), ({"image": "q", "text": "cat"}, "image=q: no image of made up")],
)
def test_what_cannot_be_drawn_is_one_line(keys, message):
    with pytest.raises(InputError, match=message):
        GroundingTask(GroundingTask.Config(**keys)).check(made_up())


@pytest.mark.parametrize(("name", "needs"), [("univse", "attention over regions, .*map=similarity"), ("scan", "")])
def test_attention_is_of_families_that_have_it(name, needs):
    family = make_family(name, synthetic(seed=7, images=8).context)
    subject = Subject(families=(family,), source=Scenes, records=made_up(), own_data=True, grid=lambda: True)
    assert re.fullmatch(needs, GroundingTask(GroundingTask.Config(map="attention")).missing(subject))
    assert not GroundingTask().missing(subject)


def test_a_missing_picture_costs_no_numbers(caplog):
    context, task = context_of(made_up()), GroundingTask(GroundingTask.Config(image="a", text="red ball"))
    expected = measured(task, context)[0]

    def image(id_):
        raise InputError(f"image {id_!r}: no such file")

    context.runs.image = image
    values, pictures, _ = measured(task, context)
    assert (values, pictures) == (expected, {})
    assert "grounding: no maps.png: image" in caplog.text
    assert "grounding: no map.png: image 'a': no such file" in caplog.text


@pytest.mark.parametrize("index", range(8))
def test_texts_of_a_scene_are_those_of_its_truth(index):
    uri = Address(7, "test", index, "plain", 200).uri
    objects, relations = annotate(uri)
    asked = {each.texts[0]: each for each in box_phrases(boxes_of(uri), uri)}
    expected = {each.noun for each in objects} | {f"{a} {each.noun}" for each in objects for a in each.attributes}
    expected |= {f"{objects[s].noun} {word} {objects[o].noun}" for s, word, o in relations}
    assert set(asked) == expected
    for each in objects:
        sides = np.array(each.box) / 200
        for text in (each.noun, f"{each.attributes[0]} {each.noun}"):
            assert any(np.allclose(sides, box, atol=0.5 / 200 + 1e-9) for box in asked[text].boxes)


def test_components_of_texts():
    pair = components_of("pair", "red ball")
    assert pair is not None
    assert (pair.objects[0].word, pair.attributes[0].word, pair.attributes[0].noun) == ("ball", "red", "ball")
    triple = components_of("triple", "cat on mat")
    assert triple is not None
    assert (triple.relations[0].subject, triple.relations[0].word, triple.relations[0].object) == ("cat", "on", "mat")
    assert components_of("phrase", "ball") is None
    assert category_nouns("tv") == ("television", "tv")
    assert category_nouns("giraffe") == ("giraffe",)


@pytest.mark.parametrize("size", [(300, 200), (150, 401), (256, 256)])
def test_the_window_is_what_a_crop_shows(size):
    width, height = size
    across = np.linspace(0, 1, width)[None, :].repeat(height, 0)
    down = np.linspace(0, 1, height)[:, None].repeat(width, 1)
    pixels = np.stack([255 * across, 255 * down, 0 * down], axis=-1).astype(np.uint8)
    for name in ("crop", "scale"):
        transform = Transform(name=name, size=96, resize=112)
        square = transform(PIL.Image.fromarray(pixels))[0].astype(float) / 255
        left, top, right, bottom = transform.window(width, height)
        assert square[48, 0, 0] == pytest.approx(left, abs=0.02)
        assert square[48, -1, 0] == pytest.approx(right, abs=0.02)
        assert square[0, 48, 1] == pytest.approx(top, abs=0.02)
        assert square[-1, 48, 1] == pytest.approx(bottom, abs=0.02)
    with pytest.raises(ValueError, match="several parts"):
        Transform(name="ten_crop", size=96, resize=112).window(width, height)


def test_regions_need_a_grid():
    family: Any = SimpleNamespace(inputs=SimpleNamespace(image="map"))
    pooled: Any = SimpleNamespace(inputs=SimpleNamespace(image="pooled"))
    for families, grid, has in (((family,), True, True), ((family,), False, False), ((pooled,), True, False)):
        subject: Any = SimpleNamespace(families=families, grid=lambda grid=grid: grid)
        assert REGIONS.of(subject) == has
