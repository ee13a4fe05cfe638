"""What can be known of a measurement is told before features, parses and adversaries are made, and by a dry run."""

import json
from typing import Any

import pytest

from tests.unit.asked import asked
from vse.config import override
from vse.errors import InputError
from vse.evaluation.protocol import PUBLISHED, Protocol
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.measuring.checks import foresee_measure
from vse.stages.measuring.stage import measure_run
from vse.stages.train import run_training

pytestmark = pytest.mark.seconds

CHANGES = {"data.num_val": 4, "data.num_test": 6, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 32}
PAIRS = [{"filename": "nowhere.jpg", "caption": "a dog", "negative_caption": "a cat"}]
CASES: dict[str, tuple[dict[str, Any], str]] = {  # `tasks` and keys
    "split": ({"splits": ("tset",)}, "no split 'tset'; it has .*; measure.splits=test measures that one"),
    "protocol": ({"protocol": "coco_5k"}, "needs 5000 images, split test/coco_5k has 6"),
    "folds": ({"folds": 4}, "6 images cannot be divided into 4 equal folds"),
    "two protocols": ({"protocol": "coco_5k", "folds": 2}, "measure.protocol=coco_5k has its own folds"),
    "no pairs": ({"tasks": ["caption_pairs"], "caption_pairs__files": ("absent.json",)}, "absent.json: cannot be read"),
    "pairs of others": (
        {"tasks": ["caption_pairs"], "caption_pairs__files": ("others.json",)},
        r"^measure\.caption_pairs\.files=others\.json: none of 1 pairs is of an image",
    ),
    "alpha": ({"alpha": 0.5}, "measure.alpha=0.5: the family of .* has no alpha"),
    "codes": ({"tasks": ["gaussian_codes"]}, "^tasks=gaussian_codes: n/a: needs codes that are not unit vectors"),
    "no files": ({"tasks": ["caption_pairs"]}, r"measure\.caption_pairs\.files=: name files"),
    "task": ({"tasks": ["retrieval", "atacks"]}, r"^tasks=atacks: unknown; did you mean attacks\?"),
    "no task": ({"tasks": [""]}, "^tasks=: unknown; expected one of retrieval, attacks, "),
    "no splits": ({"splits": ()}, r"^measure\.splits=: name one or more of train, val, test, shifted$"),
    "no words": (
        {"attacks__words": ()},
        r"^measure\.attacks\.words=: name one or more of shared, disjoint, published$",
    ),
    "no words of VSE-C": (
        {"tasks": ["retrieval", "own_pools"], "own_pools__words": ()},
        r"^measure\.own_pools\.words=: name one or more of shared, disjoint, all$",
    ),
    "no alphas": (
        {"tasks": ["retrieval", "alpha_curve"], "alpha_curve__alphas": ()},
        r"^measure\.alpha_curve\.alphas=: name one or more values$",
    ),
    "no attacks": (
        {"tasks": ["saliency"], "saliency__attacks": (), "saliency__level": "features"},
        r"^measure\.saliency\.attacks=: name one or more of contrast, attacks; .*level=features measures nothing else$",
    ),
    "device": ({"device": "cuda"}, "measure.device=cuda: torch finds no GPU"),
    "parser": ({}, "^text.parser.pipeline=en_core_web_xx: neither"),
}


@pytest.fixture(scope="module")
def blind(place):
    """A run that needs no parser, with one that is not there."""
    changes = {**CHANGES, "text.parser.pipeline": "en_core_web_xx"}
    return run_training(override(preset("vsepp_tiny"), changes), place).folder


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_told_first(tmp_path, monkeypatch, place, vsepp, blind, case):
    (tmp_path / "others.json").write_text(json.dumps(PAIRS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(pipeline, "prepare", lambda *a, **k: pytest.fail("made features first"))
    changes, said = dict(CASES[case][0]), CASES[case][1]
    run, options = blind if case == "parser" else vsepp, asked(*changes.pop("tasks", ()), **changes)
    told = set()
    for ask in (lambda: measure_run(run, place, *options), lambda: list(foresee_measure([run], place, *options))):
        with pytest.raises(InputError, match=said) as caught:
            ask()
        told.add(str(caught.value))
    assert len(told) == 1


def test_a_run_without_attacks_needs_no_parser(place, blind):
    assert list(foresee_measure([blind], place, *asked("retrieval")))


def test_a_split_is_told_that_the_protocol_can_measure(place, vsepp, monkeypatch):
    """Of the splits that are there, test has six images and the others four."""
    monkeypatch.setitem(PUBLISHED, "coco_5k", Protocol(name="five", num_images=5))
    with pytest.raises(InputError, match=r"measure\.splits=test measures that one$"):
        measure_run(vsepp, place, *asked("retrieval", splits=("shift",), protocol="coco_5k"))


def test_a_dry_run_says_what_is_measured_and_writes_nothing(place, vsepp):
    before = sorted(path for path in place.root.local().rglob("*"))
    lines = list(foresee_measure([vsepp], place, *asked(splits=("test", "val"), on=("seed=3",))))
    assert lines[0].startswith("measure test of scenes: 6 images with ")
    assert lines[1].startswith("measure val of scenes: 4 images with ")
    assert lines[2] == "tasks: retrieval, attacks"
    assert lines[3] == "attacks on test of scenes take words of its own train captions"
    assert lines[-1].startswith("not checked: ")
    assert sorted(path for path in place.root.local().rglob("*")) == before
