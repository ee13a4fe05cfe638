"""Runs that tasks of a cluster measure: the numbers of one process, also if a worker is lost."""

import contextlib
import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vse.cluster import runtime
from vse.cluster.capacity import Capacity, NodeKind
from vse.config import override
from vse.evaluation import shards as pure
from vse.evaluation.work import Arrays, Job, Work
from vse.presets import preset
from vse.report.comparison import Compared
from vse.report.comparison_build import measured_alike
from vse.stages.measuring import elsewhere, stage, work_ray
from vse.stages.measuring.options import MeasureOptions
from vse.stages.measuring.plan import plan_measure
from vse.stages.measuring.request import MeasureRequest, request_of
from vse.stages.train import run_training
from vse.stages.trained import load_run
from vse.storage.folder import Folder
from vse.text.lexicon.compact import knowledge, read_compact
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

CPU = torch.device("cpu")
TASKS = ("retrieval", "attacks", "alpha_curve")
SIZES = {"data.num_train": 40, "data.num_val": 6, "data.num_test": 24, "data.num_shifted": 4, "train.epochs": 1}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("on_cluster")))


@pytest.fixture(scope="module")
def runs(workspace: Workspace) -> list[Folder]:
    config = override(preset("univse_tiny"), SIZES)
    return [run_training(override(config, {"seed": seed}), workspace).folder for seed in (0, 1)]


