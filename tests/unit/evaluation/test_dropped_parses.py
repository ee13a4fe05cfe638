"""UniVSE's Test Drop: which components are left, against a loop over draws; what it does to a run."""

import hashlib

import numpy as np
import pytest

from tests.unit.asked import asked
from vse.config import override
from vse.data import keyed
from vse.evaluation.dropped_parses import DroppedParses
from vse.presets import preset
from vse.stages.measuring import members
from vse.stages.measuring.stage import measure_run
from vse.stages.train import run_training
from vse.text.components import Attribute, Components, Object, Relation
from vse.text.vocabulary import build_vocabulary
from vse.training.examples import encode_texts
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

NOUNS = ("dog", "cat", "bus", "tree", "hat")
TEXTS = tuple(f"caption {k}" for k in range(400))


class Whole:
    """Parses of made-up captions: four attributes, of which two say the same, and three relations each."""

    fingerprint = "0a1b2c3d"

    def parse(self, text):
        return ()

    def components(self, text):
        shift = int(text.split()[-1])
        names = [NOUNS[(shift + k) % 5] for k in range(4)]
        attributes = [("red", names[0]), ("old", names[1]), ("red", names[0]), ("wet", names[2])]
        relations = [(names[k], "near", names[k + 1]) for k in range(3)]
        return Components(
            tuple(Object(name, k) for k, name in enumerate(names)),
            tuple(Attribute(word, noun, k, k + 9) for k, (word, noun) in enumerate(attributes)),
            tuple(Relation(a, word, b, k, (k + 1,), k + 2) for k, (a, word, b) in enumerate(relations)),
        )


def kept_by_hand(text, seed, share):
    """Component by component: one draw for each different one, in their order, from the key of (seed, kind, text)."""
    sample = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    whole, left = Whole().components(text), []
    for kind, items in (
        ("attributes", [(a.word, a.noun) for a in whole.attributes]),
        ("relations", [(r.subject, r.word, r.object) for r in whole.relations]),
    ):
        key = keyed.keys(seed, 0, f"test drop {kind}", np.array([sample], dtype=np.uint64))
        draws = keyed.uniform(key, 9)[0].tolist()
        seen = []
        for item in items:
            if item not in seen:
                seen.append(item)
        left.append([item for item in items if draws[seen.index(item)] >= share])
    return left


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_what_is_left_is_a_function_of_seed_and_text(share):
    dropped = DroppedParses(Whole(), share, seed=3)
    counts = np.zeros(4)
    for text in reversed(TEXTS):
        found, whole = dropped.components(text), Whole().components(text)
        attributes, relations = kept_by_hand(text, 3, share)
        assert found.objects == whole.objects
        assert [(a.word, a.noun) for a in found.attributes] == attributes
        assert [(r.subject, r.word, r.object) for r in found.relations] == relations
        counts += [len(set(attributes)), 3, len(relations), 3]
    assert counts[0] / counts[1] == pytest.approx(1 - share, abs=0.04)
    assert counts[2] / counts[3] == pytest.approx(1 - share, abs=0.04)


def test_seeds_texts_and_kinds_are_drawn_apart():
    one, other = (DroppedParses(Whole(), 0.5, seed) for seed in (0, 1))
    assert one.fingerprint != other.fingerprint != Whole.fingerprint
    masks = {
        name: np.array([[item in getattr(left.components(t), kind) for item in _distinct(t, kind)] for t in TEXTS])
        for name, left, kind in (
            ("attributes", one, "attributes"),
            ("relations", one, "relations"),
            ("others", other, "attributes"),
        )
    }
    for a, b in (("attributes", "relations"), ("attributes", "others")):
        assert abs(np.corrcoef(masks[a].ravel(), masks[b].ravel())[0, 1]) < 0.1
    first = masks["attributes"]
    assert abs(np.corrcoef(first[:-1].ravel(), first[1:].ravel())[0, 1]) < 0.1


def _distinct(text, kind):
    items = getattr(Whole().components(text), kind)
    return [items[0], items[1], items[3]] if kind == "attributes" else list(items)


def test_batches_and_order_change_nothing():
    vocabulary = build_vocabulary([" ".join((*NOUNS, "red old wet near"))])
    dropped = DroppedParses(Whole(), 0.4, seed=0)
    together = encode_texts(TEXTS[:50], vocabulary, dropped)
    for k in (7, 0, 49):
        alone = encode_texts(TEXTS[k : k + 1], vocabulary, dropped)
        for kind in ("objects", "attributes", "relations"):
            assert getattr(alone, kind).row(0).tolist() == getattr(together, kind).row(k).tolist()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Workspace.open(str(tmp_path_factory.mktemp("dropped")))


@pytest.fixture(scope="module")
def runs(place):
    sizes = {"data.num_val": 4, "data.num_test": 6, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 32}
    return {name: run_training(override(preset(f"{name}_tiny"), sizes), place).folder for name in ("univse", "vsepp")}


@pytest.mark.slow
def test_all_dropped_is_a_bag_of_objects(place, runs):
    def at(name="univse", **changes):
        return measure_run(runs[name], place, *asked(attacks__words=("shared",), **changes))

    objects = at(components=("object",))
    assert at(drop_components=1.0) == objects  # of captions and of adversaries
    assert at(drop_components=1.0, drop_seed=5) == objects
    some = at(drop_components=0.5, alpha=0.0)
    assert some not in (at(alpha=0.0), at(components=("object",), alpha=0.0))
    assert some != at(drop_components=0.5, drop_seed=1, alpha=0.0)
    assert {k: v for k, v in some.items() if "unknown" in k} == {k: v for k, v in objects.items() if "unknown" in k}
    assert at("vsepp", drop_components=0.5) == at("vsepp")  # reads no components


def test_adversaries_are_made_of_whole_parses(place, runs, monkeypatch):
    seen = []
    original = members.unencoded_adversaries

    def watching(trained, found, material):
        seen.append((found, material.parses))
        return original(trained, found, material)

    monkeypatch.setattr(members, "unencoded_adversaries", watching)
    for share in (0.0, 0.7):
        measure_run(runs["univse"], place, *asked(attacks__words=("shared",), drop_components=share, drop_seed=9))
    (whole, _), (dropped, parses) = seen
    assert dropped.texts == whole.texts
    assert not isinstance(parses, DroppedParses)
    assert isinstance(dropped.parses, DroppedParses)
