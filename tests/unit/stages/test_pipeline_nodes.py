"""What processes on other nodes read: the workspace, and never what only the job's driver has seen."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import photographs, s3
from tests.levels import slow_but
from vse.config import override, to_dict
from vse.errors import InputError
from vse.features import store as feature_store
from vse.presets import preset
from vse.stages import describe as describe_stage
from vse.stages import pipeline
from vse.stages import train_ray as distributed
from vse.stages.attack import attack_split
from vse.stages.contrast import contrast_candidates
from vse.stages.train import run_name, run_worker
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle
from vse.sweeps.trial import TrialSetting, objective_trial
from vse.text import corpus
from vse.training.config import RunConfig
from vse.training.inputs import Material
from vse.workspace.layout import Workspace


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return photographs.write(tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture
def away(disk: Path, tmp_path: Path) -> Path:
    """The data set in a folder that a test may move."""
    return Path(shutil.copytree(disk, tmp_path / "tiny"))


def configured(root: str, at: Any, name: str = "vsepp_tiny", **changes: Any) -> RunConfig:
    """A training on the data set at `root`; `at`: the path or address of a file of it."""
    keys = {"data": "karpathy", "data.root": root, "text.word_vectors": at(photographs.VECTORS), "train.epochs": 1}
    keys |= {"features.backbone.weights": at(photographs.WEIGHTS), "model.word_dim": 6} | changes
    return override(preset(name), keys)


def on_disk(folder: Path, name: str = "vsepp_tiny", **changes: Any) -> RunConfig:
    return configured(str(folder), lambda file: str(folder / file), name, **changes)


def forget() -> None:
    """As a process that has just started."""
    describe_stage._kept.cache_clear()
    corpus._shared.cache_clear()
    feature_store._cached.clear()


def same(one: Material, other: Material) -> bool:
    return (one.fingerprints, one.records.images, one.records.captions) == (
        other.fingerprints,
        other.records.images,
        other.records.captions,
    )


@pytest.mark.seconds
def test_a_trial_runs_where_the_sources_folder_is_not(away: Path, tmp_path: Path) -> None:
    config, workspace = on_disk(away), Workspace.open(str(tmp_path / "workspace"))
    driver = pipeline.prepare(config, workspace)
    away.rename(tmp_path / "gone")
    forget()
    common: dict[str, Any] = {"workspace": workspace.root.uri, "parent": ""}
    configs = {"": to_dict(config), "one": to_dict(config)}
    setting = TrialSetting(**common, configs=configs, external=workspace.external.answers)
    result = objective_trial({"seed": 3}, setting, "rsum")
    assert result["trained"]
    assert result["run"] == run_name(override(config, {"seed": 3}), driver)
    assert 0 < result["metrics"]["val/rsum"] <= 600
    assert "test/rsum" in result["metrics"]
    again = objective_trial({"arm": "one", "seed": 3}, setting, "rsum")
    assert (again["run"], again["trained"]) == (result["run"], False)
    with pytest.raises(InputError, match="no such folder"):  # whoever is told nothing looks for it
        objective_trial({"seed": 4}, TrialSetting(**common, configs=configs), "rsum")


def test_a_rank_runs_where_the_sources_folder_is_not(away: Path, tmp_path: Path) -> None:
    config, workspace = on_disk(away), Workspace.open(str(tmp_path / "workspace"))
    name = run_name(config, pipeline.prepare(config, workspace))
    arguments = distributed.worker_arguments(config, workspace, name, "", LeaseHandle())
    away.rename(tmp_path / "gone")
    forget()
    kind, text = run_worker(arguments | {"external": {}}) or ("", "")
    assert (kind, "no such folder" in text) == ("InputError", True)
    assert run_worker(arguments) is None
    assert workspace.run(name).exists("result.json")


def test_an_edited_file_of_captions_makes_other_records_in_the_driver(away: Path, tmp_path: Path) -> None:
    config, workspace = on_disk(away), Workspace.open(str(tmp_path / "workspace"))
    before = pipeline.prepare(config, workspace)
    old = Workspace.open(workspace.root.uri, dict(workspace.external.answers))
    file = away / "dataset_tiny.json"
    file.write_text(file.read_text().replace("on the grass", "in the snow"))
    after = pipeline.prepare(config, workspace)
    assert after.fingerprints["records"] != before.fingerprints["records"]
    new = Workspace.open(workspace.root.uri, dict(workspace.external.answers))
    forget()
    assert same(pipeline.prepare(config, new), after)
    assert same(pipeline.prepare(config, old), before)  # of a job that had begun before


@pytest.fixture
def proxy(s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[s3.Proxy]:
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    forget()
    with s3.proxied(s3_server) as found:
        yield found


@pytest.mark.parametrize("kind", slow_but(["karpathy", "table"], "karpathy"))
def test_everything_may_lie_on_s3(kind: str, disk: Path, proxy: s3.Proxy, tmp_path: Path) -> None:
    data = photographs.upload(disk, Folder.open(s3.address(proxy.place, f"data-{kind}")))
    remote = Workspace.open(s3.address(proxy.place, f"work-{kind}"))
    more = {"data.file": "captions.csv"} if kind == "table" else {}
    config = configured(data.uri, data.address, data=kind, **more)
    driver = pipeline.prepare(config, remote)
    here = pipeline.prepare(on_disk(disk, data=kind, **more), Workspace.open(str(tmp_path / "workspace")))
    assert same(driver, here)
    ids = tuple(image.id for image in here.records.images)
    assert (driver.features.array("pooled", ids) == here.features.array("pooled", ids)).all()
    data.delete("")
    assert not data.exists()
    forget()
    worker = Workspace.open(remote.root.uri, dict(remote.external.answers))
    assert same(pipeline.prepare(config, worker), driver)
    assert run_worker(distributed.worker_arguments(config, worker, run_name(config, driver), "", LeaseHandle())) is None


@pytest.mark.slow
def test_what_is_complete_is_opened_without_a_lease_and_read_once(
    proxy: s3.Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"data.num_train": 12, "data.num_val": 2, "data.num_test": 0, "data.num_shifted": 0}
    config = override(preset("univse_tiny"), sizes | {"text.word_vectors": "", "features.scale": "none"})
    driver = Workspace.open(s3.address(proxy.place, "counted"))
    attack_split(config, driver, pipeline.prepare(config, driver), "val", "shared")

    def asked(workspace: Workspace) -> tuple[Counter[str], Counter[str]]:
        """Requests of stages 1 to 3, and of the attacks."""
        proxy.seen.clear()
        material = pipeline.prepare(config, workspace)
        first = Counter(proxy.seen)
        proxy.seen.clear()
        attack_split(config, workspace, material, "val", "shared")
        return first, Counter(proxy.seen)

    trial = Workspace.open(driver.root.uri, dict(driver.external.answers))
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "another node"))
    forget()
    cold, attacked = asked(trial)  # manifests of records, features and parses; two files each; one listing
    assert cold.keys() | attacked.keys() == {"GET"}
    assert (cold.total(), attacked.total()) == (10, 4)
    forget()
    process, attacked = asked(trial)  # what is kept on the node is not read again
    assert (process.total(), attacked.total()) == (6, 2)
    warm, attacked = asked(trial)
    assert (warm.total(), attacked.total()) == (1, 2)  # the manifests of parses and of adversaries with their parses
    forget()
    alone, _ = asked(driver)
    assert alone.keys() == {"GET"}


@pytest.mark.slow
def test_candidates_and_sentences_are_opened_without_a_lease(proxy: s3.Proxy) -> None:
    sizes = {"data.num_train": 24, "data.num_val": 2, "data.num_test": 0, "data.num_shifted": 0}
    config = override(preset("univse_tiny"), sizes | {"text.word_vectors": "captions", "text.sentence": "mean"})
    workspace = Workspace.open(s3.address(proxy.place, "candidates"))
    material = pipeline.prepare(config, workspace)
    assert material.parses is not None

    def read() -> None:
        assert material.parses is not None
        contrast_candidates(material.records, material.parses, "train", config.text.contrast, workspace)
        prints: dict[str, str] = {}
        vectors = pipeline._word_vectors(config, workspace, material.records, prints)
        pipeline._sentences(config, workspace, material.records, vectors).vectors(["a red ball"])

    read()
    proxy.seen.clear()
    read()
    assert set(proxy.seen) == {"GET", "HEAD"}
    assert len(proxy.seen) <= 12
