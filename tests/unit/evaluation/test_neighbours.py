"""Nearest neighbours and their overlap against loops over pairs, orders and subsets."""

import gzip
import itertools
import json
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from tests.levels import slow_but
from tests.unit.evaluation.contexts import MadeUpRuns, split_of
from tests.unit.evaluation.models import Cosine, unit
from tests.unit.evaluation.test_component_queries import joined
from vse.data.records import Box, Caption, Records
from vse.data.scenes.layout import Address, scene_of
from vse.data.scenes.meaning import clear_relations
from vse.data.sources.scenes import scene_graph
from vse.errors import Diverged, InputError
from vse.evaluation import neighbours
from vse.evaluation.foreign_captions import read_foreign
from vse.evaluation.item_vectors import item_vectors
from vse.evaluation.neighbours import Items, membership, neighbour_overlaps, neighbour_weights, set_overlaps
from vse.evaluation.protocol import Protocol
from vse.evaluation.task import Context, measured
from vse.evaluation.tasks.neighbours import NeighboursTask

NOUNS = ("cat", "dog", "mat", "box", "tree")


def overlap_of(one, other):
    return len(one & other) / len(one | other)


def some_elements(rng, number):
    """Nouns and pairs, some of them empty."""
    every = [(noun,) for noun in NOUNS] + [("red", noun) for noun in NOUNS]
    return [{every[k] for k in np.flatnonzero(rng.random(len(every)) < 0.3)} for _ in range(number)]


def random_items(seed, groups):
    """Items with few distinct vectors, so that scores tie."""
    rng = np.random.default_rng(seed)
    elements = [each or {("cat",)} for each in some_elements(rng, len(groups))]
    kinds = unit(torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)))
    vectors = kinds[torch.from_numpy(rng.integers(4, size=len(groups)))]
    return Items(vectors, membership(elements)[0], np.array(groups)), elements


def by_hand(items, elements, number):
    """(overlap, random) of every query: means over all orders of tied candidates, and over all subsets."""
    scores = items.vectors @ items.vectors.T
    results = []
    for query in range(len(elements)):
        candidates = [k for k in range(len(elements)) if items.groups[k] != items.groups[query]]
        overlaps = {k: overlap_of(elements[query], elements[k]) for k in candidates}
        taken = min(number, len(candidates))
        means = []
        for order in itertools.permutations(candidates):
            ranked = sorted(order, key=lambda k: -round(float(scores[query, k]), 4))  # a stable sort
            means.append(np.mean([overlaps[k] for k in ranked[:taken]]))
        subsets = [np.mean([overlaps[k] for k in each]) for each in itertools.combinations(candidates, taken)]
        results.append((np.mean(means), np.mean(subsets)))
    return np.array(results).T


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("number", [1, 2, 4, 9])
def test_overlap_and_chance_are_means_over_all_orders_and_subsets(seed, number, monkeypatch):
    items, elements = random_items(seed, [0, 0, 1, 2, 2, 2, 3])
    expected = by_hand(items, elements, number)
    np.testing.assert_allclose(neighbour_overlaps(items, items, number), expected, atol=1e-12)
    monkeypatch.setattr(neighbours, "SCORES_AT_ONCE", 10)  # one query a block
    np.testing.assert_allclose(neighbour_overlaps(items, items, number), expected, atol=1e-12)


def test_a_query_without_a_candidate_has_no_number():
    items, _ = random_items(0, [0, 0, 0])
    assert np.isnan(neighbour_overlaps(items, items, 2)).all()


def test_weights_of_neighbours_sum_to_one_and_refuse_nan():
    scores, allowed = torch.tensor([[0.1, 0.5, 0.5, 0.5, 0.9]]), torch.tensor([[True, True, True, False, True]])
    assert neighbour_weights(scores, allowed, 2).tolist() == [[0, 0.25, 0.25, 0, 0.5]]
    assert neighbour_weights(scores, allowed, 9).tolist() == [[0.25, 0.25, 0.25, 0, 0.25]]
    with pytest.raises(Diverged):
        neighbour_weights(scores * torch.nan, allowed, 2)


def test_set_overlaps_of_two_collections():
    rng = np.random.default_rng(5)
    some, others = some_elements(rng, 6), some_elements(rng, 9)
    matrix = set_overlaps(*membership(some, others))
    expected = [[overlap_of(a, b) if a | b else 0 for b in others] for a in some]
    np.testing.assert_allclose(matrix, expected)


def test_vectors_of_items():
    class Mixing:
        alpha = 0.25

        def mix(self, sentences, bags, alpha):
            return alpha * sentences + (1 - alpha) * bags

    one, other = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    mixed = item_vectors(Mixing(), {"sentences": one, "bags": other}, "captions")
    torch.testing.assert_close(mixed, unit(0.25 * one + 0.75 * other))
    changed = item_vectors(Mixing(), {"sentences": one, "bags": other}, "captions", {"alpha": 1.0})
    torch.testing.assert_close(changed, unit(one))
    words = torch.stack((one, other, torch.zeros(3, 4)), dim=1)  # padding is zero
    torch.testing.assert_close(item_vectors(None, {"words": words}, "captions"), unit((one + other) / 2))
    torch.testing.assert_close(item_vectors(None, {"images": 3 * one}, "images"), unit(one))


