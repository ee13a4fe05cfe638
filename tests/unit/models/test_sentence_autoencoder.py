"""Recurrent encoder and decoder against loops over single sentences."""

import torch

from vse.models.autoencoder import BidirectionalEncoder, WordDecoder
from vse.text.vocabulary import UNKNOWN

LENGTHS = torch.tensor([4, 2, 6, 3])
TOKENS = torch.zeros(4, 6, dtype=torch.long)
for _row, _length in enumerate(LENGTHS.tolist()):
    TOKENS[_row, :_length] = torch.arange(_length) + 4 + _row
    TOKENS[_row, 0], TOKENS[_row, _length - 1] = 1, 2
DRAW = torch.arange(4) + 100


def _words():
    torch.manual_seed(1)
    return torch.randn(4, 6, 3, dtype=torch.float64, requires_grad=True)


def test_the_encoder_reads_each_sentence_to_its_end_in_both_directions():
    torch.manual_seed(0)
    encoder, words = BidirectionalEncoder(3, 5, 4).double(), _words()
    codes = encoder(words, LENGTHS)
    for code, sentence, length in zip(codes, words, LENGTHS.tolist(), strict=True):
        states = encoder.gru(sentence[None, :length])[1]  # (layer and direction, 1, gru_dim)
        expected = encoder.project(torch.cat([states[2, 0], states[3, 0]]))
        torch.testing.assert_close(code, expected)
    (gradient,) = torch.autograd.grad(codes.sum(), words)
    behind = torch.arange(6)[None, :] >= LENGTHS[:, None]
    assert not gradient[behind].any()
    assert gradient[~behind].any(1).all()


def test_the_decoder_says_the_next_word_from_the_code_and_the_words_before():
    torch.manual_seed(0)
    decoder, words = WordDecoder(3, 4, 12, 0.0).double(), _words()
    codes = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    logits, targets = decoder(words, TOKENS, LENGTHS, codes)
    assert len(logits) == int((LENGTHS - 1).sum())
    found = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
    expected = torch.zeros((), dtype=torch.float64)
    for k, length in enumerate(LENGTHS.tolist()):
        state = codes[k][None, None]
        for m in range(1, length):
            _, state = decoder.gru(words[k, m - 1][None, None], state)
            expected = expected - decoder.words(state[0, 0]).log_softmax(0)[TOKENS[k, m]]
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        torch.autograd.grad(found, (words, codes)), torch.autograd.grad(expected, (words, codes)), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_word_dropout_hides_words_in_training_alone():
    decoder = WordDecoder(3, 4, 12, 0.5)
    read = decoder.read(TOKENS, DRAW)
    changed = read != TOKENS
    assert changed.any()
    assert (read[changed] == UNKNOWN).all()
    assert not changed[:, 0].any()
    assert not changed[TOKENS == 0].any()
    assert torch.equal(decoder.read(TOKENS[:, :4], DRAW), read[:, :4])  # a caption's draws are its own
    assert torch.equal(decoder.read(TOKENS[[2]], DRAW[[2]]), read[[2]])
    assert torch.equal(decoder.eval().read(TOKENS, DRAW), TOKENS)
    many = decoder.train().read(torch.full((500, 21), 7), torch.arange(500))
    assert abs(float((many[:, 1:] == UNKNOWN).float().mean()) - 0.5) < 0.02


def test_no_sentence_gives_no_code_and_no_word():
    encoder, decoder = BidirectionalEncoder(3, 5, 4), WordDecoder(3, 4, 12, 0.1)
    none, words = torch.zeros(0, dtype=torch.long), torch.zeros(0, 0, 3)
    assert encoder(words, none).shape == (0, 4)
    logits, targets = decoder(words, torch.zeros(0, 0, dtype=torch.long), none, torch.zeros(0, 4))
    assert logits.shape == (0, 12)
    assert targets.shape == (0,)
