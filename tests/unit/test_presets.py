"""Presets: whole, valid, and with the numbers of the papers where a paper gives one."""

import json

import pytest
from torchvision.models import get_model_weights

from vse import presets, registry
from vse.config import fingerprint, flatten, from_dict, to_dict, validate
from vse.errors import InputError
from vse.features.torchvision_backbone import TorchvisionBackbone
from vse.training.config import family_inputs
from vse.training.step import learning_rate

NAMES = presets.names()


@pytest.mark.parametrize("name", NAMES)
def test_is_whole_and_valid(name):
    config = presets.preset(name)
    assert validate(config) == config
    inputs = family_inputs(config)
    assert inputs.image in ("map", "pooled", "fc1")
    objective = registry.build("objective", config.objective)
    assert (objective.negatives is not None) <= inputs.components  # negatives need a family with components
    assert registry.name_of("family", config.model)
    assert name.endswith(("coco", "flickr30k", "scenes", "small", "flickr8k", "photographs", "tiny"))


@pytest.mark.parametrize("name", NAMES)
def test_survives_json_from_any_frame(name):
    config = presets.preset(name)
    text = json.dumps(to_dict(config))
    for frame in ("vsepp_tiny", "univse_coco"):
        read = from_dict(presets.preset(frame), json.loads(text))
        assert read == config
        assert fingerprint(read) == fingerprint(config)


@pytest.mark.parametrize("name", NAMES)
def test_small_keeps_everything_but_sizes_and_schedule(name):
    config = presets.preset(name)
    small = validate(presets.small(config))
    before, after = flatten(config), flatten(small)
    changed = {key for key in before if before[key] != after[key]}
    sizes = {key for key in changed if key.startswith("model.") and key.endswith("dim")}
    assert changed <= {"train.epochs", "optim.every", "optim.milestones", *sizes}
    assert all(min(before[key], 32) <= after[key] < before[key] for key in sizes)
    assert small.train.epochs == 12
    if "model.dim" in before:
        assert min(64, before["model.dim"]) <= after["model.dim"] <= max(64, before["model.dim"] // 4)
    for share in (0.0, 0.3, 0.6, 0.9):  # the rate has fallen as far at the same share of the way, to an epoch or so
        here = learning_rate(config.optim, share * config.train.epochs, config.train.epochs)
        near = [
            learning_rate(small.optim, share * 12 + d, 12)
            for d in (-1.5, -1, -0.5, 0, 0.5, 1, 1.5)
            if share * 12 + d >= 0
        ]
        assert min(near) <= here * 1.0001
        assert here <= max(near) * 1.0001 or config.optim.schedule == "halving"


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("_coco")])
@pytest.mark.parametrize(("where", "source"), [("_scenes", "scenes"), ("_flickr8k", "karpathy")])
def test_every_published_system_has_twins_to_run(name, where, source):
    twin = presets.preset(name.removesuffix("_coco") + where)
    assert registry.name_of("source", twin.data) == source
    assert type(twin.model) is type(presets.preset(name).model)
    words = where == "_flickr8k" or family_inputs(twin).sentence  # few photographs do not teach what words mean
    assert twin.text.word_vectors == ("captions" if words else "")
    assert twin.train.epochs <= 30


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("_scenes")])
def test_every_system_of_scenes_has_a_twin_of_fewer(name):
    before, after = flatten(presets.preset(name)), flatten(presets.preset(name.removesuffix("scenes") + "small"))
    changed = {key for key in before if before[key] != after[key]}
    assert {"data.num_train", "train.epochs"} <= changed
    assert changed <= {*(f"data.num_{split}" for split in ("train", "val", "test", "shifted"))} | {
        "train.epochs",
        "objective.warmup",
    }
    assert all(after[key] < before[key] for key in changed)
    assert after.get("objective.warmup", 0) * 2 in (0, after["train.epochs"])  # as much of the way as on scenes


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("vsec")])
def test_adversaries_are_drawn_from_all_candidates_as_published_and_by_kind_in_twins(name):
    """VSE-C, section 3.3; nearly all of a caption's candidates are nouns, which few steps would learn alone."""
    expected = "candidate" if name.endswith("_coco") else "paradigm"
    assert flatten(presets.preset(name))["objective.balance"] == expected


