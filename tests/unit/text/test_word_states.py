"""States of words against the library's own outputs, one caption after another."""

import logging

import numpy as np
import pytest
import torch

from tests.shared import SHARED
from tests.tiny_encoder import POSITIONS, write_encoder
from vse.text.encoder import TransformersEncoder
from vse.text.tokens import words
from vse.text.word_states import lengths_of, shares

TEXTS = ["a dog", "the man's cat isn't red", "", "A CAT, red: 10:30", "zebra", "a dog"]
CAPTIONS = [words(text) for text in TEXTS]


def encoder(folder, **changes):
    return TransformersEncoder(TransformersEncoder.Config(model=str(folder), **changes))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


def one_by_one(folder, captions):
    """Means over the tokens of each word, which the library assigns itself for texts that are split into words."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    rows = []
    for caption in captions:
        tokens = tokenizer(list(caption), is_split_into_words=True, return_tensors="pt")
        with torch.inference_mode():
            states = model(input_ids=tokens["input_ids"]).last_hidden_state[0].numpy()
        of_word = tokens.word_ids()
        rows.append(states[0])
        for number in range(max(1, len(caption))):
            mine = [k for k, word in enumerate(of_word) if word == number]
            rows.append(states[mine].mean(0) if mine else np.zeros_like(states[0]))
        rows.append(states[-1])
    return np.stack(rows)


def test_states_are_the_librarys(folder):
    found = encoder(folder).encode_words(CAPTIONS)
    assert found.dtype == np.float32
    assert len(found) == lengths_of(CAPTIONS).sum() == sum(max(1, len(caption)) + 2 for caption in CAPTIONS)
    np.testing.assert_allclose(found, one_by_one(folder, CAPTIONS), atol=2e-6)
    assert encoder(folder).encode_words([]).shape == (0, 8)


def test_company_changes_nothing(folder):
    model = encoder(folder)
    together = np.split(model.encode_words(CAPTIONS), np.cumsum(lengths_of(CAPTIONS))[:-1])
    for caption, states in zip(CAPTIONS, together, strict=True):
        np.testing.assert_allclose(model.encode_words([caption]), states, atol=1e-6)
    np.testing.assert_array_equal(together[0], together[5])


def test_words_that_are_not_read_have_no_state(folder, caplog):
    long = ("dog",) * (POSITIONS + 3)
    with caplog.at_level(logging.WARNING):
        found = encoder(folder).encode_words([long])
    assert f"1 of 1 captions have more than {POSITIONS} tokens" in caplog.text
    read = POSITIONS - 2  # less [CLS] and [SEP]
    assert found[: read + 1].any(1).all()
    assert not found[read + 1 : -1].any()
    assert found[-1].any()


PIECES = ("a small dog isn't on the strasse", "two 10:30 clocks , the dog 's bone", "ein großer hund")


def _tokenizer(kind):
    tokenizers = pytest.importorskip("tokenizers")
    models, trainers, before = tokenizers.models, tokenizers.trainers, tokenizers.pre_tokenizers
    if kind == "bytes":
        inner = tokenizers.Tokenizer(models.BPE())
        inner.pre_tokenizer = before.ByteLevel(add_prefix_space=True)
        trainer = trainers.BpeTrainer(vocab_size=290, show_progress=False, initial_alphabet=before.ByteLevel.alphabet())
    elif kind == "unigram":
        inner = tokenizers.Tokenizer(models.Unigram())
        inner.pre_tokenizer = before.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=40, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"]
        )
    else:
        inner = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
        inner.pre_tokenizer = before.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=60, show_progress=False, special_tokens=["[UNK]"])
    inner.train_from_iterator(PIECES, trainer)
    return inner


@pytest.mark.parametrize("kind", ["pieces", "bytes", "unigram"])
def test_pieces_belong_to_the_word_that_they_spell(kind):
    tokenizer, split = _tokenizer(kind), 0
    for text in PIECES:
        caption = words(text)
        joined = " ".join(caption)
        encoded = tokenizer.encode(joined)
        mixed = shares(caption, encoded.offsets, encoded.special_tokens_mask)
        assert mixed.shape == (len(caption) + 2, len(encoded.ids))
        assert not mixed[[0, -1]].any()  # this tokenizer adds nothing
        np.testing.assert_allclose(mixed[1:-1].sum(1), 1, rtol=1e-6)
        for word, row in zip(caption, mixed[1:-1], strict=True):
            own = [encoded.offsets[k] for k in np.flatnonzero(row)]
            spelled = {place for first, last in own for place in range(first, last) if joined[place] != " "}
            assert "".join(joined[place] for place in sorted(spelled)) == word
            split += len(own) > 1
        assert ((mixed > 0).sum(0) <= 1).all()
    assert split > 3  # words of several pieces


def test_special_tokens_are_the_beginning_and_the_end():
    offsets, special = [(0, 0), (0, 0), (0, 1), (2, 4), (4, 5), (0, 0)], [1, 1, 0, 0, 0, 1]
    mixed = shares(("a", "dog"), offsets, special)
    expected = [[0.5, 0.5, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0.5, 0.5, 0], [0, 0, 0, 0, 0, 1]]
    np.testing.assert_array_equal(mixed, np.array(expected, dtype=np.float32))
    np.testing.assert_array_equal(shares((), [(0, 0), (0, 0)], [1, 1]), [[1, 0], [0, 0], [0, 1]])
    np.testing.assert_array_equal(shares(("a",), [(0, 1)], [0]), [[0], [1], [0]])  # a decoder's tokenizer


@pytest.mark.skipif(SHARED is None, reason="no MiniLM on this machine")
def test_minilms_states_are_the_librarys():
    assert SHARED is not None
    folder = SHARED / "data" / "weights" / "minilm_l6_v2"
    captions = [words(text) for text in ("A snowboarder isn't wakeboarding.", "Two men play football next to a lake")]
    np.testing.assert_allclose(encoder(folder).encode_words(captions), one_by_one(folder, captions), atol=5e-6)


def test_a_model_and_a_tokenizer_without_a_maximum_length(tmp_path, folder):
    """T5's positions are relative, and a tokenizer without a limit names 10^30."""
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, model_max_length=10**30)
    torch.manual_seed(0)
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    transformers.T5Model(transformers.T5Config(vocab_size=len(tokenizer), **sizes)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = encoder(tmp_path)
    long = ["dog"] * 600
    states = np.split(model.encode_words([["a", "dog"], long]), [lengths_of([["a", "dog"]])[0]])
    np.testing.assert_allclose(states[0], model.encode_words([["a", "dog"]]), atol=1e-6)
    assert (np.abs(states[1]).sum(1) > 0).sum() == 512  # read by default, [CLS] and [SEP] included
