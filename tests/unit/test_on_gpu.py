"""Whole trainings, measurements and embeddings on a GPU (its double, and a true one where one is): the same numbers as
on a CPU, and nothing of the one among the other's."""

import contextlib
import json
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.gpu import TRUE, a_gpu
from tests.levels import slow, slow_but
from tests.unit.asked import CONTRAST, asked, contrast
from tests.unit.evaluation.models import Mixed
from tests.unit.evaluation.test_alpha import ALPHAS, planted
from vse.config import override
from vse.data.images import open_image
from vse.determinism import use_reproducible_arithmetic
from vse.evaluation.alpha import evaluate_alphas
from vse.evaluation.attacks import AttackSet
from vse.features.small_backbone import SmallBackbone
from vse.inference import embedder
from vse.inference.embedder import Embedder
from vse.presets import preset
from vse.stages import pipeline, trained
from vse.stages import train as worker
from vse.stages.measuring import plan
from vse.stages.measuring.stage import measure, measure_run
from vse.stages.train import Result, run_training
from vse.storage.folder import Folder
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

SIZES = {"data.num_train": 40, "data.num_val": 6, "data.num_test": 8, "data.num_shifted": 4, "model.dim": 32}
SIZES |= {"train.epochs": 2, "train.batch_size": 64, "train.precision": "float64"}


def configured(name: str) -> RunConfig:
    return override(preset(f"{name}_small"), SIZES | ({"objective.warmup": 1} if name != "cca" else {}))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Workspace]:
    return {side: Workspace.open(str(tmp_path_factory.mktemp(side))) for side in ("cpu", "gpu")}


Computing = Callable[[str], AbstractContextManager[None]]


@pytest.fixture
def computing() -> Computing:
    """A context in which trainings and measurements are on the CPU (`cpu`) or on the GPU (`gpu`)."""

    @contextmanager
    def on(side: str) -> Generator[None]:
        with pytest.MonkeyPatch.context() as patched, a_gpu() if side == "gpu" else contextlib.nullcontext() as gpu:
            device = gpu or torch.device("cpu")
            patched.setattr(worker, "training_device", lambda train: device)
            for module in (plan, embedder):
                patched.setattr(module, "device_of", lambda asked, key="": device)
            if side == "gpu" and not TRUE:
                for wait in ("record", "synchronize"):  # everything has happened when the CPU asks for it
                    patched.setattr(torch.cuda.Event, wait, lambda event: None)
            yield

    return on


def numbers(result: Result) -> dict[str, float]:
    return {name: value for name, value in result.metrics.items() if "second" not in name}


LONGER = ("jwae_mh_gru", "scan_t2i_avg", "vsec")
SYSTEMS = ["univse", *slow(["cca", *LONGER])]


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_training_on_a_gpu_is_that_of_a_cpu(name: str, places: dict[str, Workspace], computing: Computing) -> None:
    with computing("cpu"):
        expected = run_training(configured(name), places["cpu"])
    with computing("gpu"):
        found = run_training(configured(name), places["gpu"])
    assert (found.run, found.best) == (expected.run, expected.best)
    assert numbers(found) == pytest.approx(numbers(expected), rel=1e-6)


class StoppedError(Exception):
    """What ends a run from outside."""


def stop(numbers: dict[str, float]) -> None:
    raise StoppedError


@pytest.mark.slow
def test_a_run_goes_on_on_a_gpu_as_if_it_had_not_been_stopped(
    places: dict[str, Workspace], tmp_path: Path, computing: Computing
) -> None:
    interrupted = Workspace.open(str(tmp_path))
    with computing("gpu"):
        expected = run_training(configured("univse"), places["gpu"])
        with pytest.raises(StoppedError):
            run_training(configured("univse"), interrupted, report=stop)
        found = run_training(configured("univse"), interrupted)
    assert (found.epochs, numbers(found)) == (2, numbers(expected))


