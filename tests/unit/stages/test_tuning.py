"""Fine-tuned runs: what they start from, that their checkpoints serve like any other, and what cannot be tuned."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.tiny_towers import open_clip_folder
from vse import registry
from vse.config import override
from vse.errors import InputError
from vse.evaluation.retrieval import count_retrieval
from vse.features.gradient_checkpointing import blocks_of
from vse.features.tuned_backbone import FILE, TunedBackbone
from vse.inference.embedder import Embedder
from vse.inference.served_model import pack
from vse.presets import preset
from vse.report.comparison import systems_of
from vse.report.comparison_build import compared_run
from vse.stages import pipeline, tuning
from vse.stages.measuring.stage import measure_run
from vse.stages.train import Result, run_training
from vse.stages.trained import encode_split, load_run
from vse.stages.tuning import check_network, check_tuning
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

SIZES = {"data.num_train": 24, "data.num_val": 8, "data.num_test": 6, "data.num_shifted": 0, "model.dim": 16}
SHORT = {**SIZES, "train.epochs": 2, "train.batch_size": 32, "train.evaluate_every": 1}
TUNED = {"train.finetune": True, "train.crop_area": 0.5, "train.flip": False}


def configured(**changes: Any) -> RunConfig:
    return override(preset("vsepp_tiny"), {**SHORT, **{k.replace("__", "."): v for k, v in changes.items()}})


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("tuning")))


@pytest.fixture(scope="module")
def frozen(space: Workspace) -> Result:
    return run_training(configured(), space)


@pytest.fixture(scope="module")
def tuned(space: Workspace, frozen: Result) -> Result:
    return run_training(override(configured(), {**TUNED, "train.warm_start": frozen.run}), space)


def test_a_run_is_measured_with_its_tuned_backbone(space: Workspace, tuned: Result) -> None:
    """Retrieval from extracted features is what the training counted at the kept epoch."""
    trained = load_run(tuned.folder)
    backbone = trained.config.features.backbone
    assert isinstance(backbone, TunedBackbone.Config)
    assert backbone.weights == tuned.checkpoint.address(FILE)
    assert backbone.of == configured().features.backbone
    material = pipeline.prepare(trained.config, space)
    codes = encode_split(trained, material, "val")
    counted = count_retrieval(trained.family, codes.images, codes.captions, codes.caption_to_image)
    found = counted.result().metrics()
    assert {f"val/{key}": value for key, value in found.items()} == {
        key: pytest.approx(value) for key, value in tuned.metrics.items() if key.startswith("val/")
    }
    first = pipeline.prepare(configured(), space).features.array("pooled", (material.records.images[0].id,))
    own = material.features.array("pooled", (material.records.images[0].id,))
    assert not np.array_equal(first, own)


def test_a_tuned_run_serves_raw_pictures(space: Workspace, tuned: Result) -> None:
    """From its run and from a packed folder, the vectors of pictures are the codes of their extracted features."""
    trained = load_run(tuned.folder)
    material = pipeline.prepare(trained.config, space)
    part = material.records.split("test")
    codes = encode_split(trained, material, part).images["images"].numpy()
    uris = [image.uri for image in part.images]
    np.testing.assert_allclose(Embedder.of_run(space, tuned.run).encode_images(uris), codes, atol=2e-3)
    packed = pack(trained, tuned.folder).folder
    assert FILE in packed.names()
    served = Embedder.open(packed)
    backbone: Any = served.trained.config.features.backbone
    assert backbone.weights == packed.address(FILE)
    np.testing.assert_allclose(served.encode_images(uris), codes, atol=2e-3)


@pytest.mark.slow
def test_gaussian_codes_of_a_tuned_run_have_no_rows_before_training(tmp_path: Path) -> None:
    """Its features are those of the tuned backbone, which no initial weights have read."""
    space = Workspace.open(str(tmp_path))
    small = SHORT | {"data.num_test": 20}
    config = override(preset("jwae_mse_small"), {key: value for key, value in small.items() if key != "model.dim"})
    kinds = {}
    for name, changes in (("frozen", {}), ("tuned", TUNED)):
        run = run_training(override(config, changes), space)
        kinds[name] = measure_run(run.folder, space, ["gaussian_codes"]).keys()
    before = {key for key in kinds["frozen"] if "/before/" in key}
    assert len(before) == len(kinds["frozen"]) / 2 > 0
    assert kinds["tuned"] == kinds["frozen"] - before


def test_a_warm_start_begins_with_the_weights_of_its_run(
    space: Workspace, frozen: Result, tuned: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The validation of a run that changes nothing is that of the run it starts from, and names differ."""
    still = {"optim.lr": 1e-30, "optim.warmup": 0.0, "train.epochs": 1}
    again = run_training(override(configured(), {**TUNED, **still, "train.warm_start": frozen.run}), space)
    kept = {key: value for key, value in frozen.metrics.items() if key.startswith("val/")}
    assert {key: again.metrics[key] for key in kept} == pytest.approx(kept)
    further = run_training(override(configured(), {**TUNED, **still, "train.warm_start": tuned.run}), space)
    kept = {key: value for key, value in tuned.metrics.items() if key.startswith("val/")}
    assert {key: further.metrics[key] for key in kept} == pytest.approx(kept)
    before, after = (load_file(Path(run.checkpoint.address(FILE))) for run in (tuned, further))
    assert all(torch.allclose(before[key], after[key], atol=1e-12) for key in before)
    assert len({frozen.run, tuned.run, again.run, further.run}) == 4


