"""Presets of jWAE, VSE-C and the systems that jWAE and the thesis compare with: every number that their papers give."""

import pytest

from vse.config import flatten
from vse.presets import names, preset

# jWAE (Mahajan et al., 2019), section 5.1: learning rates, a batch of 64 or 128, both sets of λ, inputs by name
LAMBDA_MSE = {f"objective.lambda{k}": value for k, value in ((1, 1.0), (2, 1.0), (3, 0.2), (4, 0.2))}
LAMBDA_MH = {f"objective.lambda{k}": value for k, value in ((1, 0.5), (2, 0.005), (3, 0.01), (4, 0.01))}
NO_GAUSSIAN = {"model.regularizer": "none", "objective.lambda3": 0.0, "objective.lambda4": 0.0}
RATE = {"optim.lr": 1e-4, "train.batch_size": 128, "objective": "jwae"}
JUDGE = {"model.discriminator_rate": 0.5, "model.discriminator_layers": 3, "model.discriminator_codes": "raw"}
VGG = {"features.backbone.arch": "vgg19", "model.image": "fc1"}
W2V = VGG | {"text.sentence": "mean", "text.sentence.dims": 0}
FISHER = VGG | {"text.sentence": "hglmm", "text.sentence.dims": 6000}  # 5.2 says 6,000 of phrases
VECTORS = RATE | JUDGE | {"model": "jwae", "model.text": "sentence", "model.regularizer": "adversary"}
GRU = RATE | {"model": "jwae", "model.text": "gru", "model.image": "pooled", "features.backbone.arch": "resnet152"}
MSE, MH = LAMBDA_MSE | {"objective.match": "mse"}, LAMBDA_MH | {"objective.match": "hinge"}
SCAN = RATE | JUDGE | MH | {"model": "jwae_scan", "data": "precomp", "features.backbone.width": 2048}
TABLE_3 = {
    "jwae_mse": VECTORS | W2V | MSE | {"objective.mmd": 0.0},
    "jwae_mh": VECTORS | W2V | MH,
    "jwae_mse_hglmm": VECTORS | FISHER | MSE,
    "jwae_mh_gru": GRU | JUDGE | MH | {"model.regularizer": "adversary"},
    "jwae_mh_scan_t2i": SCAN | {"model.direction": "t2i", "model.draw": "own"},
    "jwae_mh_scan_i2t": SCAN | {"model.direction": "i2t", "model.draw": "own"},
    "mse": VECTORS | W2V | MSE | NO_GAUSSIAN | {"objective.mmd": 0.0},
    "mmd_mse": VECTORS | W2V | MSE | NO_GAUSSIAN,
    "embedding_network": W2V | {"model": "embedding_network", "objective": "embedding_network"},
    "embedding_network_hglmm": FISHER | {"model": "embedding_network"},
    "similarity_network": FISHER | {"model": "similarity_network", "objective": "logistic"},
    "cca": W2V | {"model": "cca"},
    "cca_hglmm": FISHER | {"model": "cca"},
}
DATA = {"coco": {"data.file": "dataset_coco.json", "data.restval": True}, "flickr30k": {}}
DATA["flickr30k"] |= {"data.file": "dataset_flickr30k.json"}
# VSE-C (Shi et al., 2018), section 3.3 and Appendix B
VSEC = {
    "model": "vsec",
    "model.dim": 1024,  # a bidirectional GRU of 512 units
    "objective": "vsec",
    "objective.hinge": "hardest",
    "objective.draws": 8,
    "text.contrast.minimum": 201,  # section 3.2: more than 200
    "text.contrast.held_out": False,  # and all of them
    "objective.balance": "candidate",
    "objective.pool": "own",
    "objective.contrast_epoch": 0,
    "optim.lr": 1e-3,
    "optim.schedule": "step",
    "optim.every": 15,
    "optim.factor": 0.1,
    "optim.weight_decay": 0.0,
    "train.batch_size": 128,
    "features.backbone.arch": "resnet152",
    "data.file": "dataset_coco.json",
}
KINDS = {"vsec_noun": ("noun",), "vsec_numeral": ("numeral",), "vsec_relation": ("relation",)}
KINDS |= {"vsec": ("noun", "numeral", "relation")}


def _has(name, expected):
    found = flatten(preset(name))
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize("where", DATA)
@pytest.mark.parametrize("name", TABLE_3)
def test_table_3_of_jwae(name, where):
    reads_files = TABLE_3[name].get("data") == "precomp"
    _has(f"{name}_{where}", TABLE_3[name] | ({} if reads_files else DATA[where]))


def test_mmd_counts_where_the_table_says_so():
    assert flatten(preset("mmd_mse_coco"))["objective.mmd"] > 0


def test_vae_mh_of_table_4():
    _has("vae_mh_coco", GRU | MH | DATA["coco"] | {"model.regularizer": "vae"})


def test_every_row_on_flickr30k_has_its_preset():
    """Table 3: all systems of both halves but those that the papers cite with a number only."""
    regions = "_localisation_flickr30k"  # Table 7
    of_table = (name for name in names() if name.endswith("_flickr30k") and not name.endswith(regions))
    rows = {name.removesuffix("_flickr30k") for name in of_table}
    both = {f"scan_{direction}_{how}" for direction in ("t2i", "i2t") for how in ("lse", "avg")}
    assert rows == TABLE_3.keys() | both | {"vsepp"}


@pytest.mark.parametrize("name", KINDS)
def test_vsec_as_published(name):
    _has(f"{name}_coco", VSEC | {"objective.kinds": KINDS[name]})


def test_cse_as_the_thesis_describes_it():
    """Section 1.4.3: all negatives of the batch, losses of lower layers, a network that is not fine-tuned."""
    cse = {"model": "cse", "objective": "cse", "objective.hinge": "sum", "features.backbone.arch": "resnet152"}
    _has("cse_coco", cse)
    assert flatten(preset("cse_coco"))["objective.middle"] > 0
