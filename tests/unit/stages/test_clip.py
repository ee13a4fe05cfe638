"""A dual encoder as a run: nothing is trained, and everything that reads runs accepts it."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from torch.nn.functional import normalize

from tests.tiny_towers import clip_changes, dual_encoder_folder
from tests.unit.asked import asked
from vse.config import override
from vse.errors import InputError
from vse.inference.embedder import Embedder, sentence_features
from vse.inference.served_model import pack
from vse.models.clip import CLIP
from vse.models.family import Context
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.measuring.stage import measure
from vse.stages.train import run_training
from vse.stages.trained import load_run
from vse.storage.folder import Folder
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

FEW = {"data.num_train": 12, "data.num_val": 6, "data.num_test": 8, "data.num_shifted": 4}
TEXTS = ["a red ball", "two large boxes above a green ring"]


def config(folder: Path, **changes: Any) -> RunConfig:
    given = {key.replace("__", "."): value for key, value in changes.items()}
    return override(override(preset("vsepp_tiny"), {**FEW, **clip_changes(folder)}), given)


def pictures(folder: Path) -> list[Path]:
    generator = np.random.default_rng(1)
    files = [folder / f"{k}.png" for k in range(3)]
    for k, file in enumerate(files):
        Image.fromarray(generator.integers(0, 256, (50 + k, 60, 3), dtype=np.uint8)).save(file)
    return files


def test_scores_are_open_clips_and_a_packed_model_needs_no_workspace(tmp_path: Path) -> None:
    place = Workspace.open(str(tmp_path / "workspace"))
    wanted = config(tmp_path / "towers")
    result = run_training(wanted, place)
    assert result.epochs == 1
    assert run_training(wanted, place).trained is False
    embedder, files = Embedder.of_run(place, result.run), pictures(tmp_path)
    own: Any = open_clip.create_model_and_transforms(f"local-dir:{tmp_path / 'towers'}")
    tokens = open_clip.get_tokenizer(f"local-dir:{tmp_path / 'towers'}")(TEXTS)
    with torch.no_grad():
        pixels = torch.stack([own[2](Image.open(file).convert("RGB")) for file in files])
        images = normalize(own[0].eval().encode_image(pixels), dim=1)
        captions = normalize(own[0].encode_text(tokens), dim=1)
    scores = embedder.scores([str(file) for file in files], TEXTS)
    np.testing.assert_allclose(scores, (images @ captions.T).numpy(), atol=2e-3)  # stored in half precision
    trained = load_run(result.folder)
    packed = pack(trained, result.folder, sentence_features(trained, place)).folder.local()
    shutil.copytree(packed, tmp_path / "pack")
    expected = embedder.encode_captions(TEXTS)
    shutil.rmtree(tmp_path / "workspace")
    np.testing.assert_array_equal(Embedder.open(Folder.open(tmp_path / "pack")).encode_captions(TEXTS), expected)


def test_it_is_measured_as_any_run(tmp_path: Path) -> None:
    place = Workspace.open(str(tmp_path / "workspace"))
    run = run_training(config(tmp_path / "towers"), place).folder
    measured = measure([run], run.child("evaluation"), place, *asked("retrieval", "attacks"))
    for name, each in measured.tasks.items():
        assert not each.missing, name
        assert each.values


def test_both_towers_of_transformers(tmp_path: Path) -> None:
    folder = str(tmp_path / "towers")
    dual_encoder_folder(tmp_path / "towers", "clip")
    changes = {
        "model": "clip",
        "features.backbone": "transformers",
        "features.backbone.arch": folder,
        "features.scale": "none",
        "text.sentence": "encoder",
        "text.encoder": "transformers",
        "text.encoder.model": folder,
        "text.encoder.pooling": "projected",
    }
    wanted = override(preset("vsepp_tiny"), {**FEW, **changes})
    place = Workspace.open(str(tmp_path / "workspace"))
    assert 0 < run_training(wanted, place).metrics["val/rsum"] <= 600
    with pytest.raises(InputError, match=r"^text\.encoder\.pooling: family clip compares projected vectors"):
        pipeline.check(override(wanted, {"text.encoder.pooling": "mean"}))


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("features.scale", "l2", r"features\.scale=l2: family clip compares the unscaled vectors of the encoder"),
        ("features.backbone.weights", "random", r"text\.encoder\.weights=default: family clip needs both towers"),
    ],
)
def test_two_models_are_no_dual_encoder(tmp_path: Path, key: str, value: str, line: str) -> None:
    with pytest.raises(InputError, match=f"^{line}"):
        pipeline.check(override(config(tmp_path / "towers"), {key: value}))


def test_vectors_of_different_lengths_are_refused() -> None:
    with pytest.raises(InputError, match=r"vectors of images have 5 dimensions and those of captions 6"):
        CLIP(CLIP.Config(), Context(9, {"pooled": 5}, sentence_dim=6))