@pytest.mark.slow
def test_tuned_runs_of_several_seeds_are_one_system(space: Workspace, frozen: Result, tuned: Result) -> None:
    """Each starts from the run of its own seed. Runs that start from other settings are another system."""
    other = run_training(configured(seed=1), space)
    short = {**TUNED, "train.epochs": 1}
    again = run_training(override(configured(seed=1), {**TUNED, "train.warm_start": other.run}), space)
    early = run_training(override(configured(train__epochs=1), short | {"train.warm_start": frozen.run}), space)
    runs = [compared_run(result.folder, space) for result in (frozen, tuned, other, again, early)]
    systems = [[run.name for run in system.runs] for system in systems_of(runs)]
    assert systems == [[frozen.run, other.run], [tuned.run, again.run], [early.run]]
    later = run_training(override(configured(), {**TUNED, "train.warm_start": early.run}), space)
    assert compared_run(later.folder, space).alike != compared_run(tuned.folder, space).alike


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"train.warm_start": "none"}, "train.warm_start=none: no such run; there are vsepp-scenes"),
        ({"features.scale": "l2"}, r"was trained with other features .*features.scale=standardize"),
        ({"model.dim": 8}, r"epoch-000.*: .* has shape"),
        ({"data.num_train": 20}, "its vocabulary differs; use its data and text settings"),
    ],
)
def test_a_warm_start_that_does_not_fit_is_refused(
    space: Workspace, frozen: Result, changes: dict[str, Any], line: str
) -> None:
    config = override(configured(), {**TUNED, "train.warm_start": frozen.run, **changes})
    with pytest.raises(InputError, match=line):
        run_training(config, space)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"features.backbone": "arrays"}, "features.backbone=arrays has no network"),
        ({"features.precision": "bfloat16"}, "features.precision=bfloat16: weights are trained in single precision"),
        ({"train.window": 64}, "train.window=64: has no effect with train.finetune=true"),
        ({"train.freeze_statistics": False, "train.workers": 2}, "need one worker; use train.workers=1, not 2"),
        (
            {"features.backbone": "torchvision", "features.backbone.transform": "ten_crop"},
            "one square of a picture; use features.backbone.transform=crop or scale",
        ),
        ({"data": "phrase_regions", "data.geometry": True}, "data.geometry=true appends numbers to features"),
    ],
)
def test_what_cannot_be_tuned_is_refused_in_a_line(changes: dict[str, Any], line: str) -> None:
    config = override(configured(), {k: v for k, v in changes.items() if k != "train.window"} | TUNED)
    config = override(config, {k: v for k, v in changes.items() if k == "train.window"})
    with pytest.raises(InputError, match=line):
        check_tuning(config)
    check_tuning(override(config, {"train.finetune": False}))


def test_a_family_in_closed_form_has_nothing_to_tune() -> None:
    config = override(preset("cca_scenes"), {**SIZES, **TUNED, "model.dim": 8})
    with pytest.raises(InputError, match="family cca is not trained by steps"):
        check_tuning(config)


