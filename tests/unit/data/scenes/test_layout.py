import itertools
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vse.data.scenes.layout import BIAS, CANVAS, Address, Draw, scene_of
from vse.data.scenes.world import NOUNS, SIZES, SPLITS
from vse.errors import InputError

ADDRESSES = st.builds(
    Address, st.integers(0, 3), st.sampled_from(SPLITS), st.integers(0, 500), st.sampled_from(("plain", "second"))
)


@given(ADDRESSES)
@settings(max_examples=50, deadline=None)
def test_everything_lies_on_the_canvas_and_contacts_name_things(address: Address) -> None:
    scene = scene_of(address.uri)
    assert len(scene.things) >= 2
    for thing in scene.things:
        assert thing.noun in NOUNS
        assert thing.size in SIZES
        assert 1 <= thing.count <= 5
        for left, top, right, bottom in thing.boxes:
            assert 0 <= left < right <= CANVAS
            assert 0 <= top < bottom <= CANVAS
    for a, _, b in scene.contacts:
        assert {a, b} <= set(range(len(scene.things)))
        assert a != b


@given(ADDRESSES)
@settings(max_examples=20, deadline=None)
def test_uri_round_trip_and_style_changes_no_content(address: Address) -> None:
    assert Address.parse(address.uri) == address
    other = Address(address.seed, address.split, address.index, "second", 224)
    assert scene_of(other.uri).things == scene_of(address.uri).things


@pytest.mark.parametrize(
    "uri",
    [
        "scene:",
        "scene:seed=0",
        "scene:seed=x,split=train,index=0",
        "scene:seed=0,split=dev,index=0",
        "scene:seed=0,split=train,index=-1",
        "scene:seed=0,split=train,index=0,drawing=third",
        "scene:seed=0,split=train,index=0,size=4",
        "scene:seed=0,split=train,index=0,more=1",
        "photo:seed=0,split=train,index=0",
    ],
)
def test_wrong_addresses_are_input_errors(uri: str) -> None:
    with pytest.raises(InputError, match=uri.split(",")[0]):
        Address.parse(uri)


def _share(split: str) -> dict[str, float]:
    hits = {"colour": 0, "pattern": 0, "contact": 0}
    totals = dict.fromkeys(hits, 0)
    for index in range(120):
        scene = scene_of(Address(0, split, index).uri)
        for thing in scene.things:
            kind = NOUNS[thing.noun]
            totals["colour"] += 1
            totals["pattern"] += 1
            hits["colour"] += thing.colour in kind.colours
            hits["pattern"] += thing.pattern in kind.usual_patterns
        for a, name, _ in scene.contacts:
            totals["contact"] += 1
            hits["contact"] += name in NOUNS[scene.things[a].noun].usual_contacts
    return {kind: hits[kind] / totals[kind] for kind in hits}


def test_training_and_test_are_biased_and_the_shifted_split_breaks_the_pairings() -> None:
    for split in ("train", "val", "test"):
        shares = _share(split)
        assert all(share > BIAS - 0.08 for share in shares.values()), (split, shares)
    assert set(_share("shifted").values()) == {0.0}
    free = _share("pretrain")
    assert free["colour"] == pytest.approx(3 / 11, abs=0.06)
    assert free["pattern"] == pytest.approx(1 / 2, abs=0.06)


def test_biased_scenes_keep_to_a_theme_and_broken_ones_mix_them() -> None:
    def same_theme(split: str) -> float:
        pairs = same = 0
        for index in range(100):
            themes = [NOUNS[t.noun].theme for t in scene_of(Address(0, split, index).uri).things]
            pairs += len(themes) - 1
            same += sum(a == b for a, b in itertools.pairwise(themes))
        return same / pairs

    assert same_theme("test") > 0.6
    assert same_theme("shifted") < 0.1


def test_splits_and_seeds_draw_different_scenes() -> None:
    scenes = [
        scene_of(Address(seed, split, index).uri).things for seed in (0, 1) for split in SPLITS for index in range(40)
    ]
    assert len(set(scenes)) == len(scenes)


@pytest.mark.process
@pytest.mark.slow
def test_hash_randomisation_changes_nothing() -> None:
    code = (
        "from vse.data.scenes.grammar import captions_of\n"
        "from vse.data.scenes.layout import Address, scene_of\n"
        "for i in range(20):\n"
        "    a = Address(2, 'train', i)\n"
        "    print(scene_of(a.uri).things, [t for _, t in captions_of(a)])\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1"},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


def test_draw_is_fair() -> None:
    draw = Draw("fair")
    counts = [0] * 5
    for _ in range(5000):
        counts[draw.between(0, 4)] += 1
    assert min(counts) > 850
    heavy = sum(draw.weighted((("a", 3.0), ("b", 1.0))) == "a" for _ in range(4000)) / 4000
    assert heavy == pytest.approx(0.75, abs=0.03)
    assert sorted(draw.shuffled(range(9))) == list(range(9))
