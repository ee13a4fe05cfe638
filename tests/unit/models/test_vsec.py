"""VSE-C's encoder against torch's bidirectional GRU; adversaries encoded as if they were captions."""

import dataclasses

import numpy as np
import torch
from torch import nn

from tests.synthetic import make_family, make_objective, synthetic
from vse.models.noise import word_keys
from vse.models.vsec import reversed_rows

DATA = synthetic(seed=11, images=8)


def _batch(family, rows=None):
    rows = np.arange(len(DATA)) if rows is None else np.asarray(rows)
    return DATA.collator(family, make_objective("vsec"))(rows, 1)


def test_codes_are_those_of_a_bidirectional_gru():
    context = dataclasses.replace(DATA.context, word_vectors=torch.randn(DATA.context.vocabulary_size, 5))
    family = make_family("vsec", context, dim=8)
    assert not family.words.fixed.embedding.weight.requires_grad
    whole = nn.GRU(family.words.dim, 4, batch_first=True, bidirectional=True).double()
    state = dict(family.forward_gru.gru.state_dict())
    state |= {f"{name}_reverse": value for name, value in family.backward_gru.gru.state_dict().items()}
    whole.load_state_dict(state)
    batch = _batch(family)
    packed = nn.utils.rnn.pack_padded_sequence(
        family.words(batch["tokens"]), batch["lengths"], batch_first=True, enforce_sorted=False
    )
    last = whole(packed)[1]
    expected = nn.functional.normalize(torch.cat([last[0], last[1]], dim=1), dim=1)
    torch.testing.assert_close(family.encode_captions(batch)["captions"], expected, rtol=1e-10, atol=1e-12)


def test_adversaries_are_encoded_like_captions():
    family = make_family("vsec", DATA.context)
    batch = _batch(family)
    encoded = family(batch)
    assert encoded["contrast_mask"].any()
    assert not encoded["contrast_mask"].all()
    for row in range(len(DATA)):
        for k in range(batch["contrast"].shape[1]):
            if not encoded["contrast_mask"][row, k]:
                assert not encoded["contrast"][row, k].any()
                continue
            alone = {"tokens": batch["contrast"][row, k][None], "lengths": batch["contrast_lengths"][row, k][None]}
            torch.testing.assert_close(encoded["contrast"][row, k], family.encode_captions(alone)["captions"][0])


def test_dropout_hides_the_same_part_of_a_word_in_a_caption_and_its_adversaries():
    family = make_family("vsec", DATA.context, dropout=0.5)
    batch = _batch(family)
    whole, off = family.eval()(batch)["captions"], family.train()
    torch.manual_seed(5)
    dropped = off(batch)
    assert not torch.isclose(dropped["captions"], whole).all(1).any()
    own = batch | {"contrast": batch["tokens"][:, None], "contrast_lengths": batch["lengths"][:, None]}
    torch.testing.assert_close(off(own)["contrast"][:, 0], dropped["captions"])
    images = make_family("vsec", DATA.context, dropout=0.5).train()(batch)["images"]
    assert not torch.equal(images, family.eval()(batch)["images"])


def test_dropout_hides_a_part_of_states_too_the_same_of_a_word_in_this_step():
    """Codes and gradients as without dropout from states and word vectors that are masked by hand."""
    family = make_family("vsec", DATA.context, text="states", dropout=0.5).train()
    plain = make_family("vsec", DATA.context, text="states").train()
    batch = _batch(family)
    vocabulary = torch.arange(DATA.context.vocabulary_size)
    masks = family.dropout(torch.ones(len(vocabulary), 5 + 4, dtype=torch.float64), word_keys(vocabulary))
    with torch.no_grad():
        plain.words.learned.weight *= masks[:, 5:]
    names = {"states": "tokens", "contrast_states": "contrast"}
    given = {name: batch[name].double().requires_grad_() for name in names}
    found = family({**batch, **given})
    expected = plain({**batch, **{name: given[name] * masks[batch[ids], :5] for name, ids in names.items()}})
    for name in ("captions", "contrast"):
        torch.testing.assert_close(found[name], expected[name], rtol=1e-10, atol=1e-12)
        weight = torch.randn_like(found[name])
        of_both = [
            torch.autograd.grad((each[name] * weight).sum(), list(given.values()), retain_graph=True, allow_unused=True)
            for each in (found, expected)
        ]
        for ours, theirs in zip(*of_both, strict=True):
            if theirs is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-12)
    assert not torch.equal(found["captions"], plain({**batch, **given})["captions"])


def test_without_adversaries_in_the_batch_it_is_a_plain_family():
    family = make_family("vsec", DATA.context)
    batch = {k: v for k, v in _batch(family).items() if not k.startswith("contrast")}
    assert family(batch).keys() == {"images", "captions"}


def test_reversed_rows():
    rows = torch.tensor([[1, 2, 3, 0], [7, 0, 0, 0], [1, 2, 3, 4]])
    found = reversed_rows(rows, torch.tensor([3, 1, 4]))
    assert found.tolist() == [[3, 2, 1, 0], [7, 0, 0, 0], [4, 3, 2, 1]]
