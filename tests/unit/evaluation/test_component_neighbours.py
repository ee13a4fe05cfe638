"""Whether neighbours among components share a hypernym: against loops, orders and subsets, on a tiny WordNet."""

import io
import itertools
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from tests.levels import slow_but
from tests.unit.evaluation.contexts import MadeUpRuns, split_of
from tests.unit.evaluation.models import Cosine, unit
from tests.unit.evaluation.test_component_queries import joined
from tests.unit.text.lexicon import database
from vse.data.records import Caption, Records
from vse.errors import InputError
from vse.evaluation.component_kinds import common_kinds, kinds_of
from vse.evaluation.component_picture import Level, component_figure, in_two_dimensions
from vse.evaluation.protocol import WHOLE_SPLIT
from vse.evaluation.task import Context, measured
from vse.evaluation.tasks.component_neighbours import ComponentNeighboursTask
from vse.text.lexicon.lexicon import Lexicon
from vse.text.lexicon.wordnet import read_wordnet

pytestmark = pytest.mark.seconds

# Of the database: cat, dog and poodle are animals, a sofa is a couch, and a zebra is not listed.
NOUNS = ("dog", "cat", "poodle", "sofa", "couch", "idea", "plan", "knife", "zebra")
PARENTS = {
    "dog": "canine",
    "canine": "animal",
    "cat": "animal",
    "animal": "physical_entity",
    "poodle": "dog",
    "couch": "physical_entity",
    "knife": "physical_entity",
    "idea": "abstraction",
    "physical_entity": "entity",
    "abstraction": "entity",
}
SENSE = {"sofa": "couch", "plan": "couch"}  # a plan is an idea first, which no picture shows


def chain(noun, steps):
    """The first sense of a noun that is a physical entity, else its first one, and what is above it, in names."""
    names = [SENSE.get(noun, noun)]
    while names[-1] in PARENTS and len(names) <= steps:
        names.append(PARENTS[names[-1]])
    return set(names) if noun != "zebra" else set()


def shares(one, other, steps):
    return float(bool(chain(one, steps) & chain(other, steps)))


class Runs(MadeUpRuns):
    """Captions that say one noun, one pair and one triple each; few distinct vectors, so that cosines tie."""

    def __init__(self, seed, number=40):
        rng = np.random.default_rng(seed)
        image = np.sort(rng.integers(6, size=number))
        split = split_of(image, 6)
        self.said = [tuple(map(str, rng.choice(NOUNS, 3))) for _ in image]
        texts = [f"{' '.join(each)} {row}" for row, each in enumerate(self.said)]
        self.known = {
            text: joined((a,), ("red", b), (b, "on", c)) for text, (a, b, c) in zip(texts, self.said, strict=True)
        }
        captions = tuple(Caption(f"caption {row}", split.images[image[row]].id, text) for row, text in enumerate(texts))
        records = Records("made up", split.images, captions)
        super().__init__(Cosine(), {}, {}, records.split("test"), records=records)
        self.kinds = unit(torch.randn(4, 5, generator=torch.Generator().manual_seed(seed)))

    def parsed(self, texts):
        return [((), self.known[text]) for text in texts]

    def code(self, text):
        return self.kinds[sum(map(ord, text)) % 4]

    def encode_phrases(self, texts, components):
        for text, each in zip(texts, components, strict=True):
            said = each.objects + each.attributes + each.relations
            assert len(said) == 1  # one component each, of these words
            assert said[0].word in text
        return {"captions": torch.stack([self.code(text) for text in texts])}

    def vectors(self, codes, side):
        assert side == "captions"
        return codes["captions"]


def expected_of(runs, components, place, number, steps):
    """(shared, random, components) in percent by loops: all orders of tied candidates, and all subsets."""
    shared, random = [], []
    listed = [each for each in components if each[place] != "zebra"]
    for query in listed:
        others = [each for each in listed if each[place] != query[place]]
        if not others:
            continue
        score = {each: float(runs.code(" ".join(query)) @ runs.code(" ".join(each))) for each in others}
        value = {each: shares(query[place], each[place], steps) for each in others}
        taken = min(number, len(others))
        ranked = sorted(others, key=lambda each: -round(score[each], 4))
        last = round(score[ranked[taken - 1]], 4)
        above = [each for each in others if round(score[each], 4) > last]
        tied = [each for each in others if round(score[each], 4) == last]
        ways = list(itertools.combinations(tied, taken - len(above)))
        shared.append(np.mean([np.mean([value[each] for each in (*above, *way)]) for way in ways]))
        if len(others) <= 12:
            random.append(np.mean([np.mean([value[e] for e in way]) for way in itertools.combinations(others, taken)]))
        else:
            random.append(np.mean(list(value.values())))
    return 100 * np.mean(shared), 100 * np.mean(random), len(shared)


def measure(runs, tmp_path, **keys) -> Any:
    config = ComponentNeighboursTask.Config(lexicon=database.write(tmp_path), **keys)
    return measured(ComponentNeighboursTask(config), Context(runs, runs.split, WHOLE_SPLIT, {}, whole=True))


