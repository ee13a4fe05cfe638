"""Text towers of dual encoders against the libraries' own: open_clip, CLIP and SigLIP of transformers."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from torch.nn.functional import normalize

from tests.tiny_towers import dual_encoder_folder, open_clip_folder
from vse.errors import InputError
from vse.text.encoder import TransformersEncoder
from vse.text.open_clip_encoder import OpenClipEncoder

TEXTS = ["a red ball", "two dogs run on the grass", "", "a cat"]


def test_open_clips_tower_gives_its_own_vectors(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    arch = open_clip_folder(tmp_path)
    encoder = OpenClipEncoder(OpenClipEncoder.Config(arch=arch))
    own: Any = open_clip.create_model(arch).eval()
    texts = [*TEXTS, "a dog " * 20]
    with torch.no_grad():
        expected = normalize(own.encode_text(open_clip.get_tokenizer(arch)(texts)), dim=1)
    with caplog.at_level(logging.WARNING, logger="vse"):
        vectors = encoder.encode(texts)
    np.testing.assert_allclose(vectors, expected.numpy(), rtol=1e-5, atol=1e-6)
    assert caplog.messages == [f"text.encoder.arch={arch}: 1 of 5 captions have more than 16 tokens and are truncated"]
    assert encoder.dim == 24
    np.testing.assert_allclose(encoder.encode(texts[:1])[0], vectors[0], rtol=1e-5, atol=1e-6)


def test_open_clips_identity_is_its_files(tmp_path: Path) -> None:
    prints = []
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        encoder = OpenClipEncoder(OpenClipEncoder.Config(arch=open_clip_folder(tmp_path / folder, seed)))
        prints.append(encoder.fingerprint)
    assert prints[0] == prints[1] != prints[2]
    random = [OpenClipEncoder(OpenClipEncoder.Config(arch="ViT-B-32", weights="random", seed=s)) for s in (0, 1)]
    assert random[0].fingerprint != random[1].fingerprint
    assert random[0].files == {}


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_projected_vectors_are_transformers_own(kind: str, tmp_path: Path) -> None:
    own, tokenizer = dual_encoder_folder(tmp_path, kind)
    encoder = TransformersEncoder(TransformersEncoder.Config(model=str(tmp_path), pooling="projected"))
    tokens = tokenizer(TEXTS, padding="max_length", max_length=16, truncation=True, return_tensors="pt")
    with torch.no_grad():
        expected = normalize(own.get_text_features(**tokens).pooler_output, dim=1)
    vectors = encoder.encode(TEXTS)
    np.testing.assert_allclose(vectors, expected.numpy(), rtol=1e-5, atol=1e-6)
    assert vectors.shape == (4, encoder.dim)
    np.testing.assert_allclose(encoder.encode(TEXTS[1:2])[0], vectors[1], rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match=r"reads more than text; .* text\.encoder\.pooling=projected"):
        TransformersEncoder(TransformersEncoder.Config(model=str(tmp_path))).encode(TEXTS)


def test_missing_files_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^text\.encoder\.arch=local-dir:.*: there is no open_clip_config\.json in"):
        OpenClipEncoder(OpenClipEncoder.Config(arch=f"local-dir:{tmp_path}")).check()
    with pytest.raises(InputError, match=r"^text\.encoder\.weights=default: open_clip has none .* give one of openai"):
        OpenClipEncoder(OpenClipEncoder.Config(arch="ViT-B-32")).check()
