"""Several trained runs measured as one: the same as one run, as whole matrices, and refused where data differ."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.unit.asked import asked
from vse.config import override
from vse.errors import InputError
from vse.evaluation.metrics import RetrievalCounter
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.attack import attack_split
from vse.stages.measuring.members import Member, Members
from vse.stages.measuring.plan import plan_measure
from vse.stages.measuring.stage import measure, measure_run
from vse.stages.train import run_training
from vse.stages.trained import encode_adversaries, encode_split, load_run

pytestmark = pytest.mark.seconds

CHANGES = {"data.num_val": 4, "data.num_test": 8, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 32}


@pytest.fixture(scope="module")
def runs(place):
    """VSE++ and two UniVSE of different seeds and different α."""

    def trained(name, **more):
        return run_training(override(preset(name), {**CHANGES, **more}), place).folder

    return trained("vsepp_tiny"), trained("univse_tiny"), trained("univse_tiny", seed=1, **{"model.alpha": 0.4})


def member(run, place, **settings):
    trained = load_run(run)
    return Member(run.name, trained, pipeline.prepare(trained.config, place, parsed=True), trained.config, settings)


def test_a_run_with_itself_measures_as_the_run(place, runs):
    for run, more in ((runs[0], ()), (runs[1], ("attacks",))):
        options = asked("retrieval", "true_pairs", *more, attacks__words=("shared",))
        twice = measure([run, run], place.ensemble("twice").child(run.name), place, *options).metrics
        assert twice == measure_run(run, place, *options)


def test_several_runs_are_scored_by_the_mean_of_their_whole_matrices(place, runs):
    members, true, false = [member(run, place) for run in runs], [], []
    for one in members:
        family, codes = one.trained.family, encode_split(one.trained, one.material, "test")
        found = attack_split(one.trained.config, place, one.material, "test", "shared")
        relation = encode_adversaries(one.trained, found, one.material)["relation"]
        with torch.inference_mode():
            for scores, texts in ((true, codes.captions), (false, relation.encoded)):
                scores.append(family.scores(dict(codes.images), dict(texts)))
    made = attack_split(members[0].trained.config, place, members[0].material, "test", "shared")
    caption_to_image = torch.as_tensor(members[0].material.records.split("test").caption_to_image)
    caption = torch.as_tensor(made.caption["relation"])
    scores, attacked = sum(true[1:], true[0]) / 3, sum(false[1:], false[0]) / 3
    pairs = scores[caption_to_image, torch.arange(len(caption_to_image))]
    counter = RetrievalCounter(pairs, caption_to_image, len(scores))
    counter.add(scores, slice(0, len(scores)), slice(0, len(caption_to_image)))
    found = measure(runs, place.ensemble("three"), place, *asked(attacks__words=("shared",))).metrics
    for key, value in counter.result().metrics().items():
        assert found[f"test/{key}"] == value
    ahead = pairs[caption] - attacked[caption_to_image[caption], torch.arange(len(caption))]
    # an adversary of unknown words may read alike
    wins = (ahead > 1e-6).double() + 0.5 * (ahead.abs() <= 1e-6).double()
    assert found["test/attack_relation/pair_accuracy"] == pytest.approx(100 * wins.mean().item())
    assert found.keys() == measure_run(runs[0], place, *asked(attacks__words=("shared",))).keys()


def test_each_is_scored_at_its_own_alpha_unless_one_is_given(place, runs):
    def at(**changes):
        return measure(runs[1:], place.ensemble("alphas"), place, *asked("retrieval", **changes)).metrics

    members = Members((member(runs[1], place, alpha=0.75), member(runs[2], place, alpha=0.4)), place)
    codes = members.encode(members.split("test"))
    with torch.inference_mode():
        own = members.model.score_parts(codes.images, codes.captions)["mean"]
        same = Members((members.each[0], replace(members.each[1], settings={"alpha": 0.75})), place).model
        one = same.score_parts(codes.images, codes.captions)["mean"]
        configured = Members(tuple(replace(each, settings={}) for each in members.each), place).model
        assert torch.equal(configured.score_parts(codes.images, codes.captions)["mean"], own)
    assert not torch.allclose(own, one)
    assert at(alpha=0.75) != at()


def test_pairs_of_captions_too(place, runs, tmp_path):
    part = member(runs[0], place).material.records.split("test")
    rows = ",".join(
        f'"{k}": {{"filename": "{c.image}.png", "caption": "{c.text}", "negative_caption": "no {c.text}"}}'
        for k, c in enumerate(part.captions)
    )
    path = tmp_path / "add_no.json"
    path.write_text(f"{{{rows}}}")
    options = asked("retrieval", "caption_pairs", caption_pairs__files=(str(path),))
    for chosen in ((runs[1], runs[1]), runs):
        found = measure(chosen, place.ensemble(f"pairs{len(chosen)}"), place, *options).metrics
        assert found["pairs/add_no/found"] == 100.0
        assert 0 <= found["pairs/add_no/add_no"] <= 100
    alone = measure_run(runs[1], place, *options)
    assert measure((runs[1], runs[1]), place.ensemble("pairs2"), place, *options).metrics == alone


def test_other_data_are_refused(place, runs):
    config = load_run(runs[0]).config
    other = run_training(override(config, {"data.seed": 5}), place).folder
    with pytest.raises(InputError, match=r"run=vsepp-.*,vsepp-.*: split test differs between .* on the same data"):
        measure([runs[0], other], place.ensemble("other"), place, *asked("retrieval"))
    fewer = run_training(override(config, {"data.num_test": 7}), place).folder
    with pytest.raises(InputError, match="8 and 7 images"):
        measure([runs[0], fewer], place.ensemble("fewer"), place, *asked("retrieval"))


@pytest.mark.slow
def test_words_of_adversaries_are_not_the_runs_own(place, runs):
    config = override(load_run(runs[0]).config, {"text.pools.held_out": False, "text.contrast.minimum": 3})
    other = run_training(config, place).folder
    names, options = asked("attacks", "contrast", attacks__words=("shared", "disjoint"))
    first, second = (plan_measure([run], place, names, options).fingerprints for run in (runs[0], other))
    assert {"test/univse/disjoint"} == first.keys() - second.keys()
    assert all(first[key] == second[key] for key in second)
    assert {"test/univse/shared", "test/vsec/shared"} <= second.keys()


def test_other_attacks_are_refused_and_can_be_left_out(place, runs):
    config = override(load_run(runs[0]).config, {"data.num_train": 30})
    other = run_training(config, place).folder
    with pytest.raises(InputError, match=r"are attacked by different captions .*; leave tasks with adversaries out"):
        measure([runs[0], other], place.ensemble("pools"), place, *asked(attacks__words=("shared",)))
    found = measure([runs[0], other], place.ensemble("pools"), place, *asked("retrieval")).metrics
    assert not any("attack" in key for key in found)


def test_codes_of_several_runs_are_no_one_gaussian(place, runs):
    with pytest.raises(InputError, match=r"^tasks=gaussian_codes: n/a: needs a single run, not an ensemble"):
        measure(runs, place.ensemble("codes"), place, ["gaussian_codes"])
    missing = measure(runs, place.ensemble("codes"), place, ["gaussian_codes", "retrieval"]).tasks["gaussian_codes"]
    assert missing.missing.startswith("a single run, not an ensemble")
    assert not missing.values


def test_captions_in_another_order_are_named(place, runs):
    one = member(runs[0], place)
    records = one.material.records
    part = records.split("test")
    mine = [k for k, c in enumerate(records.captions) if c.image == part.images[2].id]
    order = np.arange(len(records.captions))
    order[mine] = mine[::-1]
    shuffled = replace(records, captions=tuple(records.captions[k] for k in order))
    other = replace(one, name="shuffled", material=replace(one.material, records=shuffled))
    text = records.captions[mine[0]].text
    with pytest.raises(InputError, match=rf"differs between {one.name} and shuffled: caption \d+ is '.*' \({text}"):
        Members((one, other), place).split("test")
    assert Members((one, one), place).split("test").captions == part.captions
