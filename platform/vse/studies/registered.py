"""All registered studies: UniVSE against VSE++, all families, few pairs, and the sampling of adversaries."""

from vse.studies.families import FAMILIES_PHOTOGRAPHS, FAMILIES_SCENES
from vse.studies.family_claims import POOLS, SAMPLING_CLAIMS, SAMPLING_SEEDS, SEMI_SUPERVISED_CLAIMS
from vse.studies.study import Study, StudyArm, grid
from vse.studies.univse_claims import PLATEAU, UNIVSE_CLAIMS

ALPHAS = (0.0, 0.25, 0.5, *PLATEAU, 0.9, 1.0)
_RATES = (5e-4, 1e-3, 2e-3, 4e-3)

ROBUSTNESS_SCENES = Study(
    name="robustness_scenes",
    # Scenes of seed 1, because the grammar was written while looking at captions of seed 0. The presets take twice as
    # many epochs; with fifteen, half of them with the sum over negatives, ten seeds of nine arms take a few hours.
    data={"data.seed": 1, "train.epochs": 15, "objective.warmup": 7},
    arms={
        "vsepp": StudyArm(preset="vsepp_scenes", family="vsepp"),
        "univse": StudyArm(preset="univse_scenes", family="univse", alphas=ALPHAS),
        "vsepp_longer": StudyArm(preset="vsepp_scenes", family="vsepp", longer="univse"),
        "vsepp_maxk": StudyArm(preset="vsepp_maxk_scenes", family="vsepp"),
        "univse_no_comp": StudyArm(
            preset="univse_scenes", family="univse", changes={"objective.eta_c": 0.0}, alphas=(0.75, 1.0)
        ),
        "vsepp_truth": StudyArm(preset="vsepp_scenes", family="vsepp", changes={"objective.mask": "truth"}),
        "univse_truth": StudyArm(
            preset="univse_scenes", family="univse", changes={"objective.mask": "truth"}, alphas=(0.75, 1.0)
        ),
        "vsepp_random": StudyArm(
            preset="vsepp_scenes", family="vsepp", changes={"features.backbone.weights": "random"}
        ),
        "univse_random": StudyArm(
            preset="univse_scenes",
            family="univse",
            changes={"features.backbone.weights": "random"},
            alphas=(0.75, 1.0),
        ),
    },
    search={
        "vsepp": grid("optim.lr", _RATES, "model.dropout", (0.0, 0.2)),
        "univse": grid("optim.lr", _RATES, "objective.temperature", (0.1, 1.0)),
    },
    splits=("test", "shifted"),
    seeds=10,
    claims=UNIVSE_CLAIMS,
)

# The floor model: a plain GRU on pooled features, 512-d, 15 epochs, nothing searched, no outside text.
_FLOOR = {
    "model.dim": 512,
    "objective.mask": "none",
    "objective.warmup": 0,
    "optim.lr": 1e-3,
    "optim.schedule": "constant",
    "text.word_vectors": "",
}

PHOTOGRAPHS = Study(
    name="photographs",
    data={},
    arms={
        "vsepp": StudyArm(preset="vsepp_flickr8k", family="vsepp"),
        "univse": StudyArm(preset="univse_flickr8k", family="univse", alphas=ALPHAS),
        "floor_sum": StudyArm(preset="vsepp_flickr8k", family="", changes={**_FLOOR, "objective.hinge": "sum"}),
        "floor_hardest": StudyArm(preset="vsepp_flickr8k", family="", changes=_FLOOR),
    },
    search={
        "vsepp": grid("model.dropout", (0.0, 0.3), "objective.warmup", (5,)),
        "univse": grid("model.dropout", (0.0, 0.3), "objective.warmup", (5,)),
    },
    splits=("test",),
    seeds=5,
    claims=UNIVSE_CLAIMS,
    folds=3,
    standard_error=True,
    photographs=True,
)

# Epochs on a share of the pairs alone that take as many steps as fifteen epochs on all pairs
_AS_MANY_STEPS = {0.05: 210, 0.1: 140, 0.25: 60, 0.5: 30}


def _pairs(preset: str, share: float, unpaired: bool, epochs: int = 15) -> StudyArm:
    changes = {"train.pairs": share, "train.unpaired": unpaired, "train.epochs": epochs}
    return StudyArm(preset=f"{preset}_scenes", family="", changes=changes)


SEMI_SUPERVISED_SCENES = Study(
    name="semi_supervised_scenes",
    # jWAE-MSE with the Gaussian and without it (MSE) on a share of the pairs. The rest is left out, which means fewer
    # steps per epoch (`_steps` has more epochs), or used unpaired.
    data={"data.seed": 1},
    arms={
        **{
            f"{preset}_{100 * share:g}{'_unpaired' if unpaired else ''}": _pairs(preset, share, unpaired)
            for share in (0.1, *(other for other in _AS_MANY_STEPS if other != 0.1))
            for preset in ("jwae_mse", "mse")
            for unpaired in (False, True)
        },
        **{
            f"{preset}_{100 * share:g}_steps": _pairs(preset, share, False, epochs)
            for share, epochs in _AS_MANY_STEPS.items()
            for preset in ("jwae_mse", "mse")
        },
        "jwae_mse_100": StudyArm(preset="jwae_mse_scenes", family=""),
        "mse_100": StudyArm(preset="mse_scenes", family=""),
    },
    search={},
    splits=("test",),
    seeds=5,
    claims=SEMI_SUPERVISED_CLAIMS,
)

_AS_IN_FAMILIES = {"model.word_dim": 128, "optim.lr": 8e-3}  # as its family chose in the study of all families
SAMPLING_SCENES = Study(
    name="sampling_scenes",
    data={"data.seed": 1},
    arms={
        "vsec": StudyArm(preset="vsec_scenes", family="", changes=_AS_IN_FAMILIES),
        "vsec_redrawn": StudyArm(preset="vsec_scenes", family="", changes={**_AS_IN_FAMILIES, "objective.redraw": 1}),
    },
    search={},
    splits=("test",),
    seeds=SAMPLING_SEEDS,
    claims=SAMPLING_CLAIMS,
    transfers={
        pool: {"data.seed": 100 + number, "data.num_train": 0, "data.num_val": 0, "data.num_shifted": 0}
        for number, pool in enumerate(POOLS)
    },
)

STUDIES = {
    study.name: study
    for study in (
        ROBUSTNESS_SCENES,
        PHOTOGRAPHS,
        FAMILIES_SCENES,
        FAMILIES_PHOTOGRAPHS,
        SEMI_SUPERVISED_SCENES,
        SAMPLING_SCENES,
    )
}
