"""Settings that do nothing: what keys declare is what a step does, and a user reads so in one line."""

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

from tests.levels import slow_but
from tests.synthetic import make_family, make_objective, synthetic
from tests.unit.training.test_compatibility import frame_of
from vse import presets, registry
from vse.config import check_range, flatten, override, walk
from vse.errors import InputError
from vse.presets import preset
from vse.training.config import RunConfig, check_objective
from vse.training.effects import check_effects, unmet, without_effect
from vse.training.step import learning_rate, step_losses

DATA = synthetic(seed=7, images=8)
# Settings by which others lose or gain their effect; `vectors` stands for text.word_vectors.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "cse": [{"match": "infonce"}, {"vectors": True}, {"layers": 1}],
    "jwae": [
        {"text": "sentence"},
        {"regularizer": "none", "lambda3": 0.0, "lambda4": 0.0},
        {"regularizer": "vae"},
        {"match": "mse"},
        {"match": "infonce", "lambda1": 0.0},
        {"lambda2": 0.0},
        {"text": "sentence", "lambda1": 0.0, "lambda2": 0.0},
        {"vectors": True},
    ],
    "jwae_scan": [{"aggregate": "mean"}, {"direction": "i2t"}, {"lambda2": 0.0}],
    "relational": [{"structure": "pool", "global_weight": 0.2}, {"structure": "attention"}, {"vectors": True}],
    "scan": [{"direction": "both"}, {"direction": "i2t"}, {"aggregate": "mean"}],
    "univse": [
        {"pooling": "avg", "match": "infonce"},
        {"hinge": "sum", "eta_o": 0.0, "eta_a": 0.0},
        {"eta_r": 0.0, "vectors": True},
    ],
    "vsepp": [{"image": "map"}, {"image": "map", "pooling": "max"}, {"hinge": "sum"}, {"vectors": True}],
    "embedding_network": [{"siblings": False}],
}
WITHOUT_STEPS = ("cca", "clip")
FAMILIES = sorted(set(registry.names("family")) - set(WITHOUT_STEPS))
CASES = [(family, variant) for family in FAMILIES for variant in [{}, *VARIANTS.get(family, [])]]
# What a step on these few captions cannot show, and why.
UNSEEN = {
    "model.alpha": "of scores alone, tested there",
    "model.renormalize": "of scores alone, tested there",
    "model.weight": "of scores alone where nothing is trained by it",
    "model.image": "of other features",
    "model.padded_length": "of captions longer than these",
    "model.max_words": "of captions longer than these",
    "model.regions": "of images with more regions",
    "model.slope": "of negative similarities",
    "model.text": "of other inputs",
    "model.heads": "of a dimension that they divide",
    "model.components": "a list",
    "model.siblings": "of other inputs",
    "objective.mask": "of data with a truth",
    "objective.kinds": "a list",
    "objective.most": "of larger batches",
    "model.absolute": "of signs",
}
# Conditions of keys that a family or its objective inherits and that it never meets.
NEVER_MET = {"jwae_cite": {"text=gru", "match=hinge"}, "jwae_scan": {"model.text=sentence"}}


def _config(family: str, changes: dict[str, Any]) -> RunConfig:
    frame = frame_of(family)
    own = {f.name for f in dataclasses.fields(frame.model)}
    keys = {f"{'model' if name in own else 'objective'}.{name}": v for name, v in changes.items() if name != "vectors"}
    objective = next((n for n in (family, family.split("_")[0]) if n in registry.names("objective")), "ranking")
    vectors = {"text.word_vectors": "FILE"} if changes.get("vectors") else {}
    model, loss = (registry.component(*of).Config() for of in (("family", family), ("objective", objective)))
    return override(dataclasses.replace(frame, model=model, objective=loss), keys | vectors)


def _outcome(family: str, changes: dict[str, Any]) -> list[Any]:
    """All that a run has of its settings: parameters, phases, draws, losses and gradients at two epochs."""
    model, objective = make_family(family, DATA.context, **changes), make_objective(family, **changes)
    seen: list[Any] = [(n, tuple(p.shape), float(p.detach().sum())) for n, p in model.named_parameters()]
    seen += [objective.adversaries, sorted(objective.scalars.items())]
    seen += [(n, p.requires_grad) for n, p in model.named_parameters()]
    for epoch in (0, 3):
        batch = DATA.collator(model, objective)(np.arange(len(DATA)), epoch)
        for phase in model.phases():
            seen.append((phase.name, phase.rate, phase.every))
            model.zero_grad()
            total, losses = step_losses(model, objective, batch, epoch, phase.losses, phase.name)[:2]
            total.backward()
            seen += [total.item(), *((n, float(v)) for n, v in losses.items() if objective.weights(epoch).get(n))]
            seen += [None if p.grad is None else float(p.grad.abs().sum()) for p in phase.parameters]
    return seen


