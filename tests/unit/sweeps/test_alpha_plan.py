"""What a request for an α sweep means, and what is refused before anything starts."""

import sys
from pathlib import Path
from typing import Any

import pytest

from vse import presets
from vse.cli.command import Request
from vse.config import flatten, override
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.sweeps.alpha import ALPHA, AlphaSweepOptions, make_plan
from vse.sweeps.budget import Resources
from vse.sweeps.ledger import Ledger, sweep_name
from vse.sweeps.plan import JobOptions, label_of


def request(preset: str = "univse_scenes", **changes: Any) -> Request:
    given = {key.replace("__", "."): value for key, value in changes.items()}
    options = {key: value for key, value in given.items() if key.split(".")[0] in ("sweep", "ray")}
    config = {key: value for key, value in given.items() if key not in options}
    return Request(
        job="sweep_alpha",
        workspace="/nowhere",
        preset=preset,
        config=override(presets.preset(preset), config),
        options=override(JobOptions(sweep=AlphaSweepOptions()), options),
        changed=frozenset(given),
        tracking=None,
    )


def test_the_default_sweep() -> None:
    plan = make_plan(request())
    assert plan.alphas == tuple(round(0.05 * k, 2) for k in range(21))
    assert (plan.family, plan.reference, plan.learned, plan.seeds) == ("univse", "vsepp", None, (0, 1, 2))
    assert not plan.decides.standard_error
    assert plan.decides.within == 1.0
    assert plan.name == "alpha-univse_scenes"
    trials = plan.trials(Ledger(Folder.open("/nowhere")), "abc")
    assert [(t["arm"], t["seed"]) for t in trials] == [(a, s) for a in ("univse", "vsepp") for s in (0, 1, 2)]
    assert label_of(trials[0]) == "univse seed=0"


def test_a_capped_sweep_completes_seed_after_seed() -> None:
    plan = make_plan(request(sweep__max_seconds=100))
    trials = plan.trials(Ledger(Folder.open("/nowhere")), "abc")
    assert [(t["arm"], t["seed"]) for t in trials] == [(a, s) for s in (0, 1, 2) for a in ("univse", "vsepp")]


def test_the_reference_reads_the_same_data_with_what_was_set_for_both() -> None:
    changed: dict[str, Any] = {
        "train__epochs": 3,
        "optim__lr": 0.5,
        "model__dim": 64,
        "data__num_train": 77,
        "model__pooling": "avg",
    }
    plan = make_plan(request(**changed))
    ours, theirs = flatten(plan.arms["univse"]), flatten(plan.arms["vsepp"])
    for key in ("train.epochs", "optim.lr", "model.dim", "data.num_train"):
        assert ours[key] == theirs[key]
    assert "model.pooling" in ours
    untouched = flatten(make_plan(request()).arms["vsepp"])
    assert untouched == flatten(override(presets.preset("vsepp_scenes"), {"seed": 0}))


def test_the_reference_of_a_part_is_that_of_the_whole() -> None:
    """univse_obj_small is compared on the epochs of vsepp_small, not of vsepp_scenes."""
    arm = make_plan(request("univse_obj_small")).arms["vsepp"]
    assert arm.train.epochs == presets.preset("vsepp_small").train.epochs != presets.preset("vsepp_scenes").train.epochs


def test_photographs_are_judged_by_the_standard_error() -> None:
    plan = make_plan(request("univse_flickr8k"))
    assert plan.decides.standard_error
    assert "one standard error" in plan.definition()["rule"]
    assert plan.reference == "vsepp"
    assert flatten(plan.arms["vsepp"])["data"] == "karpathy"
    assert not make_plan(request("univse_flickr8k", sweep__standard_error=False)).decides.standard_error


def test_a_learned_alpha_is_an_arm_beside() -> None:
    plan = make_plan(request(sweep__learn_alpha=True))
    assert plan.learned == "univse_learned"
    assert flatten(plan.arms["univse_learned"])["model.learn_alpha"]
    assert [point["arm"] for point in plan.listed] == ["univse", "univse_learned", "vsepp"]
    assert plan.definition() == make_plan(request()).definition()  # it extends the sweep


def test_what_a_name_stands_for() -> None:
    first = make_plan(request()).definition()
    assert sweep_name("a", first) == sweep_name("a", make_plan(request(sweep__seeds="5,6")).definition())
    same: list[dict[str, Any]] = [{"train__checkpoint_seconds": 7}, {"train__workers": 2}]
    for other in same:
        assert make_plan(request(**other)).definition() == first
    halves = (make_plan(request(train__gpus_per_worker=gpus)).definition() for gpus in (0.5, 0.25))
    assert len({sweep_name("a", each) for each in halves}) == 1
    others: list[dict[str, Any]] = [
        {"train__gpus_per_worker": 0.5},
        {"optim__lr": 0.5},
        {"sweep__within": 2.0},
        {"sweep__reference": "none"},
        {"data__num_test": 31},
    ]
    for other in others:
        assert make_plan(request(**other)).definition() != first


def test_resources() -> None:
    assert make_plan(request()).need() == Resources(cpus=1)
    assert make_plan(request(train__threads=2)).need() == Resources(cpus=2)
    changed: dict[str, Any] = {"train__workers": 2, "train__gpus_per_worker": 1}
    assert make_plan(request(**changed)).need() == Resources(cpus=2, gpus=2, workers=2)


@pytest.mark.parametrize(
    ("preset", "changes", "message"),
    [
        ("vsepp_scenes", {}, "model=vsepp: has no alpha"),
        ("univse_scenes", {"seed": 3}, r"seed: a sweep takes its seeds from sweep\.seeds"),
        ("univse_scenes", {"model__learn_alpha": True}, r"sweep\.learn_alpha=true"),
        ("univse_scenes", {"sweep__seeds": "1,1"}, "one or more different numbers"),
        ("univse_scenes", {"sweep__seeds": "[]"}, "one or more different numbers"),
        ("univse_scenes", {"sweep__space": "alfa"}, "did you mean alpha"),
        ("univse_scenes", {"sweep__reference": "vsepp_moon"}, "vsepp_moon"),
    ],
)
def test_refusals_before_anything_starts(preset: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_plan(request(preset, **changes))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{'model.alpha': [0.5], 'optim.lr': 1.0}", "others need training"),
        ("{'optim.lr': 1.0}", "expected model.alpha alone, found optim.lr"),
        ("{'model.alpha': tune.grid_search([0.5, 1.5])}", "model.alpha=1.5: must be between 0 and 1"),
    ],
)
def test_spaces_that_do_not_fit(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"from ray import tune\nSPACE = {text}\n")
    with pytest.raises(InputError, match=message):
        make_plan(request(sweep__space=str(file)))


def test_a_space_of_draws(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from ray import tune\nSPACE = {'model.alpha': tune.uniform(0.5, 1.0)}\n")
    plan = make_plan(request(sweep__space=str(file)))
    assert len(plan.alphas) == 21
    assert all(0.5 <= alpha <= 1 for alpha in plan.alphas)
    assert plan.alphas == make_plan(request(sweep__space=str(file))).alphas
    assert plan.space.domains.keys() == {ALPHA}


def test_planning_starts_no_ray() -> None:
    make_plan(request())
    ray = sys.modules["ray"]
    assert not ray.is_initialized()
