"""A frozen text encoder through the stages: vectors stored with the data set, the model with the run."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import s3
from tests.tiny_encoder import write_encoder
from vse.config import override
from vse.errors import InputError
from vse.inference.embedder import Embedder, sentence_features
from vse.inference.served_model import pack
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.sentences import SentenceStore, fitted
from vse.stages.train import run_training
from vse.stages.trained import load_run
from vse.storage.folder import Folder
from vse.text.encoder import TransformersEncoder
from vse.text.sentence.features import SentenceFeatures
from vse.text.sentence.kinds import EncoderSentence
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

TEXTS = ["a red ball is left of two dogs", "a zebra", "", "a cat on the street"]
SMALL = {
    "data.num_train": 8,
    "data.num_val": 4,
    "data.num_test": 4,
    "data.num_shifted": 2,
    "train.epochs": 1,
    "text.sentence": "encoder",
    "text.encoder": "transformers",
}


def config(folder: Path, **changes: Any) -> RunConfig:
    base = override(preset("vsepp_tiny"), {"model": "cca", "model.dim": 4, **SMALL})
    given = {key.replace("__", "."): value for key, value in changes.items()}
    return override(base, {"text.encoder.model": str(folder), **given})


def test_vectors_and_model_are_stored(tmp_path: Path) -> None:
    encoder = TransformersEncoder(TransformersEncoder.Config(model=str(write_encoder(tmp_path / "encoder"))))
    expected = encoder.encode(TEXTS)
    place = Folder.open(tmp_path / "language").child
    features = fitted(EncoderSentence.Config(), ["ignored"], encoder, place)
    assert features is not None
    shutil.rmtree(tmp_path / "encoder")
    again = SentenceFeatures.open(place(encoder.fingerprint).child("fit"))
    assert again.fingerprint == features.fingerprint == encoder.fingerprint
    np.testing.assert_array_equal(again.encode(TEXTS), expected)
    store = SentenceStore.make(again, TEXTS[:3], place, tmp_path / "cache")
    vectors = store.vectors([TEXTS[3], TEXTS[0]])
    np.testing.assert_array_equal(vectors.of(np.array([1, 0])), expected[[0, 3]].astype(np.float16).astype(np.float32))
    assert again.knows("xanadu")


def test_a_model_on_s3_is_copied_to_this_node(tmp_path: Path, s3_proxy: Any, request: pytest.FixtureRequest) -> None:
    encoder = TransformersEncoder(TransformersEncoder.Config(model=str(write_encoder(tmp_path / "encoder"))))
    features = fitted(EncoderSentence.Config(), [], encoder, Folder.open(s3.address_of(request, s3_proxy.place)).child)
    assert features is not None
    np.testing.assert_array_equal(features.encode(TEXTS), encoder.encode(TEXTS))


@pytest.mark.seconds
def test_a_run_outlives_the_folder_of_its_encoder(tmp_path: Path) -> None:
    place = Workspace.open(str(tmp_path / "workspace"))
    result = run_training(config(write_encoder(tmp_path / "encoder")), place)
    vectors = Embedder.of_run(place, result.run).encode_captions(TEXTS)
    assert vectors.shape == (4, 4)
    shutil.rmtree(tmp_path / "encoder")
    embedder = Embedder.of_run(place, result.run)
    np.testing.assert_array_equal(embedder.encode_captions(TEXTS), vectors)
    assert embedder.unknown_words("a zebra in xanadu") == ()
    trained = load_run(result.folder)
    packed = pack(trained, result.folder, sentence_features(trained, place)).folder.local()
    shutil.copytree(packed, tmp_path / "pack")
    shutil.rmtree(tmp_path / "workspace")
    np.testing.assert_array_equal(Embedder.open(Folder.open(tmp_path / "pack")).encode_captions(TEXTS), vectors)


def test_other_weights_are_another_run(tmp_path: Path) -> None:
    place = Workspace.open(str(tmp_path / "workspace"))
    prints = [
        pipeline.prepare(config(write_encoder(tmp_path / str(seed), seed=seed)), place).fingerprints["sentences"]
        for seed in (0, 1)
    ]
    assert len(set(prints)) == 2


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"text__encoder": "none"}, r"text.sentence=encoder: needs a text encoder; add text.encoder=transformers"),
        ({"text__sentence": "mean", "text__word_vectors": "captions"}, r"text.encoder: nothing reads its vectors; add"),
        ({"model": "vsepp", "text__sentence": "none"}, r"text.encoder: nothing reads its vectors; family vsepp reads"),
        ({"text__encoder__model": "absent"}, r"text.encoder.model: absent is not in the cache"),
        ({"text__encoder__model": ""}, r"text.encoder.model: name a folder"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], line: str
) -> None:
    folder = write_encoder(tmp_path / "encoder")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    given = {key: value for key, value in changes.items() if key != "text__encoder"}
    wanted = config(folder, **given)
    if "text__encoder" in changes:
        wanted = override(preset("vsepp_tiny"), {"model": "cca", "text.sentence": "encoder"})
    with pytest.raises(InputError, match=f"^{line}"):
        pipeline.check(wanted)
