"""Unified retrieval on made-up codes against a loop over queries."""

import functools
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from tests.levels import slow_but
from tests.unit.evaluation.contexts import MadeUpRuns, evaluated, split_of
from tests.unit.evaluation.models import Cosine, unit
from tests.unit.evaluation.test_component_queries import joined
from vse.data.records import Box, Caption, Image, Records
from vse.errors import InputError
from vse.evaluation.component_queries import EncodesComponents
from vse.evaluation.protocol import Protocol
from vse.evaluation.task import Context, UnitValues, measured
from vse.evaluation.tasks.unified_retrieval import UnifiedRetrievalTask
from vse.text.components import EMPTY

pytestmark = pytest.mark.seconds

NOUNS = ("cat", "dog", "mat", "box")


class TwoEncoders:
    """A family that encodes components."""

    def encode_components(self, batch):
        return batch


def captions_of(rng, number):
    """(text, components) of captions with one or two nouns, an attribute and at times a relation."""
    made = []
    for _ in range(number):
        one, other = rng.choice(NOUNS, 2, replace=False)
        parts = [(one,), ("red", one)] + ([(other,), (one, "on", other)] if rng.random() < 0.7 else [])
        made.append((" ".join(" ".join(each) for each in parts), joined(*parts)))
    return made


class Runs(MadeUpRuns):
    """Texts have random codes, those of components apart from those of short sentences."""

    def __init__(self, seed, families=(), sizes=(3, 1, 4, 2, 5, 2, 3)):
        rng = np.random.default_rng(seed)
        image = np.repeat(np.arange(len(sizes)), sizes)
        test = split_of(image, len(sizes))
        self.known, records = {}, {"test": test.images}
        captions = []
        for split in ("train", "val", "test"):
            images = records.setdefault(split, tuple(Image(f"{split} {k}", "", split) for k in range(len(sizes))))
            for number, (text, components) in enumerate(captions_of(rng, len(image))):
                self.known[text] = components
                captions.append(Caption(f"{split} {number}", images[image[number]].id, text))
        order = {each.id: k for k, each in enumerate(i for split in records.values() for i in split)}
        images = tuple(each for split in records.values() for each in split)
        captions.sort(key=lambda caption: order[caption.image])
        generator = torch.Generator().manual_seed(seed)
        codes = {"v": unit(torch.randn(len(sizes), 5, generator=generator))}
        self.sentences = {"u": unit(torch.randn(len(image), 5, generator=generator))}
        super().__init__(Cosine(), codes, self.sentences, test, families=families)
        self.records = Records("made up", images, tuple(captions))
        self.split = self.records.split("test")

    def image(self, id_):
        return PIL.Image.new("RGB", (40, 30), "teal")

    def parsed(self, texts):
        return [((), self.known[text]) for text in texts]

    def encode_images(self, ids):
        rows = [int(each.split()[1]) for each in ids]
        return {"v": unit(torch.randn(9, 5, generator=torch.Generator().manual_seed(99)))[rows]}

    def encode_phrases(self, texts, components):
        seeds = [sum(map(ord, text)) + 1000 * (each != EMPTY) for text, each in zip(texts, components, strict=True)]
        return {"u": unit(torch.stack([torch.randn(5, generator=torch.Generator().manual_seed(s)) for s in seeds]))}


def precisions(rankings, relevant):
    """Average precision of each row: the mean over relevant items of the precision among the first so many."""
    right = np.isin(rankings, list(relevant))
    among_first = right.cumsum(1) / np.arange(1, rankings.shape[1] + 1)
    return (among_first * right).sum(1) / right.sum(1)


def precision_of(ranking, relevant):
    return precisions(ranking[None], relevant)[0]


@functools.cache
def orders_of(number):
    """Random orders of so many images."""
    return np.stack([np.random.default_rng(k).permutation(number) for k in range(4000)])


def task(**keys):
    return UnifiedRetrievalTask(UnifiedRetrievalTask.Config(frequent=2, least_nouns=2, least=1, **keys))


def by_hand(runs, phi, images=slice(None)):
    """mAP in percent of the nouns, their number and chance, by loops over the test split or some of its images."""
    rows = range(len(runs.split.images))[images]
    paired = zip(runs.split.captions, runs.split.caption_to_image.tolist(), strict=True)
    texts = [(image, caption.text) for caption, image in paired if image in rows]
    train = [runs.known[caption.text] for caption in runs.records.split("train").captions]
    codes, values, random = runs.codes[0]["v"][images], [], []
    for noun in NOUNS:
        has = {i - rows[0] for i, text in texts if any(o.word == noun for o in runs.known[text].objects)}
        often = sum(any(o.word == noun for o in components.objects) for components in train) >= 2
        if often and len(has) >= 2:
            code = runs.encode_phrases([noun], [joined((noun,)) if phi else EMPTY])["u"][0]
            values.append(precision_of(np.argsort(-(codes @ code).numpy()), has))
            random.append(precisions(orders_of(len(rows)), has).mean())
    return 100 * np.mean(values), len(values), 100 * np.mean(random)


