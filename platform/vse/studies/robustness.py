"""The studies of UniVSE against VSE++, on scenes and on photographs."""

from vse.studies.claims import PLATEAU
from vse.studies.study import Study, StudyArm, grid

ALPHAS = (0.0, 0.25, 0.5, *PLATEAU, 0.9, 1.0)
_RATES = (5e-4, 1e-3, 2e-3, 4e-3)

ROBUSTNESS_SCENES = Study(
    name="robustness_scenes",
    # Captions of seed 0 were looked at while their grammar was written. Fifteen epochs, half of them with the sum over
    # negatives: half of what the presets take, so that ten seeds of nine arms fit a few hours of two cores.
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
    folds=3,
    standard_error=True,
    photographs=True,
)
