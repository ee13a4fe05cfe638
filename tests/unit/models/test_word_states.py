"""Families on states of a pretrained text encoder, against caption after caption with torch's own layers."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.synthetic import SENTENCE, gradients, make_family, make_objective, synthetic
from vse.models.word_states import EncodedWords
from vse.training.batches import blocks
from vse.training.step import step_losses

DATA = synthetic(seed=7, images=8)
CASES = (
    ("vsepp", "states"),
    ("vsepp", "sentence"),
    ("scan", "states"),
    ("scan", "projected"),
    ("vse_infinity", "states"),
    ("vse_infinity", "projected"),
    ("relational", "states"),
    ("vsec", "states"),
)


def _made(name, text, **changes):
    family = make_family(name, DATA.context, text=text, **changes)
    collate = DATA.collator(family, make_objective(name))
    family.fit(lambda: (collate(rows, 0) for rows in blocks(len(DATA), 5)))
    return family, collate


def _padded(batch, more):
    longer = dict(batch)
    for key in ("tokens", "states"):
        if key in batch:
            value = batch[key]
            longer[key] = torch.cat([value, value.new_zeros(len(value), more, *value.shape[2:])], dim=1)
    return longer


@pytest.mark.parametrize(("name", "text"), CASES)
def test_codes_depend_on_neither_company_nor_padding(name, text):
    family, collate = _made(name, text)
    assert family.inputs.sentence
    assert family.inputs.states == (text != "sentence")
    whole = family.encode_captions(collate(np.arange(len(DATA)), 0))
    for rows in (np.array([5]), np.array([3, 3, 0])):
        for more in (0, 3):
            for key, code in family.encode_captions(_padded(collate(rows, 0), more)).items():
                expected = whole[key][rows]
                if code.ndim > 2:
                    time = min(code.shape[1], expected.shape[1])
                    assert not code[:, time:].any()
                    code, expected = code[:, :time], expected[:, :time]
                torch.testing.assert_close(code, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("name", "text"), CASES)
def test_every_parameter_gets_a_gradient_and_evaluation_sees_no_noise(name, text):
    family, collate = _made(name, text)
    batch = collate(np.arange(len(DATA)), 2)
    step_losses(family, make_objective(name), batch, 2)[0].backward()
    for parameter, gradient in gradients(family).items():
        assert gradient.isfinite().all()
        assert gradient.any(), parameter
    codes = family.eval()(batch)
    for key, code in family.encode_captions(batch).items():
        torch.testing.assert_close(codes[key], code, rtol=1e-12, atol=1e-13)
    assert family.word_vectors(torch.arange(4)) is None


def _scaled(family, batch, caption):
    """The states of a caption, centred and divided by the mean deviation of all words of all captions."""
    every = torch.cat([collated["states"].flatten(0, 1) for collated in [batch]])
    every = every[(every != 0).any(1)]
    deviation = every.var(0, unbiased=False).mean().sqrt()
    return (batch["states"][caption, : batch["lengths"][caption]] - every.mean(0)) / deviation


@pytest.mark.parametrize("name", ["vsepp", "scan", "vsec"])
def test_states_go_through_the_familys_gru(name):
    """Value and gradient, caption after caption."""
    family, collate = _made(name, "states")
    batch, captions = collate(np.arange(len(DATA)), 0), []
    for caption in range(len(DATA)):
        states = _scaled(family, batch, caption)
        if name == "vsec":
            words = batch["tokens"][caption, : batch["lengths"][caption]]
            rows = torch.cat([states, family.words.learned.weight[words]], dim=1)
            ends = [gru.gru(row[None])[1][0, 0] for gru, row in zip(_grus(family), (rows, rows.flip(0)), strict=True)]
            captions.append(torch.cat(ends))
        elif name == "vsepp":
            captions.append(family.sentence.gru(states[None])[1][0, 0])
        else:
            there, back = family.states.forward_gru.gru, family.states.backward_gru.gru
            captions.append((there(states[None])[0][0] + back(states.flip(0)[None])[0][0].flip(0)) / 2)
    key = "words" if name == "scan" else "captions"
    codes = family.encode_captions(batch)[key]
    weights = torch.randn(codes.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    total = torch.zeros((), dtype=torch.float64)
    for caption, expected in enumerate(captions):
        expected = nn.functional.normalize(expected, dim=-1)
        code = codes[caption, : len(expected)] if name == "scan" else codes[caption]
        torch.testing.assert_close(code, expected, rtol=1e-10, atol=1e-12)
        total = total + (weights[caption, : len(expected)] if name == "scan" else weights[caption]).mul(expected).sum()
    own = {n: p for n, p in family.named_parameters() if "gru" in n or n.startswith("sentence")}
    wanted = torch.autograd.grad(total, list(own.values()), retain_graph=True)
    for got, want in zip(torch.autograd.grad((weights * codes).sum(), list(own.values())), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)


def _grus(family):
    return family.forward_gru, family.backward_gru


@pytest.mark.parametrize("name", ["scan", "vse_infinity"])
def test_projected_states_are_a_linear_map_of_each_state(name):
    family, collate = _made(name, "projected")
    batch = collate(np.arange(len(DATA)), 0)
    layer = family.states.project
    table, places = (family.vectors if name == "scan" else family.words).rows(batch)
    states = family.states(table, places, batch["lengths"])
    for caption in range(len(DATA)):
        expected = _scaled(family, batch, caption) @ layer.weight.T + layer.bias
        torch.testing.assert_close(states[caption, : len(expected)], expected, rtol=1e-10, atol=1e-12)
        assert not states[caption, len(expected) :].any()


def test_the_vector_of_a_caption_goes_through_one_layer():
    family, collate = _made("vsepp", "sentence")
    batch = collate(np.arange(len(DATA)), 0)
    vectors = batch["sentence"]
    scaled = (vectors - vectors.mean(0)) / vectors.var(0, unbiased=False).mean().sqrt()
    expected = nn.functional.normalize(scaled @ family.sentence.project.weight.T + family.sentence.project.bias, dim=1)
    torch.testing.assert_close(family.encode_captions(batch)["captions"], expected, rtol=1e-10, atol=1e-12)


def test_adversaries_are_encoded_like_captions():
    family, collate = _made("vsec", "states")
    batch = collate(np.arange(len(DATA)), 1)
    encoded = family(batch)
    assert encoded["contrast_mask"].any()
    for row, k in encoded["contrast_mask"].nonzero().tolist():
        alone = {"tokens": batch["contrast"], "lengths": batch["contrast_lengths"], "states": batch["contrast_states"]}
        one = family.encode_captions({key: value[row, k][None] for key, value in alone.items()})["captions"][0]
        torch.testing.assert_close(encoded["contrast"][row, k], one, rtol=1e-10, atol=1e-12)
    assert not encoded["contrast"][~encoded["contrast_mask"]].any()


def test_augmentation_takes_states_away():
    """A hidden word has the state zero, as if it were absent, and the markers keep theirs."""
    family, collate = _made("vse_infinity", "states", augment=0.5)
    batch, seen = collate(np.arange(len(DATA)), 3), []
    family.encode_captions, encode = lambda given: seen.append(given) or encode(given), family.encode_captions
    family.train()(batch)
    hidden = (seen[0]["states"] == 0).all(-1) & (batch["states"] != 0).any(-1)
    assert torch.equal(hidden, seen[0]["tokens"] != batch["tokens"]) or (batch["tokens"][hidden] == 3).any()
    assert hidden.any()
    assert not hidden[:, 0].any()
    assert not hidden[torch.arange(len(DATA)), batch["lengths"] - 1].any()


def test_absent_states_stay_zero():
    words = EncodedWords(SENTENCE)
    words.scale.fit(iter([torch.randn(9, 4, SENTENCE) + 3]))
    states = torch.randn(2, 3, SENTENCE)
    states[1, 1] = 0
    assert not words({"states": states})[1, 1].any()
    assert words({"states": states})[0].all()