@pytest.mark.parametrize("seed", slow_but([0, 1, 2], 0))
def test_mean_average_precision_by_hand(seed):
    runs: Any = Runs(seed)
    values = evaluated(task(), Context(runs, runs.split, Protocol(name="all"), {}, whole=True)).values
    expected, number, random = by_hand(runs, True)
    assert values["unified_obj/map"] == pytest.approx(expected)
    assert values["unified_obj/queries"] == number
    assert values["unified_obj/random"] == pytest.approx(random, abs=1.5)
    texts = [caption.text for caption in runs.split.captions]
    precisions = []
    for row, text in enumerate(texts):
        same = {int(i) for other, i in zip(texts, runs.split.caption_to_image, strict=True) if other == text}
        scores = runs.codes[0]["v"] @ runs.sentences["u"][row]
        precisions.append(precision_of(np.argsort(-scores.numpy()), same))
    assert values["unified_sentence/map"] == pytest.approx(100 * np.mean(precisions))


@pytest.mark.parametrize("seed", slow_but([0, 1, 2, 3], 0))
def test_the_encoder_is_the_better_one_on_validation(seed):
    runs: Any = Runs(seed, families=(TwoEncoders(),))
    assert isinstance(runs.families[0], EncodesComponents)
    values = evaluated(task(), Context(runs, runs.split, Protocol(name="all"), {}, whole=True)).values
    val: Any = Runs(seed)
    val.split = val.records.split("val")
    val.codes = (val.encode_images([image.id for image in val.split.images]), None)
    by_phi, by_psi = by_hand(val, True)[0], by_hand(val, False)[0]
    assert values["unified_obj/phi"] == (by_phi >= by_psi)
    assert values["unified_obj/map"] == pytest.approx(by_hand(runs, by_phi >= by_psi)[0])
    assert "unified_rel/phi" not in values


def test_folds_are_averaged_and_their_queries_added_up():
    runs: Any = Runs(4, sizes=(3, 1, 4, 2, 5, 2, 3, 1))
    protocol = Protocol(name="folds", split="test", folds=2)
    values = evaluated(task(), Context(runs, runs.split, protocol, {}, whole=True)).values
    parts = [by_hand(runs, True, slice(0, 4))[:2], by_hand(runs, True, slice(4, 8))[:2]]
    assert values["unified_obj/map"] == pytest.approx(np.mean([value for value, _ in parts]))
    assert values["unified_obj/queries"] == sum(number for _, number in parts)


def test_a_fold_without_captions_counts_for_nothing():
    runs: Any = Runs(4, sizes=(3, 1, 4, 2, 0, 0, 0, 0))
    first, both = (
        evaluated(task(), Context(runs, runs.split, protocol, {}, whole=True)).values
        for protocol in (Protocol(name="first", num_images=4), Protocol(name="folds", folds=2))
    )
    assert first["unified_sentence/queries"] == 10
    assert both == pytest.approx(first)


def test_labels_of_boxes_are_queries_and_the_four_columns_add_up():
    runs: Any = Runs(5)
    labels = [("cat", "traffic light"), ("cat",), (), ("cat", "cat"), ("dog",), ("traffic light",), ()]
    boxes = {
        image.id: (*(Box(label, 0, 0, 1, 1) for label in each), Box("a phrase", 0, 0, 1, 1, "caption 1"))
        for image, each in zip(runs.split.images, labels, strict=True)
    }
    context = Context(runs, runs.split, Protocol(name="all"), {}, whole=True)
    assert "unified_sum" not in evaluated(task(), context).values
    runs.records = Records("made up", runs.records.images, runs.records.captions, boxes=boxes)
    values = evaluated(task(), context).values
    expected = []
    for label, rows in (("cat", {0, 1, 3}), ("traffic light", {0, 5})):
        component = EMPTY if " " in label else joined((label,))
        scores = runs.codes[0]["v"] @ runs.encode_phrases([label], [component])["u"][0]
        expected.append(precision_of(np.argsort(-scores.numpy()), rows))
    assert values["unified_obj_det/map"] == pytest.approx(100 * np.mean(expected))
    assert values["unified_obj_det/queries"] == 2
    assert values["unified_sum"] == pytest.approx(
        sum(values[f"unified_{kind}/map"] for kind in ("obj", "attr", "rel", "obj_det"))
    )


def test_what_is_recorded_gives_the_numbers_and_images_are_drawn():
    runs: Any = Runs(6, sizes=(3, 1, 4, 2, 5, 2, 3, 1))
    context = Context(runs, runs.split, Protocol(name="folds", split="test", folds=2), {}, whole=True)
    values, pictures, recorded = measured(task(), context)
    units = [each for each in recorded if isinstance(each, UnitValues)]
    assert pictures["queries.png"].startswith(b"\x89PNG")
    for kind in ("obj", "attr", "rel", "sentence"):
        name = f"unified_{kind}/map"
        folds = [100 * each.hits.sum() / each.queries.sum() for each in units if each.metric == name]
        assert values[name] == pytest.approx(np.mean(folds))
    assert {"cat", "dog"} & set(next(each.units for each in units if each.metric == "unified_obj/map"))


def test_data_without_images_have_no_pictures():
    runs: Any = Runs(7)

    def unreadable(id_):
        raise InputError(f"image {id_!r} cannot be read")

    runs.image = unreadable
    _, pictures, _ = measured(task(), Context(runs, runs.split, Protocol(name="all"), {}, whole=True))
    assert pictures == {}
