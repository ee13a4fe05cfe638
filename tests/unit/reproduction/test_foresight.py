"""The hours of a reproduction, computed by hand from the step times."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.shared import SHARED
from vse import registry
from vse.cli.command import Request
from vse.reproduction.foresight import foresee, wall_seconds
from vse.reproduction.options import FLICKR8K, PUBLISHED, ReproduceOptions, TableData, TableTrials
from vse.reproduction.plan import make_plan


@pytest.mark.parametrize(
    ("trainings", "gpus", "seconds"),
    [([3, 3, 2, 2], 1, 10), ([3, 3, 2, 2], 2, 5), ([1, 1, 1, 5], 2, 6), ([3, 3, 2, 2], 64, 3)],
)
def test_trainings_start_in_order_as_soon_as_a_gpu_is_free(trainings: list[float], gpus: int, seconds: float) -> None:
    assert wall_seconds(trainings, gpus) == seconds


def request(tmp_path: Path, options: ReproduceOptions) -> Request:
    return Request(
        job="reproduce",
        workspace=str(tmp_path),
        preset=None,
        config=None,
        options=options,
        changed=frozenset(),
        tracking=None,
    )


def lines(tmp_path: Path, paper: str) -> list[str]:
    options = ReproduceOptions(
        paper=paper, scale=PUBLISHED, seeds=3, data=TableData(root="/data"), sweep=TableTrials(price=4.5)
    )
    return list(foresee(request(tmp_path, options)))


def test_hours_and_money_on_gpus(tmp_path: Path) -> None:
    """VSE-C: 30 epochs of 566,435 captions in batches of 128 are 132,758 steps. VSE and VSE++ take 1.4 × 5.5 ms a step
    and five seconds, 1,027 s; four kinds of VSE-C take 2.1 times as long, 2,152 s; three seeds of each."""
    text = "\n".join(lines(tmp_path, "vse_c"))
    assert "18 trainings, 0 there, 18 to run" in text
    hours = 3 * (2 * 1027.2 + 4 * 2151.7) / 3600
    (line,) = [each for each in text.splitlines() if each.startswith("by step times on an H100")]
    assert line.startswith(f"by step times on an H100: {hours:.1f} GPU-hours, {hours:.1f} h on 1, ")
    assert "36 min on 64 GPUs" in line  # the longest training
    assert line.endswith(f"; {4.5 * hours:.0f} of money at 4.5 an hour")


def test_each_photographs_have_their_number_of_steps(tmp_path: Path) -> None:
    """SCAN's features name no data set: 29,000 images of Flickr30k for 30 epochs, 113,287 of COCO for 20."""
    text = "\n".join(lines(tmp_path, "jwae"))
    for arm, epochs, images in (("scan_t2i_avg_flickr30k", 30, 29_000), ("scan_t2i_avg_coco", 20, 113_287)):
        hours = epochs * images * 5 / 128 * 8 * 0.6 / 3600
        assert f"{arm}: 2 rows; to train: seed 0, 1, 2, about {hours:.1f} h each" in text


@pytest.mark.seconds
@pytest.mark.skipif(SHARED is None, reason="needs ../shared/data")
def test_phrases_of_photographs(tmp_path: Path) -> None:
    """jWAE's Table 7 on phrases of every twentieth photograph of Flickr8k, with one region for each photograph."""
    assert SHARED is not None
    data, phrases, proposals = SHARED / "data", tmp_path / "phrases.json", tmp_path / "proposals.npz"
    entries = json.loads((data / "flickr30k_entities" / "phrase_boxes_flickr8k_800.json").read_text())
    few = dict(list(entries.items())[::20])
    phrases.write_text(json.dumps(few))
    regions: Any = dict.fromkeys(few, np.array([[0.0, 0.0, 1.0, 1.0]]))
    np.savez(proposals, **regions)
    files = {
        "data.of.file": phrases,
        "data.of.captions": data / "flickr8k_800" / "dataset_flickr8k_800.json",
        "data.proposals": proposals,
        "text.encoder.model": data / "weights" / "minilm_l6_v2",
    }
    options = ReproduceOptions(
        paper="jwae",
        table="7",
        scale=FLICKR8K,
        data=TableData(root=str(data / "flickr8k_800")),
        set=tuple(f"{key}={path}" for key, path in files.items()),
    )
    asked = request(tmp_path, options)
    assert "5 trainings, 0 there, 5 to run" in "\n".join(foresee(asked))
    data_of_jwae = make_plan(asked).arms["jwae_mse_localisation_photographs"].data
    records = registry.build("source", data_of_jwae).describe()
    assert sum("#" not in image.id for image in records.images) == len(few)
