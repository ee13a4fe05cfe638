"""Every system by its `_small` preset: what a newcomer trains first, within 40 s on two cores.

Run with `-s` to see seconds of training, validation included, and R@1 of each.
"""

import pytest

from vse import presets
from vse.config import override
from vse.stages.train import run_training
from vse.workspace.layout import Workspace

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]
CHANCE = 100 / 50  # of images, R@1 of sentences on validation


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("small")))


@pytest.mark.parametrize("name", [name for name in presets.names() if name.endswith("_small")])
def test_it_learns_in_seconds(name: str, workspace: Workspace) -> None:
    config = override(presets.preset(name), {"train.threads": 2})
    result = run_training(config, workspace)
    image, text = (result.metrics[f"val/{way}/r1"] for way in ("i2t", "t2i"))
    print(f"{name}: {result.seconds:.1f} s, validation R@1 {image:.1f} and {text:.1f}", flush=True)
    assert text > 2 * CHANCE
