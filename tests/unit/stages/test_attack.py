"""The attack stage: one file for every model, parsed like any text, and false of the images."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.levels import slow_but
from vse.adversaries.attacks import ATTACKS
from vse.adversaries.vsec.candidates import Rules
from vse.config import override
from vse.data.sources.scenes import Scenes
from vse.errors import InputError
from vse.presets import preset
from vse.stages import attack as stage
from vse.stages import pipeline
from vse.stages.attack import (
    FILE,
    Adversaries,
    attack_split,
    contrast_split,
    nonempty_attacks,
    of_captions,
    some_adversaries,
)
from vse.text.tokens import words
from vse.workspace.layout import Workspace

SMALL = {"data.num_val": 4, "data.num_test": 8, "data.num_shifted": 3}
CONFIG = override(preset("univse_tiny"), SMALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    workspace = Workspace.open(str(tmp_path_factory.mktemp("adversaries")))
    return workspace, pipeline.prepare(CONFIG, workspace)


@pytest.fixture(scope="module", params=["shared", "disjoint"])
def made(place, request):
    workspace, material = place
    return attack_split(CONFIG, workspace, material, "test", request.param)


@pytest.mark.seconds
def test_every_kind_of_attack_has_texts(place, made):
    captions = place[1].records.split("test").captions
    assert made.texts.keys() == made.caption.keys() == set(ATTACKS)
    for attack in ATTACKS:
        texts, caption = made.texts[attack], made.caption[attack]
        assert len(texts) == len(caption)
        assert len(texts) > len(captions) / 4, attack
        assert caption.min() >= 0
        assert caption.max() < len(captions)
        assert (np.diff(caption) >= 0).all()
        assert np.bincount(caption).max() <= 5


@pytest.mark.seconds
def test_adversaries_are_false_and_new(place, made):
    material = place[1]
    split, judge = material.records.split("test"), Scenes.truth(material.records)
    known = {}
    for caption in split.captions:
        known.setdefault(caption.image, set()).add(words(caption.text))
    verdicts = []
    for attack in ATTACKS:
        for text, caption in zip(made.texts[attack], made.caption[attack], strict=True):
            image = split.captions[caption].image
            verdicts.append(judge(image, text))
            assert words(text) not in known[image]
    assert True not in verdicts
    assert verdicts.count(False) > 0.9 * len(verdicts)  # the judge could read nearly all of them
    assert all(judge(caption.image, caption.text) for caption in split.captions)  # and says yes to the captions


@pytest.mark.seconds
def test_as_printed_they_are_drawn_from_the_same_words_and_some_are_true(place):
    workspace, material = place
    split, judge = material.records.split("test"), Scenes.truth(material.records)
    ours, printed = _made(place, "shared"), _made(place, "published")
    assert printed.fingerprint != ours.fingerprint
    true = {
        attack: sum(
            judge(split.captions[caption].image, text) is True
            for text, caption in zip(printed.texts[attack], printed.caption[attack], strict=True)
        )
        for attack in ATTACKS
    }
    assert true["attribute"] > 0, true
    rows = stage.generator.from_json_lines(
        workspace.language(pipeline.dataset_name(material.records), printed.fingerprint).read_bytes(FILE)
    )
    known = {word for entries in material.pools.of("shared").words().values() for word in entries}
    assert {word for row in rows for word in row.words_in} <= known


@pytest.mark.seconds
def test_texts_are_parsed_by_the_parser(made, place):
    for attack in ATTACKS:
        for text in made.texts[attack][:20]:
            assert tuple(t.text.lower() for t in made.parses.parse(text)) == words(text) or "'" in text
            assert made.parses.components(text) is not None
    known = place[1].parses
    assert known is not None
    assert made.parses.fingerprint == known.fingerprint


@pytest.mark.seconds
def test_disjoint_words_are_no_training_negatives(place):
    workspace, material = place
    pools = material.pools
    training = {w for entries in pools.training.words().values() for w in entries}
    folder = workspace.language(pipeline.dataset_name(material.records), _made(place, "disjoint").fingerprint)
    rows = stage.generator.from_json_lines(folder.read_bytes(FILE))
    assert rows
    new = {w for row in rows for w in row.words_in}
    held_out = {w for entries in pools.of("disjoint").words().values() for w in entries}
    assert new
    assert new <= held_out
    assert not held_out & training


def _made(place, words_):
    return attack_split(CONFIG, place[0], place[1], "test", words_)


def test_the_file_is_made_once_and_serves_every_model(place, made, monkeypatch):
    monkeypatch.setattr(stage.generator, "generate", lambda *a, **k: pytest.fail("generated again"))
    workspace, _ = place
    other = override(preset("vsepp_tiny"), SMALL)
    material = pipeline.prepare(other, workspace, parsed=True)
    again = attack_split(other, workspace, material, "test", made.words)
    assert (again.fingerprint, again.texts) == (made.fingerprint, made.texts)
    assert all(np.array_equal(again.caption[a], made.caption[a]) for a in ATTACKS)


@pytest.mark.seconds
def test_vse_c_sets_follow_the_rules_of_the_configuration(place):
    """A lexicon, scores or rules of the user's own, in all paradigms whichever the run trains with."""
    workspace, material = place
    ours = contrast_split(CONFIG, workspace, material, "shifted", "all")
    assert ours.fingerprint == contrast_split(CONFIG, workspace, material, "shifted", "all", Rules()).fingerprint
    few = override(CONFIG, {"text.contrast.paradigms": "noun"})
    assert contrast_split(few, workspace, material, "shifted", "all").fingerprint == ours.fingerprint
    rules = {"text.contrast.agreement": False, "text.contrast.concrete_share": 0.5}
    other = contrast_split(override(CONFIG, rules), workspace, material, "shifted", "all")
    assert other.texts != ours.texts
    given = Rules(agreement=False, concrete_share=0.5)
    assert other.fingerprint == contrast_split(CONFIG, workspace, material, "shifted", "all", given).fingerprint


