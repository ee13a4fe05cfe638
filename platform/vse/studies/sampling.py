"""The study of what other seeds of the sampling of adversaries change, with all else alike (VSE-C, Appendix B)."""

from vse.studies.claims import Claim, Comparison, RunOf
from vse.studies.study import Study, StudyArm

SEEDS = 5
# Of single runs a difference is known no better than 300 images tell it (a standard error of three points); twelve
# test splits more, each a pool of its own, tell it to a point.
POOLS = tuple(f"pool_{number:02d}" for number in range(1, 13))
# Half of what Table 2 finds between VSE-C and VSE++ would matter.
WITHIN = (55.7 - 50.2) / 2


def _within(seed: int, sign: float, way: str) -> Comparison:
    """One pair of runs that differ in the sampling alone, over all pools."""
    terms = tuple(
        (weight * sign / len(POOLS), RunOf(model=model, split=pool, seed=seed))
        for pool in POOLS
        for weight, model in ((1.0, "vsec_redrawn"), (-1.0, "vsec"))
    )
    name = f"i2t/r1: seed {seed}, other adversaries, no further than {WITHIN:g} {way}"
    return Comparison(name=name, metric="i2t/r1", terms=terms, margin=-WITHIN, negligible=0.0)


SAMPLING_CLAIMS = (
    Claim(
        name="sampling_seeds_alike",
        paper="vsec_appendix",
        statement="Other seeds of the sampling of adversaries, with all else alike, make no difference (Appendix B: no "
        "significant variance): of every pair of runs, R@1 differs by less than half of what Table 2 finds between "
        "VSE-C and VSE++.",
        comparisons=tuple(
            _within(seed, sign, way) for seed in range(SEEDS) for sign, way in ((1.0, "below"), (-1.0, "above"))
        ),
        seeds=1,  # each comparison is of one seed
    ),
)

_AS_IN_FAMILIES = {"model.word_dim": 128, "optim.lr": 8e-3}  # what its family chose in the study of all families
SAMPLING_SCENES = Study(
    name="sampling_scenes",
    data={"data.seed": 1},
    arms={
        "vsec": StudyArm(preset="vsec_scenes", family="", changes=_AS_IN_FAMILIES),
        "vsec_redrawn": StudyArm(preset="vsec_scenes", family="", changes={**_AS_IN_FAMILIES, "objective.redraw": 1}),
    },
    search={},
    splits=("test",),
    seeds=SEEDS,
    claims=SAMPLING_CLAIMS,
    transfers={
        pool: {"data.seed": 100 + number, "data.num_train": 0, "data.num_val": 0, "data.num_shifted": 0}
        for number, pool in enumerate(POOLS)
    },
)
