"""The autoencoders of jWAE: what each variant compares, and that scores are cosines of codes."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.synthetic import make_family, make_objective, synthetic
from vse.models.family import feature_scales

DATA = synthetic(seed=5, images=6)
ROWS = np.arange(len(DATA))


def _made(**changes):
    family = make_family("jwae", DATA.context, **changes)
    return family, DATA.collator(family, make_objective("jwae"))(ROWS, 1)


def test_fixed_vectors_go_through_two_layers_and_back():
    family, batch = _made(text="sentence")
    encoded = family(batch)

    def two(layers, x):
        first, last = layers[0], layers[2]
        return F.linear(F.linear(x, first.weight, first.bias).clamp_min(0), last.weight, last.bias)

    codes = two(family.encode_text, batch["sentence"])
    torch.testing.assert_close(encoded["caption_codes"], codes)
    torch.testing.assert_close(encoded["sentence_outputs"], two(family.decode_text, codes))
    assert torch.equal(encoded["sentence_inputs"], batch["sentence"])
    images = two(family.encode_image, batch["pooled"])
    torch.testing.assert_close(encoded["image_codes"], images)
    torch.testing.assert_close(encoded["image_outputs"], two(family.decode_image, images))
    torch.testing.assert_close(
        family.scores(encoded, encoded), F.cosine_similarity(images[:, None], codes[None], dim=-1)
    )


@pytest.mark.parametrize("text", ["gru", "sentence"])
def test_a_family_reads_what_it_says(text):
    family, batch = _made(text=text)
    assert family.inputs.sentence == (text == "sentence")
    unread = "tokens" if text == "sentence" else "sentence"
    family({name: value for name, value in batch.items() if name != unread})


def test_sentence_vectors_are_scaled_by_training_captions():
    family, batch = _made(text="sentence")
    family.fit(lambda: iter([batch]))
    inputs = family(batch)["sentence_inputs"]
    torch.testing.assert_close(inputs.mean(0), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-6)
    spread = batch["sentence"].std(0, correction=0)  # one deviation for all numbers: what they are to each other stays
    torch.testing.assert_close(inputs.std(0, correction=0), spread / spread.square().mean().sqrt(), rtol=1e-5, atol=0)
    assert len(feature_scales(family)) == 1  # the other one is no business of image features
    unscaled, batch = _made(text="sentence", text_scale="none")
    unscaled.fit(lambda: iter([batch]))
    assert torch.equal(unscaled(batch)["sentence_inputs"], batch["sentence"])


def test_reconstructions_are_of_scaled_features():
    family, batch = _made()
    family.scale.mean.add_(2.0)
    torch.testing.assert_close(family(batch)["image_inputs"], batch["pooled"] - 2)


def test_the_vae_samples_in_training_and_evaluates_its_means():
    family, batch = _made(regularizer="vae")
    encoded = family(batch)
    assert not torch.allclose(encoded["image_codes"], encoded["image_mean"])
    again = family(batch)
    assert torch.equal(again["caption_codes"], encoded["caption_codes"])  # the noise belongs to the caption
    family.eval()
    assert torch.equal(family(batch)["image_codes"], encoded["image_mean"])
    without = {name: value for name, value in batch.items() if name != "draw"}
    torch.testing.assert_close(family.encode_captions(without)["captions"], F.normalize(encoded["caption_mean"], dim=1))


def test_phases():
    family, _ = _made(discriminator_rate=0.25, discriminator_every=3)
    codes, judge = family.phases()
    assert (codes.name, judge.name) == ("codes", "discriminator")
    assert (judge.rate, judge.betas, judge.every) == (0.25, (0.5, 0.999), 3)
    assert len(_made(regularizer="none")[0].phases()) == 1
    assert len(_made(regularizer="vae")[0].phases()) == 1


def test_evaluation_needs_no_keys():
    family, batch = _made()
    family.eval()
    kept = {name: batch[name] for name in ("pooled", "tokens", "lengths")}
    assert family.encode_images(kept)["images"].shape == family.encode_captions(kept)["captions"].shape