@pytest.mark.slow  # scores, saliency and codes below are what it measures
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_run_measures_on_a_gpu_what_it_does_on_a_cpu(
    name: str, places: dict[str, Workspace], tmp_path: Path, computing: Computing
) -> None:
    place = places["cpu"]
    with computing("cpu"):
        run = run_training(configured(name), place)
    caption = pipeline.prepare(configured(name), place).records.split("test").captions[0]
    pairs = tmp_path / "pairs.json"
    pairs.write_text(json.dumps([{"filename": caption.image, "caption": caption.text, "negative_caption": "no dog"}]))
    options = asked(
        "retrieval",
        "attacks",
        *CONTRAST,
        "true_pairs",
        "gaussian_codes",
        "caption_pairs",
        splits=("test",),
        folds=2,
        drop_components=0.5 * (name == "univse"),
        attacks__words=("shared",),
        **contrast(*("shared",)),
        caption_pairs__files=(str(pairs),),
    )
    with computing("cpu"):
        expected = measure_run(run.folder, place, *options)
    with computing("gpu"):
        found = measure([run.folder], Folder.open(str(tmp_path)), place, *options).metrics
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_run_embeds_on_a_gpu_what_it_does_on_a_cpu(
    places: dict[str, Workspace], tmp_path: Path, computing: Computing
) -> None:
    with computing("cpu"):
        run = run_training(configured("univse"), places["cpu"]).folder
    picture = tmp_path / "picture.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (120, 90, 3), dtype=np.uint8)).save(picture)
    sentences = ["a red ball on a table", "two dogs"]
    with computing("cpu"):
        here = Embedder(trained.load_run(run))
        expected = here.encode_captions(sentences), here.encode_images([picture])
    with computing("gpu"):
        there = Embedder(trained.load_run(run))
        assert there.trained.family.state_dict().popitem()[1].data.is_cuda
        for found, wanted in zip(
            (there.encode_captions(sentences), there.encode_images([picture])), expected, strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", slow_but(["univse", "scan_t2i_avg", "cca"], "univse"))
def test_scores_on_a_gpu(name: str, places: dict[str, Workspace], computing: Computing) -> None:
    uris = [f"scene:seed=3,split=test,index={k},drawing=plain,size=112" for k in range(3)]
    with computing("cpu"):
        run = run_training(configured(name), places["cpu"]).run
        expected = Embedder.of_run(places["cpu"], run).scores(uris, ["a red ball on a table", "two dogs"])
    with computing("gpu"):
        there = Embedder.of_run(places["cpu"], run)
        assert there.trained.family.state_dict().popitem()[1].data.is_cuda
        np.testing.assert_allclose(there.scores(uris, ["a red ball on a table", "two dogs"]), expected, atol=1e-5)


@pytest.mark.parametrize("name", slow_but(["univse", "scan_t2i_avg", "cca"], "univse"))
def test_saliency_on_a_gpu(name: str, places: dict[str, Workspace], computing: Computing) -> None:
    picture = open_image("scene:seed=3,split=test,index=0,drawing=plain,size=112")
    sentences = ["a red ball on a table", "a blue ball on a red table"]
    with computing("cpu"):
        run = run_training(configured(name), places["cpu"]).run
        expected = Embedder.of_run(places["cpu"], run).saliency(picture, sentences)
    with computing("gpu"):
        found = Embedder.of_run(places["cpu"], run).saliency(picture, sentences)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
    np.testing.assert_allclose(found.pixels, expected.pixels, atol=1e-3)
    assert (found.words is None) == (expected.words is None) == (name == "cca")
    for one, other in zip(found.words or (), expected.words or (), strict=True):
        np.testing.assert_allclose([share for _, share in one], [share for _, share in other], atol=1e-4)


def test_a_network_gives_features_on_a_gpu() -> None:
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 1, 112, 112, 3), dtype=np.uint8))
    outputs = tuple(SmallBackbone(SmallBackbone.Config()).shapes())
    expected = SmallBackbone(SmallBackbone.Config()).load(outputs).prepare(torch.device("cpu"))(pixels)
    with a_gpu() as device:
        use_reproducible_arithmetic(device)
        found = SmallBackbone(SmallBackbone.Config()).load(outputs).prepare(device)(pixels)
        assert all(value.is_cuda for value in found.values())
        torch.testing.assert_close({name: value.cpu() for name, value in found.items()}, expected)


@pytest.mark.parametrize("noise", [0.15, 0.5])
@pytest.mark.parametrize("dense_above", [-1.0, 2.0])
@pytest.mark.slow
def test_every_alpha_is_scored_on_a_gpu_as_on_a_cpu(
    noise: float, dense_above: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vse.evaluation.alpha.DENSE_ABOVE", dense_above)
    images, captions, caption_to_image, attacked = planted(noise)
    expected = evaluate_alphas(Mixed(), images, captions, caption_to_image, {"object": attacked}, ALPHAS)
    with a_gpu() as device:
        images, captions, false = (
            {name: codes.to(device) for name, codes in side.items()} for side in (images, captions, attacked.encoded)
        )
        there = AttackSet(encoded=false, caption=attacked.caption)
        points = evaluate_alphas(Mixed(), images, captions, caption_to_image, {"object": there}, ALPHAS)
        found = [point.metrics() for point in points]
    assert [pytest.approx(point.metrics()) for point in expected] == found
