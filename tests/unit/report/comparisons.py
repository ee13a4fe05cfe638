"""Made-up comparisons: outcomes of images with ragged captions, for runs of any seed and quality."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from vse.config import override
from vse.evaluation.outcomes import Outcomes
from vse.evaluation.tasks.attacks import AttacksTask
from vse.evaluation.tasks.retrieval import RetrievalTask
from vse.presets import preset
from vse.report.comparison import Compared, Comparison, compare, systems_of
from vse.report.measured import MetricKey

IMAGES = 60


def run(
    name: str, seed: int = 0, known_as: str = "", made_of: dict[str, str] | None = None, **changes: Any
) -> Compared:
    """A run of VSE++, or of another preset, with some keys changed."""
    base = preset(changes.pop("preset", "vsepp_tiny"))
    config = override(base, {"seed": seed, **{key.replace("__", "."): value for key, value in changes.items()}})
    return Compared(name=name, config=config, preset=known_as, made_of=made_of)


def outcomes(rate: float, seed: int = 0, num_images: int = IMAGES, attacks: bool = True) -> Outcomes:
    """Hits of that rate; an image is one query of i2t, and each of its one to seven captions one of t2i."""
    rng, captions = np.random.default_rng(seed), np.random.default_rng(99).integers(1, 8, num_images)
    table = dict[str, np.ndarray]()
    for task, queries in (("i2t", np.ones(num_images, int)), ("t2i", captions)):
        hits = np.zeros(num_images)
        for k, more in ((1, 0.0), (5, 0.2), (10, 0.3)):
            hits = np.maximum(hits, rng.binomial(queries, min(1.0, rate + more)))
            table[f"{task}/r{k}"] = np.stack([hits, queries], 1).astype(float)
    if attacks:
        for attack in ("object", "relation/disjoint"):
            for metric, queries in (("r1", np.ones(num_images, int)), ("pair_accuracy", 5 * captions)):
                hits = rng.binomial(queries, rate)
                table[f"attack_{attack}/{metric}"] = np.stack([hits, queries], 1).astype(float)
    return Outcomes(
        images=tuple(f"image {k}" for k in range(num_images)),
        fold=np.zeros(num_images, dtype=np.int64),
        num_captions=int(captions.sum()),
        table=table,
    )


def keys(table: Mapping[str, np.ndarray]) -> dict[str, list[MetricKey]]:
    """The metrics of a table of the test split, in the order of tables."""
    return {
        "test": [
            MetricKey(name, "test", metric)
            for name, task in (("retrieval", RetrievalTask()), ("attacks", AttacksTask()))
            for metric in task.metrics
            if metric.name in table or metric.name == "rsum"
        ]
    }


def made_up(num_systems: int = 2, seeds: int = 1, attacks: bool = True) -> Comparison:
    """Systems of rising quality, `vsepp_small` first."""
    runs, found = [], {}
    for place in range(num_systems):
        for seed in range(seeds):
            name = f"vsepp-scenes-s{seed}-0000000{place}"
            known_as = "vsepp_small" + (f" +{place} keys" if place else "")
            runs.append(run(name, seed, known_as, model__dim=32 + 32 * place))
            found[name] = {"test": outcomes(0.3 + 0.1 * place, 10 * place + seed, attacks=attacks)}
    return compare(systems_of(runs), found, keys(found[runs[0].name]["test"].table))
