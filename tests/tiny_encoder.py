"""A transformer of text that fits into a test: random weights, words as tokens, nothing to download."""

from pathlib import Path

import pytest

WORDS = ("a", "dog", "cat", "man", "on", "the", "grass", "street", "red", "runs")
POSITIONS = 12


def write_encoder(folder: Path, dim: int = 8, seed: int = 0, suffix: str = "safetensors") -> Path:
    """Save a BERT and its tokenizer as `save_pretrained` does. Skips the test if transformers is not installed."""
    transformers = pytest.importorskip("transformers")
    import tokenizers
    import torch

    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    ids = {word: k for k, word in enumerate((*special, *WORDS))}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="[UNK]"))
    inner.normalizer = tokenizers.normalizers.Lowercase()
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    ends = [("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
    inner.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", model_max_length=POSITIONS
    )
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(ids),
        hidden_size=dim,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=POSITIONS,
    )
    model = transformers.BertModel(config).eval()
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    if suffix == "bin":
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    return folder
