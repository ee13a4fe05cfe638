"""A workspace for each file, and tiny runs in it with what the file says under CHANGES."""

import pytest

from vse.config import override
from vse.presets import preset
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("measuring")))


@pytest.fixture(scope="module")
def univse(place: Workspace, request: pytest.FixtureRequest) -> Folder:
    return run_training(override(preset("univse_tiny"), request.module.CHANGES), place).folder


@pytest.fixture(scope="module")
def vsepp(place: Workspace, request: pytest.FixtureRequest) -> Folder:
    return run_training(override(preset("vsepp_tiny"), request.module.CHANGES), place).folder
