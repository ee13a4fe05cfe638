"""The table of codes: intervals over seeds, one system a call, and none of another's files overwritten."""

import json
from pathlib import Path

import pytest

from vse.config import override
from vse.errors import InputError
from vse.presets import preset
from vse.report.gaussian import COLUMNS, add_system
from vse.storage.folder import Folder

CONFIG = preset("jwae_mse_scenes")


def measured(seed: int, own: bool = True) -> dict[str, float]:
    """Numbers by arithmetic: after training 1, 2, 3 with the seed, before it a tenth."""
    names = [name for name in COLUMNS if own or name != "own_accuracy"]
    found = dict[str, float]()
    for side in ("images", "captions"):
        found |= {f"gaussian_{side}/{name}": 1.0 + seed for name in names}
        found |= {f"gaussian_{side}/before/{name}": 0.1 for name in names}
    return found


def test_means_and_intervals_over_seeds(tmp_path: Path) -> None:
    out = Folder.open(tmp_path / "gaussian")
    lines = add_system(out, "jWAE-MSE", "python jobs/x.py", CONFIG, {seed: measured(seed) for seed in range(3)})
    assert len(lines) == 2 + 2
    assert lines[2].startswith("| jWAE-MSE | images | 0.10 → 2.00 ± 2.48 |")  # t of two degrees of freedom over √3
    assert lines[2].endswith("| 10 → 200 ± 248 |")
    kept = json.loads((tmp_path / "gaussian" / "results.json").read_text())["systems"]["jWAE-MSE"]
    assert kept["seeds"] == [0, 1, 2]
    assert kept["numbers"]["captions/std"] == [2.0, pytest.approx(4.302653 / 3**0.5, abs=1e-4)]
    assert kept["numbers"]["captions/before/std"] == [0.1, 0.0]
    assert kept["configuration"]["objective.lambda3"] == 0.2
    assert "seed" not in kept["configuration"]


def test_systems_stand_below_each_other_and_the_newest_numbers_count(tmp_path: Path) -> None:
    out = Folder.open(tmp_path)
    add_system(out, "jWAE", "one", CONFIG, {0: measured(0)})
    free = override(CONFIG, {"model.regularizer": "none"})
    lines = add_system(out, "MSE", "two", free, {0: measured(0, own=False)})
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| jWAE", "| jWAE", "| MSE", "| MSE"]
    assert lines[4].endswith("| 10 → 100 | none |")
    again = add_system(out, "jWAE", "one", CONFIG, {0: measured(1)})
    assert again[2].startswith("| jWAE | images | 0.10 → 2.00 |")  # no interval of a single seed
    assert again[4:] == lines[4:]
    after = {key: value for key, value in measured(1).items() if "/before/" not in key}
    assert add_system(out, "tuned", "three", CONFIG, {0: after})[-1].startswith("| tuned | captions | 2.00 |")


def test_systems_on_other_data_are_refused(tmp_path: Path) -> None:
    out = Folder.open(tmp_path)
    add_system(out, "jWAE", "one", CONFIG, {0: measured(0)})
    other = override(CONFIG, {"data.num_test": 5})
    with pytest.raises(InputError, match=r"jWAE was measured on other data \(data\.num_test\)"):
        add_system(out, "MSE", "two", other, {0: measured(0)})
    add_system(out, "jWAE", "one", other, {0: measured(0)})  # its own numbers are replaced


def test_a_file_of_another_kind_stays(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"schema": 7}')
    with pytest.raises(InputError, match=r"results\.json: written by another job or version"):
        add_system(Folder.open(tmp_path), "jWAE", "one", CONFIG, {0: measured(0)})
    assert (tmp_path / "results.json").read_text() == '{"schema": 7}'
