"""The studies of all families: each with the best of four rates, on scenes and on photographs."""

from collections.abc import Mapping
from typing import Any

from vse.studies.family_claims import FAMILY_CLAIMS, KINDS, VSEC_CLAIMS
from vse.studies.study import Changes, Study, StudyArm
from vse.studies.univse_claims import ABLATION_CLAIMS


def _rates(own: float) -> tuple[Changes, ...]:
    """The learning rates of the search: VSE++'s rate, a quarter of it, four times and sixteen times it.

    The last was added when UniVSE and VSE-C chose the highest of three rates, since the optimum may then lie beyond.
    """
    return tuple({"optim.lr": rate} for rate in (own / 4, own, 4 * own, 16 * own))


# The schedule of the hand-made presets of both GRU families, and the width of the twins' word embeddings.
_FIFTEEN = {"train.epochs": 15, "objective.warmup": 8}
_WIDE = {"model.word_dim": 128}
# Ablations of VSE++ have its preset, but are trained like the twins of other families here.
_OF_VSEPP = ("vse", "vse0", "vsepp_gpo", "vsepp_infonce", "vsepp_sigmoid")
_AS_TWINS = {"train.epochs": 15, "optim.every": 8}
# Family -> systems that train at the rate which its first one chose.
_FAMILIES = {
    "vse": ("vse", "vse0"),
    "order": ("order", "order0", "orderpp"),
    "vsec": ("vsec", "vsec_noun", "vsec_numeral", "vsec_relation"),
    "jwae_mh_gru": ("jwae_mh_gru", "vae_mh"),
    "jwae_mh": ("jwae_mh",),
    "jwae_mse": ("jwae_mse", "mse", "mmd_mse", "jwae_mse_hglmm"),
    "vse_infinity": ("vse_infinity",),
    "vsepp_infonce": ("vsepp_infonce",),
    "vsepp_sigmoid": ("vsepp_sigmoid",),
    "cse": ("cse",),
    "relational": ("relational_basic", "relational_pool", "relational_attention"),
    "scan_t2i": ("scan_t2i_avg", "scan_t2i_lse", "scan_both"),
    "scan_i2t": ("scan_i2t_avg", "scan_i2t_lse"),
    "jwae_mh_scan": ("jwae_mh_scan_t2i", "jwae_mh_scan_i2t"),
}
_WORDLESS = {  # one fixed vector a caption
    "embedding_network": ("embedding_network", "embedding_network_hglmm"),
    "similarity_network": ("similarity_network",),
}


def _univse(**changes: Any) -> StudyArm:
    """UniVSE with something of it changed."""
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return StudyArm(preset="univse_scenes", family="univse", changes={**_FIFTEEN, **named}, alphas=(0.75,))


def _twins(families: Mapping[str, tuple[str, ...]], where: str, changes: Changes) -> dict[str, StudyArm]:
    return {
        name: StudyArm(
            preset=f"{name}_{where}", family=family, changes={**changes, **(_AS_TWINS if name in _OF_VSEPP else {})}
        )
        for family, names in families.items()
        for name in names
    }


FAMILIES_SCENES = Study(
    name="families_scenes",
    # Sizes and schedules come from the one transform, so within a claim only its subject differs. Each family
    # has the best of four rates. Relational arms keep their last epoch, as the thesis does (3.4), others their best.
    # Fisher vectors of 150-word vocabularies need few dimensions.
    data={"data.seed": 1},
    arms={
        "vsepp": StudyArm(preset="vsepp_scenes", family="vsepp", changes=_FIFTEEN),
        "univse": StudyArm(preset="univse_scenes", family="univse", changes=_FIFTEEN, alphas=(0.75, 1.0)),
        **{
            f"vsepp_{name}": StudyArm(
                preset="vsepp_maxk_scenes", family="vsepp", changes={**_FIFTEEN, "model.pooling": pooling}
            )
            for name, pooling in (("average_pooling", "avg"), ("max_pooling", "max"))
        },
        "vsepp_maxk": StudyArm(preset="vsepp_maxk_scenes", family="vsepp", changes=_FIFTEEN),
        **_twins({"vsepp": ("vsepp_gpo",)}, "scenes", {**_WIDE, "objective.warmup": 8}),
        "univse_average_pooling": _univse(model__pooling="avg"),
        "univse_max_pooling": _univse(model__pooling="max"),
        "univse_no_comp": _univse(objective__eta_c=0.0),
        "univse_obj": _univse(objective__eta_a=0.0, objective__eta_r=0.0),
        "univse_attr": _univse(objective__eta_o=0.0, objective__eta_r=0.0),
        "univse_rel": _univse(objective__eta_o=0.0, objective__eta_a=0.0),
        "univse_aggregate_sum": _univse(model__aggregation="sum"),
        "univse_aggregate_max": _univse(model__aggregation="max"),
        "univse_aggregate_gru": _univse(model__aggregation="gru"),
        "univse_aggregate_attention": _univse(model__aggregation="attention"),
        "univse_learned_alpha": StudyArm(
            preset="univse_scenes", family="univse", changes={**_FIFTEEN, "model.learn_alpha": True}
        ),
        **_twins(_FAMILIES, "scenes", _WIDE),
        **_twins(_WORDLESS, "scenes", {}),
        **{name: StudyArm(preset=f"{name}_scenes", family="") for name in ("cca", "cca_hglmm")},  # in closed form
    },
    search={family: _rates(2e-3) for family in ("vsepp", "univse", *_FAMILIES, *_WORDLESS)},
    splits=("test", "shifted"),
    seeds=5,
    claims=(*FAMILY_CLAIMS, *ABLATION_CLAIMS),
    contrast=5,
    transfers={"drawing": {"data.drawing": "second"}, "wording": {"data.wording": "second"}},
)

_ON_PHOTOGRAPHS = {
    "vsepp": StudyArm(preset="vsepp_flickr8k", family="vsepp"),
    "univse": StudyArm(preset="univse_flickr8k", family="univse", alphas=(0.75, 1.0)),
    "vsec": StudyArm(preset="vsec_flickr8k", family="vsec"),
    **{
        f"vsec_{kind}": StudyArm(preset="vsec_flickr8k", family="vsec", changes={"objective.kinds": (kind,)})
        for kind in KINDS
    },
    "vse": StudyArm(preset="vsepp_flickr8k", family="vse", changes={"objective.hinge": "sum"}),
    **_twins(
        {name: (name,) for name in ("order", "jwae_mh_gru", "vse_infinity", "relational_attention", "scan_t2i_avg")},
        "flickr8k",
        {"model.word_dim": 300},
    ),
}
FAMILIES_PHOTOGRAPHS = Study(
    name="families_photographs",
    # Eight systems and the systems that VSE-C's claims also need; words as wide as the vectors that a user gives.
    data={},
    arms=_ON_PHOTOGRAPHS,
    search={arm.family: _rates(1e-3) for arm in _ON_PHOTOGRAPHS.values()},
    splits=("test",),
    seeds=5,
    claims=VSEC_CLAIMS,
    contrast=5,
    photographs=True,
)