def test_a_tuned_backbone_is_a_backbone_with_other_weights(space: Workspace, tuned: Result) -> None:
    config: Any = load_run(tuned.folder).config.features.backbone
    backbone, of = registry.build("backbone", config), registry.build("backbone", configured().features.backbone)
    assert backbone.shapes() == of.shapes()
    assert backbone.transform == of.transform
    assert backbone.identity() != of.identity()
    state = load_file(Path(config.weights))
    network = backbone.load(("map",))
    assert all(torch.equal(value, state[key]) for key, value in network.state_dict().items())


@pytest.mark.slow
def test_adapters_are_merged_where_the_backbone_is_read(space: Workspace) -> None:
    """A run with low-rank adapters is measured from a backbone of the published form, close to what it trained."""
    vit = {"arch": "vit_tiny_patch16_224", "weights": "random", "size": 32}
    changes = {"features.backbone": "timm", **{f"features.backbone.{key}": value for key, value in vit.items()}}
    config = override(configured(), {**changes, **TUNED, "train.lora_rank": 2, "train.backbone_rate": 10.0})
    run = run_training(config, space)
    first = registry.build("backbone", config.features.backbone).load(("pooled",)).state_dict()
    merged = load_file(Path(run.checkpoint.address(FILE)))
    assert merged.keys() == first.keys()
    changed = {key: merged[key] - value for key, value in first.items() if not torch.equal(merged[key], value)}
    assert len(changed) == 4 * 12
    assert all(torch.linalg.matrix_rank(value, rtol=1e-3) <= 2 for value in changed.values())
    trained = load_run(run.folder)
    codes = encode_split(trained, pipeline.prepare(trained.config, space), "val")
    found = count_retrieval(trained.family, codes.images, codes.captions, codes.caption_to_image).result().metrics()
    assert found["rsum"] == pytest.approx(run.metrics["val/rsum"], abs=3)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"train.lora_rank": 4}, r"train\.lora_rank=4: this backbone has no linear layers to adapt"),
        ({"train.gradient_checkpointing": True}, "features.backbone=small has no blocks that could be recomputed"),
    ],
)
def test_a_network_without_such_layers_is_refused_before_features_are_made(
    tmp_path: Path, changes: dict[str, Any], line: str
) -> None:
    with pytest.raises(InputError, match=line):
        run_training(override(configured(), {**TUNED, **changes}), Workspace.open(str(tmp_path)))
    assert not list((tmp_path / "features").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"train.chunk": 2}, r"^train\.chunk=2: batch statistics are those of a whole batch; use train\.freeze_"),
        ({"train.gradient_checkpointing": True}, r"^train\.gradient_checkpointing=true: would count"),
        ({"train.lora_rank": 2}, r"^train\.lora_rank=2: trains adapters only, and batch statistics would change too"),
    ],
)
def test_batch_statistics_need_whole_batches_and_all_weights(changes: dict[str, Any], line: str) -> None:
    config = override(configured(), {**TUNED, "train.freeze_statistics": False, **changes})
    with pytest.raises(InputError, match=line):
        check_network(config, nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)))


def test_blocks_are_those_of_the_network_without_adapters(
    space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two linear layers of an MLP in a `Sequential` become modules of one class, which are no blocks."""
    pytest.importorskip("open_clip")
    pytest.importorskip("peft")
    kinds: list[str] = []

    def checkpointed(network: nn.Module) -> int:
        kinds.extend(type(block).__name__ for block in blocks_of(network))
        raise InputError("seen")

    monkeypatch.setattr(tuning, "checkpoint_blocks", checkpointed)
    tower = {"features.backbone": "open_clip", "features.backbone.arch": open_clip_folder(tmp_path / "clip")}
    changes = {**tower, **TUNED, "train.lora_rank": 2, "train.gradient_checkpointing": True}
    with pytest.raises(InputError, match="seen"):
        run_training(override(configured(), changes), space)
    assert kinds == ["ResidualAttentionBlock"] * 2


def test_weights_of_another_network_are_refused(space: Workspace, tuned: Result, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such file; name backbone\.safetensors"):
        registry.build("backbone", TunedBackbone.Config())
    file = tuned.checkpoint.address("model.safetensors")
    with pytest.raises(InputError, match="another network wrote it"):
        registry.build("backbone", TunedBackbone.Config(weights=file)).load(("pooled",))
