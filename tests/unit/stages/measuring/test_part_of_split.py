"""What is encoded of a split: what the protocol takes, adversaries attack by attack, and the numbers stay."""

import weakref

import pytest
import torch

from tests.unit.asked import CONTRAST, asked, contrast
from vse.data.records import Split
from vse.evaluation.protocol import PUBLISHED, Protocol
from vse.stages import trained
from vse.stages.measuring import members, plan
from vse.stages.measuring.stage import measure_run

pytestmark = pytest.mark.seconds

CHANGES = {"data.num_val": 4, "data.num_test": 8, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 32}


@pytest.mark.slow
@pytest.mark.parametrize("family", ["univse", "vsepp"])
def test_what_a_protocol_leaves_out_is_not_encoded_and_changes_no_number(monkeypatch, request, place, family):
    run = request.getfixturevalue(family)
    few = Protocol(name="four images in folds", num_images=4, folds=2, captions_per_image=2)
    monkeypatch.setitem(PUBLISHED, "coco_1k_first", few)
    options = asked("retrieval", "attacks", *CONTRAST, protocol="coco_1k_first", **contrast("all"))
    encoded, encode = list[int](), members.encode_split

    def watched(*arguments):
        codes = encode(*arguments)
        encoded.extend(map(len, (*codes.images.values(), codes.caption_to_image)))
        return codes

    monkeypatch.setattr(members, "encode_split", watched)
    found, items = measure_run(run, place, *options), sum(encoded)
    with monkeypatch.context() as patched:
        patched.setattr(Split, "first", lambda whole, images: whole)
        assert measure_run(run, place, *options) == found
    assert all(key.startswith("test/coco_1k_first/") for key in found)
    with monkeypatch.context() as patched:
        patched.setattr(Split, "first", lambda whole, images: whole)
        patched.setattr("vse.stages.measuring.context.of_captions", lambda every, captions: every)
        patched.setattr(plan, "REVISION", 99)
        encoded.clear()
        whole = measure_run(run, place, *options)
    assert items < 0.7 * sum(encoded)  # four of eight images
    for key, value in found.items():
        assert whole[key] == value or ("attack" in key and key.endswith("unknown_words")), key


@pytest.mark.slow
def test_codes_of_an_attack_are_forgotten_before_the_next_is_encoded(monkeypatch, place, univse):
    """Those of SCAN are of every word: an attack on COCO's test split would take 6 to 24 GiB."""
    before, encode = list[weakref.ref[torch.Tensor]](), trained.encode_captions

    def watched(model, texts, *more):
        assert not [ref for ref in before if ref() is not None]
        codes = encode(model, texts, *more)
        before.extend(weakref.ref(each) for each in codes.values())
        return codes

    monkeypatch.setattr(trained, "encode_captions", watched)
    measure_run(univse, place, *asked("retrieval", "attacks", *CONTRAST, **contrast("shared", "disjoint")))
    assert len(before) > 10


def test_true_pairs_under_a_protocol_are_those_of_the_whole_split(monkeypatch, place, vsepp):
    monkeypatch.setitem(PUBLISHED, "coco_1k_first", Protocol(name="two images", num_images=2))
    found = measure_run(vsepp, place, *asked("retrieval", "true_pairs", protocol="coco_1k_first"))
    whole = measure_run(vsepp, place, *asked("retrieval", "true_pairs"))
    named = {key for key in whole if key.startswith("test/true_pairs/")}
    assert named
    assert {key: found[key] for key in named} == {key: whole[key] for key in named}
    assert found["test/coco_1k_first/i2t/meanr"] <= whole["test/i2t/meanr"]


def test_codes_of_a_split_are_released_before_the_next_are_encoded(monkeypatch, place, univse):
    alive, encode = list[weakref.ref[torch.Tensor]](), members.encode_split

    def watched(*arguments):
        assert not [ref for ref in alive if ref() is not None]
        codes = encode(*arguments)
        alive.extend(weakref.ref(each) for each in codes.images.values())
        return codes

    monkeypatch.setattr(members, "encode_split", watched)
    measure_run(univse, place, *asked("retrieval", "alpha_curve", splits=("val", "test"), alpha_curve__alphas=(0.5,)))
    assert len(alive) == 2