FIRST_WEIGHTS = {"resnet152": "resnet152-394f9c45.pth", "vgg19": "vgg19-dcbb9e9d.pth"}  # torchvision's files


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith(("_coco", "_flickr30k"))])
def test_published_systems_read_weights_of_their_years(name):
    """torchvision's default weights of ResNet-152 are of 2021 (82.28 % top-1), later than the papers that name it."""
    backbone = presets.preset(name).features.backbone
    if not isinstance(backbone, TorchvisionBackbone.Config):
        return
    assert registry.build("backbone", backbone).identity()["weights"] == FIRST_WEIGHTS[backbone.arch]
    assert backbone.weights != "default" or len(get_model_weights(backbone.arch)) == 1


def test_presets_are_told_apart():
    assert len({fingerprint(presets.preset(name)) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_nobody_can_change_a_preset(name):
    """Whoever asks for it gets the same object; one that has a hash is immutable throughout."""
    assert isinstance(hash(presets.preset(name)), int)


def test_an_unknown_preset_names_those_like_it():
    lists = rf"--help lists all {len(NAMES)}$"
    with pytest.raises(InputError, match=rf"^preset 'univse_cocoa': unknown; did you mean univse_coco, .*\? {lists}"):
        presets.preset("univse_cocoa")
    with pytest.raises(InputError, match=rf"^preset 'x': unknown; {lists}"):
        presets.preset("x")


def test_vsepp_coco_is_as_published():
    """VSE++ (Faghri et al., 2018): section 4, "training with fixed image encoder", and the public code's defaults."""
    found = flatten(presets.preset("vsepp_coco"))
    expected = {
        "model": "vsepp",
        "model.dim": 1024,
        "model.word_dim": 300,
        "model.image": "pooled",
        "objective": "ranking",
        "objective.margin": 0.2,
        "objective.hinge": "hardest",
        "optim.lr": 2e-4,
        "optim.schedule": "step",
        "optim.every": 15,
        "optim.factor": 0.1,
        "optim.clip": 2.0,
        "optim.weight_decay": 0.0,
        "train.epochs": 30,
        "train.batch_size": 128,
        "train.select": "rsum",
        "features.backbone.arch": "resnet152",
        "features.scale": "l2",
        "text.min_count": 4,
        "data": "karpathy",
    }
    assert {key: found[key] for key in expected} == expected


def test_univse_coco_is_as_published():
    """UniVSE (Wu et al., 2019): section 3.5 and supplement A.1-A.3."""
    config = presets.preset("univse_coco")
    found = flatten(config)
    expected = {
        "model": "univse",
        "model.dim": 1024,
        "model.basic_dim": 300,
        "model.modifier_dim": 100,
        "model.pooling": "maxk",
        "model.k": 10,
        "model.alpha": 0.75,
        "model.components": ("object", "attribute", "relation"),
        "model.fixed_words": True,
        "objective": "univse",
        "objective.eta_c": 0.5,
        "objective.eta_o": 0.5,
        "objective.eta_a": 0.5,
        "objective.eta_r": 1.0,
        "objective.relation_epoch": 2,
        "text.pools.minimum": 101,
        "text.pools.attributes": "published",
        "text.pools.held_out": False,
        "objective.nouns": 16,
        "objective.attribute_words": 8,
        "objective.attribute_nouns": 8,
        "objective.relation_words": 4,
        "objective.relation_subjects": 2,
        "objective.relation_objects": 2,
        "objective.hinge": "hardest",
        "optim.lr": 1e-3,
        "train.batch_size": 128,
        "features.backbone.arch": "resnet152",
        "data": "karpathy",
        "data.restval": False,
    }
    assert {key: found[key] for key in expected} == expected
    rates = [learning_rate(config.optim, epoch, config.train.epochs) for epoch in range(config.train.epochs)]
    assert rates[:7] == [1e-3] * 6 + [5e-4]
    assert rates[-2] > 1e-5
    assert rates[-1] == 1e-5


@pytest.mark.parametrize(("where", "every", "epochs"), [("coco", 10, 20), ("flickr30k", 15, 30)])
@pytest.mark.parametrize(
    ("name", "frame"), [("jwae_mh_scan_t2i", "scan_t2i_avg"), ("jwae_mh_scan_i2t", "scan_i2t_avg")]
)
def test_jwae_with_scan_has_the_schedule_of_scan(name, frame, where, every, epochs):
    found, scan = flatten(presets.preset(f"{name}_{where}")), flatten(presets.preset(f"{frame}_{where}"))
    changed = {key for key in scan if key.startswith(("optim.", "train.", "features.")) and found[key] != scan[key]}
    assert changed == {"optim.lr"}
    assert (found["optim.lr"], found["optim.every"], found["train.epochs"]) == (1e-4, every, epochs)
    assert all(found[key] == scan[key] for key in scan if key.startswith("model.") and key in found)


def test_coco_is_trained_on_the_images_that_each_paper_names():
    """UniVSE (section 4): 82,783; all others that read Karpathy's file: 113,287 (jWAE, section 5.1), with restval."""
    found = {name: flatten(presets.preset(name)) for name in NAMES if name.endswith("_coco")}
    without = {name for name, values in found.items() if values.get("data.restval") is False}
    assert without == {"univse_coco", "univse_obj_coco", "univse_attr_coco", "univse_rel_coco"}
    assert found["jwae_mh_gru_coco"]["data.restval"]
    assert found["cca_coco"]["data.restval"]


def _changed(one, other):
    return {key for key in one.keys() | other.keys() if one.get(key) != other.get(key)}


WHERE = ("coco", "scenes", "small", "flickr8k")


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(("kind", "on"), [("obj", "eta_o"), ("attr", "eta_a"), ("rel", "eta_r")])
def test_ablations_differ_from_the_whole_in_their_losses_alone(kind, on, where):
    """Section 4.3: "trained with only contrastive samples of noun components"; which make u_comp is Table 2's."""
    whole, part = flatten(presets.preset(f"univse_{where}")), flatten(presets.preset(f"univse_{kind}_{where}"))
    off = {f"objective.{eta}" for eta in ("eta_o", "eta_a", "eta_r") if eta != on}
    assert _changed(whole, part) == off
    assert all(part[key] == 0.0 for key in off)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(
    ("name", "of", "keys"),
    [
        ("vse", "vsepp", {"objective.hinge"}),
        ("vse0", "vse", {"model.normalize_images"}),
        ("vsepp_gpo", "vsepp", {"model.image", "model.pooling"}),
        ("vsec_noun", "vsec", {"objective.kinds"}),
        ("vsec_numeral", "vsec", {"objective.kinds"}),
        ("vsec_relation", "vsec", {"objective.kinds"}),
    ],
)
def test_ablations_on_any_data_differ_in_what_they_ablate(name, of, keys, where):
    """A sum over negatives has no first phase in which they are summed."""
    found = _changed(flatten(presets.preset(f"{of}_{where}")), flatten(presets.preset(f"{name}_{where}")))
    assert found - {"objective.warmup"} == keys
    assert "objective.warmup" not in found or name == "vse"


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", ["infonce", "sigmoid"])
def test_other_losses_of_vsepp_change_nothing_but_the_loss(name, where):
    whole, part = flatten(presets.preset(f"vsepp_{where}")), flatten(presets.preset(f"vsepp_{name}_{where}"))
    assert part["objective"] == name
    assert all(key.startswith("objective") for key in _changed(whole, part))
