"""Frozen text encoders against the library's own padded batches."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.shared import SHARED
from tests.tiny_encoder import POSITIONS, write_encoder
from vse.errors import InputError
from vse.text.encoder import TransformersEncoder, files_of

TEXTS = ["a dog", "the red dog runs on the grass", "", "A CAT on the street", "zebra", "a dog"]


def encoder(folder, **changes):
    return TransformersEncoder(TransformersEncoder.Config(model=str(folder), **changes))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


def padded(folder, texts, pooling, unit):
    """Pooled states as the library makes them, one padded batch with an attention mask."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    mask = batch["attention_mask"]
    with torch.inference_mode():
        states = model(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state
    rows = []
    for state, length in zip(states, mask.sum(1), strict=True):
        row = {"mean": state[:length].mean(0), "cls": state[0], "last": state[length - 1]}[pooling]
        rows.append(row / row.norm() if unit else row)
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
@pytest.mark.parametrize("unit", [True, False])
def test_vectors_are_the_librarys(folder, pooling, unit):
    found = encoder(folder, pooling=pooling, unit=unit).encode(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, padded(folder, TEXTS, pooling, unit), atol=2e-6)


def test_a_vector_does_not_depend_on_its_neighbours(folder):
    model = encoder(folder)
    together = model.encode(TEXTS)
    for row, text in enumerate(TEXTS):
        np.testing.assert_allclose(model.encode([text])[0], together[row], atol=1e-6)
    assert model.encode([]).shape == (0, 8)
    np.testing.assert_array_equal(together[0], together[5])


@pytest.mark.parametrize(("limit", "cut"), [(0, POSITIONS), (5, 5)])
def test_long_captions_are_cut_and_counted(folder, caplog, limit, cut):
    long = "a dog " * POSITIONS
    with caplog.at_level(logging.WARNING):
        found = encoder(folder, max_tokens=limit).encode([long, "a"])
    assert f"1 of 2 captions have more than {cut} tokens" in caplog.text
    kept = " ".join(long.split()[: cut - 2])  # less [CLS] and [SEP]
    np.testing.assert_allclose(found[0], encoder(folder).encode([kept])[0], atol=1e-6)


def test_the_fingerprint_names_contents_and_settings_not_the_place(tmp_path, folder):
    copy, other = tmp_path / "copy", write_encoder(tmp_path / "other", seed=1)
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    (copy / "README.md").write_text("a model card")
    assert encoder(copy).fingerprint == encoder(folder).fingerprint
    every = [encoder(other), *(encoder(folder, **c) for c in ({"pooling": "cls"}, {"unit": False}, {"max_tokens": 9}))]
    assert len({each.fingerprint for each in (*every, encoder(folder))}) == 5


def test_weights_of_both_forms_are_read(tmp_path, folder):
    model = encoder(write_encoder(tmp_path / "bin", suffix="bin"))
    np.testing.assert_allclose(model.encode(TEXTS), encoder(folder).encode(TEXTS), atol=1e-6)
    (tmp_path / "bin" / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    assert "pytorch_model.bin" not in files_of(str(tmp_path / "bin"))


@pytest.mark.parametrize(
    ("break_it", "line"),
    [
        (lambda f: (f / "config.json").unlink(), "has no config.json"),
        (lambda f: (f / "model.safetensors").unlink(), r"has no weights \(\*.safetensors\)"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x" * 40), "cannot be loaded"),
        (lambda f: (f / "config.json").write_text("{}"), "cannot be loaded"),
        (lambda f: (f / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n"), "Git LFS"),
    ],
)
def test_a_damaged_folder_is_one_line(tmp_path, break_it, line):
    broken = write_encoder(tmp_path / "broken")
    break_it(broken)
    with pytest.raises(InputError, match=line) as error:
        encoder(broken).encode(["a dog"])
    assert "\n" not in str(error.value)
    assert "text.encoder.model=" in str(error.value)


def test_a_name_that_the_hub_does_not_give_is_one_line(monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        InputError, match=r"^text\.encoder\.model: no/such is not in the cache of Hugging Face and"
    ) as e:
        assert encoder("no/such").files
    assert "\n" not in str(e.value)
    with pytest.raises(InputError, match=r"text.encoder.model: name a folder"):
        assert encoder("").files


@pytest.mark.skipif(SHARED is None, reason="no MiniLM on this machine")
def test_minilm_is_read_as_its_model_card_says():
    assert SHARED is not None
    folder = SHARED / "data" / "weights" / "minilm_l6_v2"
    texts = ["A dog runs on the grass.", "Two men are playing football in a park next to a lake."]
    np.testing.assert_allclose(encoder(folder).encode(texts), padded(folder, texts, "mean", True), atol=2e-6)


def test_positions_that_begin_behind_the_padding_are_not_all_tokens(tmp_path, folder, caplog):
    """RoBERTa has two positions less than `max_position_embeddings`; its tokenizer may name no limit."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, model_max_length=10**30)
    torch.manual_seed(0)
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=POSITIONS,
        pad_token_id=1,
        type_vocab_size=1,
    )
    transformers.RobertaModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    most = POSITIONS - 2  # [CLS] and [SEP] included
    texts = [" ".join(["dog"] * words) for words in (most - 2, most - 1)]
    with caplog.at_level(logging.WARNING):
        found = encoder(tmp_path, pooling="cls").encode(texts)
    assert np.isfinite(found).all()
    assert f"1 of 2 captions have more than {most} tokens" in caplog.text