def _others(value: Any, spec: dataclasses.Field[Any]) -> list[Any]:
    """Other values of a key."""
    if choices := spec.metadata["choices"]:
        return [] if isinstance(value, tuple) else [each for each in choices if each != value]
    if isinstance(value, bool):
        return [not value]
    if not isinstance(value, int | float):
        return []
    tried = (2 * value + 1, value + 1) if isinstance(value, int) else (2 * value + 1, value / 2, 0.5)
    return [each for each in tried if each != value and _fits(each, spec)]


def _fits(value: Any, spec: dataclasses.Field[Any]) -> bool:
    try:
        check_range(value, spec, "")
    except InputError:
        return False
    return True


@functools.cache
def _settings(family: str) -> list[tuple[str, Any]]:
    config = _config(family, {})
    return [
        (key, spec)
        for key, spec, _, _ in walk(config)
        if key.startswith(("model.", "objective.")) and "kind" not in spec.metadata and key not in UNSEEN
    ]


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("family", "variant"),
    slow_but(
        CASES,
        *((family, {}) for family in ("vsepp", "univse", "jwae", "scan", "relational")),
        ("vsepp", {"image": "map", "pooling": "max"}),
        ("univse", {"pooling": "avg", "match": "infonce"}),
        ("jwae", {"regularizer": "vae"}),
    ),
)
def test_what_keys_declare_is_what_a_step_does(family: str, variant: dict[str, Any]) -> None:
    idle = without_effect(_config(family, variant))
    base = _outcome(family, variant)
    assert _outcome(family, variant) == base
    silent, active = [], []
    for key, spec in _settings(family):
        name = key.partition(".")[2]
        tried = [value for value in _others(_value(family, variant, key), spec) if name not in variant]
        moved = False
        for value in tried:
            try:
                moved = moved or _outcome(family, {**variant, name: value}) != base
            except InputError:
                continue  # the family refuses it itself
            except (KeyError, AssertionError, RuntimeError):
                moved = True  # it asks for something else
        if tried and moved and key in idle:
            active.append(key)
        if tried and not moved and key not in idle:
            silent.append(key)
    assert active == [], "declared to have no effect here"
    assert silent == [], "has no effect here, and does not say so"


def _value(family: str, variant: dict[str, Any], key: str) -> Any:
    """The value of a key in the small models of these tests."""
    part, name = key.split(".")
    made = make_family(family, DATA.context, **variant) if part == "model" else make_objective(family, **variant)
    return getattr(made.config, name)


@pytest.mark.parametrize("family", registry.names("family"))
def test_a_family_without_steps_reads_no_setting_of_them(family: str) -> None:
    model = make_family(family, DATA.context)
    assert bool(model.phases()) == (family not in WITHOUT_STEPS)
    leaves, idle = flatten(frame_of(family)), without_effect(frame_of(family))
    of_steps = {key for key in leaves if key.startswith(("optim.", "objective."))} | {"train.epochs", "train.window"}
    assert (of_steps <= set(idle)) == (family in WITHOUT_STEPS)
    assert ("text.drop_components" in idle) == (not model.inputs.components)
    assert not {"train.precision", "train.workers", "train.threads", "seed"} & set(idle)