@pytest.fixture(scope="module")
def expected(runs: list[Folder], workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """The numbers of one process."""
    return measured(runs[0], workspace, tmp_path_factory.mktemp("here"))


def options() -> MeasureOptions:
    return MeasureOptions(splits=("val", "test"), device="auto")


def measured(run: Folder, workspace: Workspace, folder: Path) -> dict[str, float]:
    return stage.measure([run], Folder.open(folder), workspace, TASKS, options()).metrics


@pytest.fixture
def on_other_nodes(monkeypatch: pytest.MonkeyPatch) -> list[list[Job]]:
    """Jobs that tasks of a cluster compute: here, of what is pickled for them."""
    asked = list[list[Job]]()

    def computed_on_cluster(jobs: list[Job], device: torch.device, title: str, **more: object) -> list[Arrays]:
        asked.append(jobs)
        copies: list[Job] = pickle.loads(pickle.dumps(jobs))
        return [work.compute(number, CPU) for work, number in copies]

    monkeypatch.setattr(stage, "computed_on_cluster", computed_on_cluster)
    return asked


@pytest.mark.slow  # `test_work_ray` holds them on Ray
def test_a_task_keeps_the_numbers_that_one_process_has(
    on_other_nodes: list[list[Job]],
    runs: list[Folder],
    workspace: Workspace,
    expected: dict[str, float],
    tmp_path: Path,
) -> None:
    assert measured(runs[0], workspace, tmp_path) == expected
    ((job,),) = on_other_nodes
    work, _ = job
    assert isinstance(work, stage.MeasureWork)
    assert set(work.request.tasks) == set(TASKS)
    assert measured(runs[0], workspace, tmp_path) == expected
    assert len(on_other_nodes) == 1  # nothing is missing


def test_only_what_trains_probes_stays(runs: list[Folder], workspace: Workspace) -> None:
    plan = plan_measure([runs[0]], workspace, ("retrieval", "neighbours", "image_to_word"), options())
    assert elsewhere.portable_tasks(plan, ()) == ["retrieval", "neighbours"]
    assert elsewhere.portable_tasks(plan, {"retrieval"}) == ["neighbours"]


@pytest.mark.parametrize("pairwise", [False, True])
def test_what_is_counted_in_shards_is_no_single_task(
    pairwise: bool, runs: list[Folder], workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_measure([runs[0]], workspace, TASKS, options())
    monkeypatch.setattr(pure, "FROM_PAIRS", 1)
    monkeypatch.setattr(plan.members.families[0], "pairwise", pairwise, raising=False)
    assert elsewhere.portable_tasks(plan, ()) == (["alpha_curve"] if pairwise else [*TASKS])


def test_nodes_that_lack_files_of_the_runs_measure_what_reads_none(
    runs: list[Folder], workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_measure([runs[0]], workspace, (*TASKS, "neighbours"), options())
    assert [*elsewhere.user_paths(plan)] == []  # scenes are rendered, and the backbone comes with the package
    weights, photograph = tmp_path / "weights.pth", tmp_path / "a.png"
    weights.touch()
    photograph.touch()
    (member,) = plan.members.each
    config = override(member.config, {"features.backbone": "timm", "features.backbone.weights": str(weights)})
    images = (replace(plan.parts[0].images[0], uri=str(photograph)), *plan.parts[0].images[1:])
    parts = replace(plan.parts[0], images=images), *plan.parts[1:]
    plan = replace(plan, members=replace(plan.members, each=(replace(member, config=config),)), parts=parts)
    paths = [*elsewhere.user_paths(plan)]
    assert paths == [str(weights), str(photograph)]
    for seen in (True, False):
        answers = {"head": True, "worker": seen}
        monkeypatch.setattr(elsewhere, "joined_cluster", lambda: contextlib.nullcontext(True))
        monkeypatch.setattr(elsewhere, "capacity", lambda: Capacity((NodeKind(1.0, 0.0), NodeKind(1.0, 1.0))))
        monkeypatch.setattr(elsewhere, "on_every_node", lambda *_, answers=answers: answers)
        assert elsewhere.portable_tasks(plan, ()) == [*TASKS, *(["neighbours"] if seen else [])]
    assert elsewhere.all_exist(tuple(paths))
    photograph.unlink()
    assert not elsewhere.all_exist(tuple(paths))


def test_runs_of_a_comparison_are_measured_at_the_same_time(
    on_other_nodes: list[list[Job]], runs: list[Folder], workspace: Workspace
) -> None:
    compared = [Compared(name=run.name, config=load_run(run).config, preset="", made_of={}) for run in runs]
    first = measured_alike(compared, workspace, ("retrieval",), options())
    assert [len(jobs) for jobs in on_other_nodes] == [2]
    again = measured_alike(compared, workspace, ("retrieval",), options())
    assert [len(jobs) for jobs in on_other_nodes] == [2]
    assert {name: each.metrics for name, each in again.items()} == {name: each.metrics for name, each in first.items()}


def compute(work: Work, number: int, device: str) -> Arrays:
    """In a worker that Ray gave a GPU, which is one in name only: on the CPU. The first worker is lost afterwards."""
    import ray

    assert device == "cuda"
    assert len(ray.get_runtime_context().get_accelerator_ids()["GPU"]) == 1
    assert isinstance(work, stage.MeasureWork)
    lost = Path(work.folder, "lost")
    if not lost.exists():
        lost.touch()
        os._exit(1)
    return work.compute(number, CPU)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_worker_with_a_gpu_measures_though_one_is_lost(
    runs: list[Folder],
    workspace: Workspace,
    expected: dict[str, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_ray, "_compute", compute)
    monkeypatch.setattr(stage, "_measure", lambda *_: pytest.fail("measured by the driver"))
    with runtime.running_ray(runtime.Config(address="local", cpus=2, gpus=1, store_mib=100)):
        assert measured(runs[0], workspace, tmp_path) == expected
    assert (tmp_path / "lost").exists()
    assert len([*tmp_path.glob("measures-*.json")]) == len(TASKS)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_one_node_without_gpus_measures_in_its_own_process(
    runs: list[Folder],
    workspace: Workspace,
    expected: dict[str, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_ray, "run_with_ray", lambda *_: pytest.fail("a task for nothing"))
    with runtime.running_ray(runtime.Config(address="local", cpus=2, gpus=0, store_mib=100)):
        assert measured(runs[0], workspace, tmp_path) == expected


def test_another_node_needs_no_file_of_the_lexicon(runs, workspace, tmp_path):
    """What the driver read of it decides which adversaries these are; the node reads them from the workspace."""
    scores = tmp_path / "scores.tsv"
    nouns = read_compact().lexicon.words
    scores.write_text("".join(f"{noun}\t{place % 97}\n" for place, noun in enumerate(nouns)))
    rules = {"adversaries.contrast.concreteness": str(scores), "adversaries.contrast.concrete_share": 0.9}
    plan = plan_measure([runs[0]], workspace, ["contrast"], override(options(), rules))
    request: MeasureRequest = pickle.loads(pickle.dumps(request_of(plan)))
    scores.unlink()
    knowledge.cache_clear()
    assert request.plan().fingerprints == plan.fingerprints


def test_requests_of_other_tasks_or_weights_are_others(runs, workspace):
    shared, published = (
        request_of(plan_measure([runs[0]], workspace, ["attacks"], override(options(), {"attacks.words": words})))
        for words in ("shared", "published")
    )
    assert shared.digits != published.digits
    assert replace(shared, weights=("0123",)).digits != shared.digits