@pytest.mark.seconds
def test_splits_and_words_have_their_own(place, made, monkeypatch):
    workspace, material = place
    val = attack_split(CONFIG, workspace, material, "val", "shared")
    assert val.fingerprint != made.fingerprint
    assert (val.split, made.split) == ("val", "test")
    monkeypatch.setattr(stage.generator, "REVISION", 99)
    assert attack_split(CONFIG, workspace, material, "val", "shared").fingerprint != val.fingerprint


@pytest.mark.seconds
@pytest.mark.parametrize("make", slow_but([attack_split, contrast_split], attack_split), ids=lambda make: make.__name__)
def test_the_first_images_have_the_adversaries_that_they_have_among_all(place, monkeypatch, make):
    workspace, material = place
    part = material.records.split("test")
    whole = make(CONFIG, workspace, material, "test", "shared")
    inside = [k for k, caption in enumerate(part.captions) if caption.image in {i.id for i in part.images[:3]}]
    read = list[int]()
    parsed = stage._parsed
    monkeypatch.setattr(stage, "_parsed", lambda all_, some: read.append(len(some.captions)) or parsed(all_, some))
    few = make(CONFIG, workspace, material, "test", "shared", images=3)
    assert read == [len(inside)]  # nothing is made for the others
    for attack, texts in whole.texts.items():
        kept = [k for k, row in enumerate(whole.caption[attack]) if row in inside]
        assert few.caption[attack].tolist() == [whole.caption[attack][k] for k in kept]
        assert few.texts[attack] == tuple(texts[k] for k in kept)
    assert few.fingerprint != whole.fingerprint
    assert make(CONFIG, workspace, material, "test", "shared", images=8).fingerprint == whole.fingerprint


def test_adversaries_of_some_captions(place, made):
    captions = np.array([1, 4, 5])
    some = of_captions(made, captions)
    for attack, texts in made.texts.items():
        expected = [(t, c) for t, c in zip(texts, made.caption[attack], strict=True) if c in captions]
        assert list(zip(some.texts[attack], some.caption[attack], strict=True)) == expected
    assert of_captions(made, np.arange(1000)) is made


def test_attacks_without_adversaries_of_some_captions_have_no_texts():
    """Neither one that found nothing in the split nor one whose captions are left out."""
    caption = {"object": np.array([0, 3]), "relation": np.empty(0, np.int64), "attribute": np.array([3])}
    texts: dict[str, tuple[str, ...]] = {"object": ("a", "b"), "relation": (), "attribute": ("c",)}
    parses: Any = None
    few = of_captions(nonempty_attacks(Adversaries("test", "shared", "", texts, caption, parses)), np.array([0, 1]))
    assert few.texts == {"object": ("a",)}
    assert {name: rows.tolist() for name, rows in few.caption.items()} == {
        "object": [0],
        "relation": [],
        "attribute": [],
    }


@pytest.mark.seconds
def test_a_file_that_was_cut_off_is_made_again(place):
    workspace, material = place
    whole = attack_split(CONFIG, workspace, material, "shifted", "shared")
    folder = workspace.language(pipeline.dataset_name(material.records), whole.fingerprint)
    path = folder.local(FILE)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    again = attack_split(CONFIG, workspace, material, "shifted", "shared")
    assert again.texts == whole.texts
    assert path.read_bytes() == data


def test_a_split_that_is_not_there(place):
    with pytest.raises(InputError, match="no split 'tset'; it has train, val, test, shifted"):
        attack_split(CONFIG, place[0], place[1], "tset", "shared")


def test_no_disjoint_words_where_negatives_take_all(place):
    config = override(CONFIG, {"text.pools.held_out": False})
    material = pipeline.prepare(config, place[0])
    assert material.pools.training == material.pools.attack_only
    assert len(material.pools.training.nouns) > len(place[1].pools.training.nouns)
    with pytest.raises(InputError, match=r"pools\.held_out=false leaves no words"):
        attack_split(config, place[0], material, "test", "disjoint")


def _less(made, *attacks):
    """The adversaries, as if some attacks had found nothing."""
    texts, caption = dict.fromkeys(attacks, ()), dict.fromkeys(attacks, np.empty(0, np.int64))
    return dataclasses.replace(made, texts={**made.texts, **texts}, caption={**made.caption, **caption})


def test_attacks_that_find_nothing_are_told_before_robustness_is_chosen_by(made, caplog):
    with caplog.at_level("WARNING", "vse"):
        some_adversaries(made)
        assert not caplog.text
        some_adversaries(_less(made, "relation"))
    assert "split test has no relation adversaries; robustness is computed from the other attacks" in caplog.text
    none = _less(made, *ATTACKS)
    with pytest.raises(InputError, match="split test: its captions have no object, attribute, relation that could be"):
        some_adversaries(none)
