"""The study of a few known pairs."""

from vse.studies.family_claims import SEMI_SUPERVISED_CLAIMS
from vse.studies.study import Study, StudyArm

# Epochs on a share of the pairs alone in which as many steps are taken as in fifteen on all: 28 an epoch there, and
# here 2, 3, 7 (of some seeds 8) and 14, the last of them on what is left over
_AS_MANY_STEPS = {0.05: 210, 0.1: 140, 0.25: 60, 0.5: 30}


def _pairs(preset: str, share: float, unpaired: bool, epochs: int = 15) -> StudyArm:
    changes = {"train.pairs": share, "train.unpaired": unpaired, "train.epochs": epochs}
    return StudyArm(preset=f"{preset}_scenes", family="", changes=changes)


SEMI_SUPERVISED_SCENES = Study(
    name="semi_supervised_scenes",
    # jWAE-MSE with the Gaussian and without it (MSE), a share of the pairs known, the rest left out or used unpaired.
    # Who leaves them out has fewer steps an epoch: `_steps` has more epochs.
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