def test_the_graph_of_a_scene_states_every_clear_relation_once():
    uri = Address(3, "test", 5).uri
    scene, graph = scene_of(uri), scene_graph(uri)
    assert {each for each in graph if len(each) == 1} == {(thing.noun,) for thing in scene.things}
    pairs = {(word, t.noun) for t in scene.things for word in (t.colour, t.pattern, t.size) if word != "medium"}
    assert {each for each in graph if len(each) == 2} == pairs
    relations = {each for each in graph if len(each) == 3}
    assert relations
    assert not {name for _, name, _ in relations} & {"right", "below", "front"}
    for a, name, b in clear_relations(scene):
        subject, other = scene.things[a].noun, scene.things[b].noun
        same = {"right": "left", "below": "above", "front": "behind"}
        said = (other, same[name], subject) if name in same else (subject, name, other)
        assert said in relations or (name == "next" and (other, name, subject) in relations)


class Runs(MadeUpRuns):
    """Captions of one or two nouns of images with any number of captions."""

    scene_graphs = None

    def __init__(self, seed, sizes=(3, 1, 4, 0, 2, 5, 2), order=None):
        rng = np.random.default_rng(seed)
        order = np.arange(len(sizes)) if order is None else order
        image = np.repeat(np.arange(len(sizes)), sizes)
        nouns = [rng.choice(NOUNS, rng.integers(3), replace=False).tolist() for _ in image]
        kinds = unit(torch.randn(5, 4, generator=torch.Generator().manual_seed(seed)))
        v = kinds[torch.from_numpy(rng.integers(5, size=len(sizes)))]
        u = kinds[torch.from_numpy(rng.integers(5, size=len(image)))]
        split = split_of(image, len(sizes))
        texts = [f"{' '.join(each) or 'nothing'} {k}" for k, each in enumerate(nouns)]
        self.known = {text: joined(*((noun,) for noun in each)) for text, each in zip(texts, nouns, strict=True)}
        rows = [int(row) for place in order for row in np.flatnonzero(image == place)]
        images = tuple(split.images[place] for place in order)
        captions = tuple(Caption(f"caption {row}", split.images[image[row]].id, texts[row]) for row in rows)
        self.records = Records("made up", images, captions)
        part = self.records.split("test")
        super().__init__(Cosine(), {"images": v[order.copy()]}, {"captions": u[rows]}, part)
        self.records = Records("made up", images, captions)

    def parsed(self, texts):
        return [((), self.known.get(text) or joined(*((noun,) for noun in NOUNS if noun in text))) for text in texts]

    def vectors(self, codes, side):
        return item_vectors(None, codes, side)

    def encode_texts(self, texts):
        generator = torch.Generator().manual_seed(len(texts))
        return {"captions": unit(torch.randn(len(texts), 4, generator=generator))}

    def image(self, id_):
        return PIL.Image.new("RGB", (40, 30), "teal")


def measure(runs, folds=1, **keys) -> Any:
    context = Context(runs, runs.split, Protocol(name="all", split="test", folds=folds), {}, whole=True)
    return measured(NeighboursTask(NeighboursTask.Config(**keys)), context)


def expected_of(vectors, elements, groups, number):
    """Mean overlap and chance in percent of the items that have elements, by a loop."""
    rows = [k for k, each in enumerate(elements) if each]
    overlaps, random = [], []
    for query in rows:
        others = [k for k in rows if groups[k] != groups[query]]
        every = np.array([overlap_of(elements[query], elements[k]) for k in others])
        scores = np.array([float(vectors[query] @ vectors[k]) for k in others])
        last = np.sort(scores)[::-1][number - 1]
        above, tied = scores > last + 1e-5, abs(scores - last) <= 1e-5
        share = (number - above.sum()) / tied.sum()
        overlaps.append((every[above].sum() + share * every[tied].sum()) / number)
        random.append(every.mean())
    return 100 * np.mean(overlaps), 100 * np.mean(random), len(rows)


@pytest.mark.seconds
@pytest.mark.parametrize("seed", slow_but([0, 1, 2], 0))
@pytest.mark.parametrize("truth", ["graph", "categories", "components"])
def test_the_task_against_a_loop(seed, truth):
    runs: Any = Runs(seed)
    ids = [image.id for image in runs.split.images]
    rng = np.random.default_rng(seed + 50)
    known = dict(zip(ids, some_elements(rng, len(ids)), strict=True))
    said = [{(o.word,) for o in runs.known[caption.text].objects} for caption in runs.split.captions]
    image = runs.split.caption_to_image
    if truth == "graph":
        runs.scene_graphs = known.__getitem__
    elif truth == "categories":
        known = {id_: {each for each in some if len(each) == 1} for id_, some in known.items()}
        boxes = {id_: tuple(Box(label, 0, 0, 1, 1) for (label,) in some) for id_, some in known.items()}
        runs.records = Records("made up", runs.records.images, runs.records.captions, boxes=boxes)
    else:
        known = {ids[k]: set().union(*(each for row, each in enumerate(said) if image[row] == k)) for k in range(7)}
    values, pictures, _ = measure(runs, number=2)
    v, u = runs.codes[0]["images"], runs.codes[1]["captions"]
    of_images = [known[id_] for id_ in ids]
    cases: dict[str, tuple[Any, Any, Any]] = {
        f"image/{truth}": (v, of_images, range(7)),
        "caption/components": (u, said, image),
    }
    if truth != "components":
        cases[f"caption/{truth}"] = (u, [of_images[k] for k in image], image)
    assert len(values) == 4 * len(cases)
    for name, case in cases.items():
        overlap, random, queries = expected_of(*case, 2)
        assert values[f"neighbours_{name}/overlap"] == pytest.approx(overlap)
        assert values[f"neighbours_{name}/random"] == pytest.approx(random)
        assert values[f"neighbours_{name}/above"] == pytest.approx(overlap - random)
        assert values[f"neighbours_{name}/queries"] == queries
    assert set(pictures) == {"images.png", "captions.md"}