@pytest.mark.parametrize("seed", slow_but([0, 1, 2], 0))
@pytest.mark.parametrize(("number", "steps"), [(1, 1), (3, 2), (50, 3)])
def test_the_task_against_loops_over_all_components(seed, number, steps, tmp_path):
    runs = Runs(seed)
    values, _, recorded = measure(runs, tmp_path, number=number, steps=steps, least=1)
    objects = sorted({(a,) for a, _, _ in runs.said})
    pairs = sorted({("red", b) for _, b, _ in runs.said})
    triples = sorted({(b, "on", c) for _, b, c in runs.said})
    for name, (components, place) in {
        "obj": (objects, 0),
        "attr": (pairs, 1),
        "rel_subject": (triples, 0),
        "rel_object": (triples, 2),
    }.items():
        shared, random, number_of = expected_of(runs, components, place, number, steps)
        head = f"component_neighbours_{name}"
        assert values[f"{head}/shared"] == pytest.approx(shared)
        assert values[f"{head}/random"] == pytest.approx(random)
        assert values[f"{head}/above"] == pytest.approx(shared - random)
        assert values[f"{head}/queries"] == number_of
        assert 0 < random < 100
    for each in recorded:
        assert values[each.metric] == pytest.approx(100 * each.hits.sum() / each.queries.sum())


def test_components_of_few_captions_and_beyond_the_most_frequent_are_left_out(tmp_path):
    runs = Runs(3, number=60)
    counts = {noun: sum(a == noun for a, _, _ in runs.said) for noun in NOUNS}
    values, _, _ = measure(runs, tmp_path, least=6)
    kept = [noun for noun, count in counts.items() if count >= 6 and noun != "zebra"]
    assert values["component_neighbours_obj/queries"] == len(kept) < 8
    values, _, _ = measure(runs, tmp_path, least=1, most=6)
    first = sorted(counts, key=lambda noun: (-counts[noun], noun))[:6]
    assert values["component_neighbours_obj/queries"] == len([noun for noun in first if noun != "zebra"])


def test_nothing_is_measured_of_components_that_the_lexicon_lacks(tmp_path):
    runs = Runs(0)
    runs.known = {text: joined(("zebra",)) for text in runs.known}
    values, pictures, recorded = measure(runs, tmp_path, least=1)
    assert (values, pictures, recorded) == ({}, {}, [])


def test_kinds_are_the_first_sense_that_can_be_seen_and_what_is_above_it(tmp_path):
    lexicon = read_wordnet(database.write(tmp_path))
    names: Any = {name: (str(offset),) for name, (offset, _) in database.SYNSETS.items()}
    for noun, steps in itertools.product(NOUNS, (1, 2, 3, 9)):
        assert kinds_of(noun, lexicon, steps) == {names[each] for each in chain(noun, steps)}


def test_nouns_are_shown_as_the_hypernyms_that_most_of_them_have():
    parents = {1: (), 2: (1,), 3: (1,), 4: (2,), 5: (2,), 6: (2,), 7: (3,), 8: (3,), 9: (1,)}
    words = {"thing": (1,), "pet": (2,), "feline_pet": (2,), "tool": (3,), "cat": (4,), "dog": (5,), "rabbit": (6,)}
    lexicon = Lexicon({**words, "saw": (7,), "axe": (8,), "sea": (9,)}, parents, {}, "made up")
    nouns = ["cat", "dog", "saw", "axe", "sea", "zebra"]
    assert common_kinds(nouns, lexicon, 5) == ["pet", "pet", "tool", "tool", "", ""]
    assert common_kinds(nouns, lexicon, 1) == ["pet", "pet", "", "", "", ""]
    assert common_kinds(nouns, lexicon, 5, most=0.3) == [""] * 6
    assert common_kinds(nouns, lexicon, 1, most=1.0) == ["thing"] * 5 + [""]


def test_points_are_the_same_each_time_and_keep_groups_together():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(3), 12)
    vectors = np.eye(8)[group] + 0.1 * rng.normal(size=(36, 8))
    points = in_two_dimensions(vectors)
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1) + np.diag(np.full(36, np.inf))
    assert (group[distance.argmin(1)] == group).all()
    np.testing.assert_array_equal(points, in_two_dimensions(vectors))
    assert in_two_dimensions(vectors[:6]).shape == (6, 2)


def test_a_picture_has_a_panel_for_each_level_with_enough_components(tmp_path):
    runs = Runs(1)
    _, pictures, _ = measure(runs, tmp_path, least=1)
    assert set(pictures) == {"components.png"}
    wide = PIL.Image.open(io.BytesIO(pictures["components.png"])).size[0]
    vectors = np.random.default_rng(0).normal(size=(6, 4))
    one = component_figure([Level("objects", ["$5 or $6", *"abcde"], ["", "x", "x", "y", "", ""], vectors)])
    assert PIL.Image.open(io.BytesIO(one)).size[0] * 3 == pytest.approx(wide, abs=3)


def test_a_directory_without_wordnet_is_one_line_that_says_how_to_get_it(tmp_path):
    task = ComponentNeighboursTask(ComponentNeighboursTask.Config(lexicon=str(tmp_path)))
    with pytest.raises(InputError, match=r"^measure\.component_neighbours\.lexicon=.*apt-get install wordnet-base"):
        task.check(Records("none", (), ()))
    shipped = ComponentNeighboursTask()
    shipped.check(Records("none", (), ()))
    assert shipped.content() == shipped.lexicon.fingerprint
