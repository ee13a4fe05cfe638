"""Presets of the matching systems: the numbers of their papers, or of their public code where its paper is not ours."""

import pytest

from vse.config import flatten
from vse.presets import preset
from vse.training.step import learning_rate

HARDEST = {"objective": "ranking", "objective.hinge": "hardest", "objective.margin": 0.2}
SUM = {"objective": "ranking", "objective.hinge": "sum", "objective.margin": 0.2}
SKELETON = {"train.batch_size": 128, "model.dim": 1024, "model.word_dim": 300, "optim.clip": 2.0}
ORDER = {"model": "order", "objective.margin": 0.05, "objective.hinge": "sum", "optim.lr": 1e-3, "model.absolute": True}
SCAN = {
    "model": "scan",
    "data": "precomp",
    "features.backbone.width": 2048,
    "model.t2i_softmax": 9.0,
    "model.t2i_lse": 6.0,
    "model.i2t_softmax": 4.0,
    "model.i2t_lse": 20.0,
    "optim.lr": 5e-4,
    "optim.every": 10,
    "train.epochs": 20,
}
# Its public commands for Flickr30k; where they name none, the defaults of its code
SCAN_FLICKR30K = SCAN | {"model.i2t_lse": 5.0, "optim.lr": 2e-4, "optim.every": 15, "train.epochs": 30}
THESIS = {
    "model": "relational",
    "data": "coco",
    "features.backbone.arch": "resnet152",
    "features.backbone.transform": "scale",
    "model.image_layers": 1,
    "model.text_layers": 2,
    "model.max_words": 48,
    "objective": "relational",
    "objective.margin": 0.2,
    "objective.structure_margin": 0.2,
    "train.epochs": 20,
    "train.select": "last",
}
PUBLISHED = {
    "vse": SUM | {"model": "vsepp", "model.normalize_images": True, "optim.lr": 2e-4, "train.epochs": 30},
    "vse0": SUM | {"model": "vsepp", "model.normalize_images": False},
    "order": ORDER | {"model.form": "squared", "optim.schedule": "constant", "train.epochs": 20},
    "order0": ORDER | {"model.form": "root", "optim.every": 15, "train.epochs": 30},
    "orderpp": HARDEST | {"model": "order", "model.form": "root", "model.absolute": False, "optim.lr": 2e-4},
    "vse_infinity": HARDEST | {"optim.lr": 5e-4, "optim.weight_decay": 0.01, "optim.every": 15, "train.epochs": 25},
    "scan_t2i_lse": HARDEST | SCAN | {"model.direction": "t2i", "model.aggregate": "lse"},
    "scan_t2i_avg": HARDEST | SCAN | {"model.direction": "t2i", "model.aggregate": "mean"},
    "scan_i2t_lse": HARDEST | SCAN | {"model.direction": "i2t", "model.aggregate": "lse"},
    "scan_i2t_avg": HARDEST | SCAN | {"model.direction": "i2t", "model.aggregate": "mean"},
    "relational_basic": THESIS | {"model.structure": "none", "objective.global_weight": 1.0},
    "relational_pool": THESIS
    | {"model.structure": "pool", "objective.global_weight": 0.2, "objective.pool_weight": 0.8},
    "relational_attention": THESIS
    | {"model.structure": "attention", "objective.global_weight": 1.0, "objective.attention_weight": 0.15},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_as_published(name):
    found = flatten(preset(f"{name}_coco"))
    expected = SKELETON | PUBLISHED[name]
    assert {key: found[key] for key in expected} == expected


FLICKR30K = {
    "vsepp": HARDEST
    | {"model": "vsepp", "data.file": "dataset_flickr30k.json", "features.backbone.arch": "resnet152"}
    | {"optim.lr": 2e-4, "optim.every": 15, "optim.factor": 0.1, "train.epochs": 30},
    "scan_t2i_lse": HARDEST | SCAN_FLICKR30K | {"model.direction": "t2i", "model.aggregate": "lse"},
    "scan_t2i_avg": HARDEST | SCAN_FLICKR30K | {"model.direction": "t2i", "model.aggregate": "mean"},
    "scan_i2t_lse": HARDEST | SCAN_FLICKR30K | {"model.direction": "i2t", "model.aggregate": "lse"},
    "scan_i2t_avg": HARDEST | SCAN_FLICKR30K | {"model.direction": "i2t", "model.aggregate": "mean"},
}


@pytest.mark.parametrize("name", FLICKR30K)
def test_on_flickr30k_as_published(name):
    found = flatten(preset(f"{name}_flickr30k"))
    expected = SKELETON | FLICKR30K[name]
    assert {key: found[key] for key in expected} == expected
    coco = flatten(preset(f"{name}_coco"))
    numbers = {"optim.lr", "optim.every", "train.epochs", "model.i2t_lse"}
    assert {key for key in found if found[key] != coco[key]} <= numbers | {"data.file"}


def test_the_schedule_of_the_thesis():
    config = preset("relational_basic_coco")
    rates = [learning_rate(config.optim, epoch, 20) for epoch in range(20)]
    assert rates == pytest.approx([2e-5] * 8 + [1e-5] * 6 + [2e-6] * 6, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [("infonce", "objective", "infonce"), ("sigmoid", "objective", "sigmoid"), ("gpo", "model.pooling", "gpo")],
)
def test_each_of_ours_asks_one_question(name, key, value):
    ours, plain = flatten(preset(f"vsepp_{name}_coco")), flatten(preset("vsepp_coco"))
    assert ours[key] == value
    changed = {k for k in plain if ours.get(k) != plain[k]}
    assert changed <= ({key, "model.image"} if name == "gpo" else {k for k in plain if k.startswith("objective")})