@pytest.mark.seconds
def test_categories_of_a_few_images_are_no_truth_of_all():
    """Phrase boxes of a caption that is not in the data are named like categories."""
    runs: Any = Runs(1)
    boxes = {image.id: (Box("dog", 0, 0, 1, 1),) for image in runs.split.images[:3]}
    runs.records = Records("made up", runs.records.images, runs.records.captions, boxes=boxes)
    assert {name.split("/")[1] for name in measure(runs, number=2)[0]} == {"components"}


@pytest.mark.seconds
def test_the_order_of_images_does_not_matter():
    straight: Any = Runs(7)
    turned: Any = Runs(7, order=np.random.default_rng(0).permutation(7))
    assert [i.id for i in straight.split.images] != [i.id for i in turned.split.images]
    assert measure(straight, number=3)[0] == pytest.approx(measure(turned, number=3)[0])


@pytest.mark.seconds
def test_values_are_sums_of_what_is_recorded_in_every_fold():
    values, _, recorded = measure(Runs(3, sizes=(3, 1, 4, 2, 2, 5, 2, 3)), folds=2, number=2)
    for name, value in values.items():
        folds = [each for each in recorded if each.metric == name.replace("/queries", "/overlap")]
        if name.endswith("/queries"):
            assert value == sum(each.queries.sum() for each in folds)
        else:
            assert value == pytest.approx(np.mean([100 * each.hits.sum() / each.queries.sum() for each in folds]))


@pytest.mark.seconds
def test_foreign_captions_are_candidates_of_their_own(tmp_path):
    file = tmp_path / "others.txt"
    file.write_text("a cat on a mat\nred dog\na cat on a mat\nno noun here\na box by a tree\n")
    runs: Any = Runs(1)
    values, pictures, _ = measure(runs, number=2, captions=(str(file),))
    foreign = ["a cat on a mat", "red dog", "no noun here", "a box by a tree"]
    theirs, codes = [{(n,) for n in NOUNS if n in text} for text in foreign], runs.encode_texts(foreign)["captions"]
    overlaps, random = [], []
    for row, caption in enumerate(runs.split.captions):
        mine = {(o.word,) for o in runs.known[caption.text].objects}
        every = [(float(runs.codes[1]["captions"][row] @ codes[k]), overlap_of(mine, theirs[k])) for k in (0, 1, 3)]
        if mine:
            overlaps.append(np.mean([overlap for _, overlap in sorted(every, reverse=True)[:2]]))
            random.append(np.mean([overlap for _, overlap in every]))
    assert values["neighbours_foreign/components/overlap"] == pytest.approx(100 * np.mean(overlaps))
    assert values["neighbours_foreign/components/random"] == pytest.approx(100 * np.mean(random))
    assert "nearest in others |" in pictures["captions.md"].decode()


def test_files_of_foreign_captions(tmp_path):
    (tmp_path / "lines.en.gz").write_bytes(gzip.compress(b"A dog .\n\n...\nTwo cats .\n"))
    assert read_foreign(str(tmp_path / "lines.en.gz")) == ("A dog .", "Two cats .")
    (tmp_path / "table.csv").write_text("image,caption\na.jpg,a dog\nb.jpg,a cat\n")
    assert read_foreign(str(tmp_path / "table.csv")) == ("a dog", "a cat")
    images = [{"filename": "a.jpg", "split": "train", "sentences": [{"raw": "a dog"}, {"raw": "a cat"}]}]
    (tmp_path / "dataset_made.json").write_text(json.dumps({"images": images, "dataset": "made"}))
    assert read_foreign(str(tmp_path / "dataset_made.json")) == ("a dog", "a cat")
    with pytest.raises(InputError, match=r"absent\.txt: no such file of captions"):
        read_foreign(str(tmp_path / "absent.txt"))
    (tmp_path / "empty.txt").write_text("...\n")
    with pytest.raises(InputError, match=r"^measure\.neighbours\.captions=.*empty\.txt: holds no captions$"):
        NeighboursTask(NeighboursTask.Config(captions=(str(tmp_path / "empty.txt"),))).check(Records("none", (), ()))