@pytest.mark.parametrize("milestones", [(), (3,)])
@pytest.mark.parametrize("schedule", ["constant", "step", "milestones", "halving", "cosine"])
def test_what_a_schedule_does_not_read_has_no_effect(schedule: str, milestones: tuple[int, ...]) -> None:
    changes = {"optim.schedule": schedule, "optim.milestones": milestones, "optim.every": 2}
    config = override(preset("vsepp_scenes"), changes)
    idle, optim = without_effect(config), config.optim
    others: dict[str, Any] = {
        "every": 4,
        "factor": 0.3,
        "milestones": (5,),
        "factors": (0.7,),
        "floor": optim.lr / 3,
        "warmup": 2.0,
    }
    for name, value in others.items():
        rates = [
            [learning_rate(o, e, 9) for e in range(9)] for o in (optim, dataclasses.replace(optim, **{name: value}))
        ]
        assert (rates[0] == rates[1]) == (f"optim.{name}" in idle), name


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("vsepp_scenes", {"model.k": 5}, "model.k=5: has no effect with model.image=pooled; it needs model.image=map"),
        (
            "vsepp_scenes",
            {"model.image": "map", "model.pooling": "avg", "model.k": 5},
            "model.k=5: has no effect with model.pooling=avg; it needs model.pooling=maxk",
        ),
        (
            "vsepp_scenes",
            {"objective.hinge": "sum", "objective.warmup": 3},
            "objective.warmup=3: has no effect with objective.hinge=sum; it needs objective.hinge=hardest",
        ),
        (
            "jwae_mh_scan_t2i_scenes",
            {"model.i2t_softmax": 2.0},
            "model.i2t_softmax=2.0: has no effect with model.direction=t2i; it needs model.direction=i2t|both",
        ),
        (
            "relational_basic_scenes",
            {"objective.pool_weight": 0.4},
            "objective.pool_weight=0.4: has no effect with model.structure=none; it needs model.structure=pool",
        ),
        (
            "vsepp_scenes",
            {"objective": "embedding_network", "objective.neighbours": 0.3},
            "objective.neighbours=0.3: has no effect with model=vsepp; it needs model=embedding_network",
        ),
        (
            "univse_rel_scenes",
            {"objective.nouns": 3},
            "objective.nouns=3: has no effect with objective.eta_o=0.0; it needs objective.eta_o>0",
        ),
        (
            "vsec_scenes",
            {"text.contrast.leak": True},
            "text.contrast.leak=true: has no effect with text.contrast.sensible_prepositions=true; it needs "
            "text.contrast.sensible_prepositions=false",
        ),
        (
            "vsepp_scenes",
            {"optim.every": 3},
            "optim.every=3: has no effect with optim.schedule=cosine; it needs optim.schedule=step|halving",
        ),
        (
            "vsepp_scenes",
            {"text.drop_components": 0.3},
            "text.drop_components=0.3: has no effect with model=vsepp; it needs model=univse",
        ),
        (
            "cca_scenes",
            {"train.epochs": 7},
            "train.epochs=7: has no effect with model=cca; it needs a family that is trained by steps",
        ),
    ],
)
def test_a_setting_without_effect_is_one_clear_line(name: str, changes: dict[str, Any], message: str) -> None:
    config = override(preset(name), changes)
    with pytest.raises(InputError) as error:
        check_effects(config, changes)
    assert str(error.value) == message
    check_effects(config, [key for key in changes if key not in without_effect(config)])


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "jwae_mh_gru_scenes",
            {"model.regularizer": "none"},
            "objective.lambda3=0.01, objective.lambda4=0.01: model.regularizer=none has no Gaussian regulariser",
        ),
        (
            "jwae_mh_gru_scenes",
            {"objective.lambda3": 0.0, "objective.lambda4": 0.0},
            r"the discriminator would train without effect on the codes; use model\.regularizer=none",
        ),
        (
            "jwae_mh_scan_t2i_scenes",
            {"objective.lambda3": 0.0, "objective.lambda4": 0.0},
            r"use objective\.lambda3 and objective\.lambda4 above 0",
        ),
        (
            "jwae_mse_scenes",
            {"objective.hinge": "sum"},
            r"objective\.hinge=sum: objective\.match=mse has no negatives; use match=hinge",
        ),
        (
            "relational_basic_scenes",
            {"model.structure": "pool"},
            r"objective\.global_weight=1: is the weight without pools; .* add objective\.global_weight=0\.2",
        ),
    ],
)
def test_parts_that_would_train_for_nothing_are_refused(name: str, changes: dict[str, Any], message: str) -> None:
    check_objective(preset(name))
    with pytest.raises(InputError, match=message) as error:
        check_objective(override(preset(name), changes))
    assert "\n" not in str(error.value)


@pytest.mark.seconds
def test_conditions_are_of_keys_and_values_that_exist() -> None:
    seen = 0
    for name in presets.names():
        config = preset(name)
        leaves = flatten(config)
        for key, spec, _, _ in walk(config):
            if only := spec.metadata.get("only", ""):
                seen += 1
                unmet(only, key.rpartition(".")[0], leaves)  # asserts that it can be read
                for condition in only.replace(" or ", " ").split():
                    _check_condition(condition, key, config)
    assert seen > 1000


def _check_condition(condition: str, key: str, config: RunConfig) -> None:
    if "!=" in condition:
        return  # some of these have that choice alone
    name, _, values = condition.replace(">", "=").replace("<", "=").partition("=")
    specs = {each: spec for each, spec, _, _ in walk(config)}
    full = name if name in specs or "." in name else f"{key.rpartition('.')[0]}.{name}"
    if full in specs and (choices := specs[full].metadata.get("choices")):
        never = NEVER_MET.get(registry.name_of("family", config.model), set())
        assert set(values.split("|")) <= set(choices) or condition in never, condition


def test_alternatives_and_keys_of_other_groups() -> None:
    leaves = {"model": "vsepp", "model.a": 1, "model.b": "x", "text.c": "", "model.d": None}
    assert unmet("a=1 b=x|y", "model", leaves) is None
    assert unmet("a=2 b=y", "model", leaves) == ("model.a", "model.a=2")
    assert unmet("a=2 or b=x", "model", leaves) is None
    assert unmet("a>0 a<2 text.c= d=null", "model", leaves) is None
    assert unmet("text.c!=", "model", leaves) == ("text.c", "text.c!=")
    assert unmet("missing=3", "model", leaves) is None
    assert unmet("data.missing=3", "model", leaves) == ("data.missing", "data.missing=3")
    assert unmet("model=univse|vsepp", "objective", leaves) is None
