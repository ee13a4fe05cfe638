"""Made-up results with the shape of the real ones: a curve that is flat in plain retrieval and falls under attack."""

import numpy as np

from vse.adversaries.attacks import ATTACKS
from vse.report.curve import AlphaResults, Arm, Metrics

GRID = [round(0.05 * k, 2) for k in range(21)]


def metrics(rng: np.random.Generator, seeds: int, plain: float, attacked: float) -> Metrics:
    found: Metrics = {}

    def put(name: str, value: float) -> None:
        found[name] = [float(v) for v in value + rng.normal(0, 1.0, seeds)]

    for split in ("val", "test"):
        for way, shift in (("i2t", 0.0), ("t2i", -9.0)):
            for k, more in ((1, 0), (5, 25), (10, 38)):
                put(f"{split}/{way}/r{k}", plain + shift + more)
        found[f"{split}/rsum"] = [
            sum(found[f"{split}/{way}/r{k}"][s] for way in ("i2t", "t2i") for k in (1, 5, 10)) for s in range(seeds)
        ]
        for place, attack in enumerate(ATTACKS):
            for k, more in ((1, 0), (5, 22), (10, 34)):
                put(f"{split}/attack_{attack}/r{k}", attacked - 4 * place + more)
            put(f"{split}/attack_{attack}/rsum3", 3 * attacked + 56)
            put(f"{split}/attack_{attack}/pair_accuracy", 70 + attacked / 2)
    return found


def made_up(seeds: int = 3, seed: int = 0, reference: bool = True, learned: bool = True) -> AlphaResults:
    rng = np.random.default_rng(seed)
    shift = rng.normal(0, 0.6, seeds)
    points = []
    for alpha in GRID:
        quiet = np.random.default_rng(7)
        point = metrics(quiet, seeds, 40 - 22 * (1 - alpha) ** 3 - 1.5 * alpha**4, 31 - 14 * alpha**3)
        points.append({name: [float(v + shift[s]) for s, v in enumerate(values)] for name, values in point.items()})
    return AlphaResults(
        name="alpha-univse_scenes-0123abcd",
        label="UniVSE",
        data="scenes",
        seeds=list(range(seeds)),
        alphas=GRID,
        points=points,
        chosen=0.7,
        configured=0.75,
        rule="Of the alphas whose validation rsum is within one point of the best, the most robust one.",
        reference=Arm(label="VSE++", metrics=metrics(rng, seeds, 37, 17)) if reference else None,
        learned=Arm(label="UniVSE, learned α", metrics=metrics(rng, seeds, 39, 24), alphas=[0.61, 0.66, 0.58][:seeds])
        if learned
        else None,
        runs={"univse": {str(s): f"univse-scenes-s{s}-00000000" for s in range(seeds)}},
    )
