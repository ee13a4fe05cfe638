"""VSE++ against a rewriting with torch's own layers."""

import re

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse.config import override
from vse.errors import InputError
from vse.models.family import Context
from vse.presets import preset
from vse.training.config import family_inputs

DATA = synthetic(seed=3)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pooling": "gpo"}, "model.pooling=gpo: pools a map's regions; add model.image=map"),
        ({"image": "map", "normalize_images": False}, "model.normalize_images=false: only with model.image=pooled"),
        ({"start": "cca"}, "model.start=cca: aligns two vectors; add model.image=pooled model.text=sentence"),
    ],
)
def test_settings_that_would_change_nothing_are_refused(settings, said):
    config = override(preset("vsepp_tiny"), {f"model.{key}": value for key, value in settings.items()})
    with pytest.raises(InputError, match=re.escape(said)):
        family_inputs(config)


@pytest.mark.parametrize("image", ["pooled", "map"])
def test_codes_against_plain_torch(image):
    family = make_family("vsepp", DATA.context, image=image, k=4)
    batch = DATA.collator(family, make_objective("vsepp"))(np.arange(len(DATA)), 0)
    projected = batch[image] @ family.image.project.weight.T + family.image.project.bias
    if image == "map":
        projected = projected.sort(dim=1, descending=True).values[:, :4].mean(1)
    torch.testing.assert_close(
        family.encode_images(batch)["images"], projected / projected.norm(dim=1, keepdim=True), rtol=1e-10, atol=1e-12
    )
    for b in range(len(DATA)):
        vectors = family.words.embedding.weight[batch["tokens"][b, : batch["lengths"][b]]]
        last = family.sentence.gru(vectors[None])[0][0, -1]  # the state at <end>
        torch.testing.assert_close(
            family.encode_captions(batch)["captions"][b], last / last.norm(), rtol=1e-10, atol=1e-12
        )


def test_the_score_is_the_cosine():
    family = make_family("vsepp", DATA.context)
    batch = DATA.collator(family, make_objective("vsepp"))(np.arange(6), 0)
    images, captions = family.encode_images(batch), family.encode_captions(batch)
    expected = torch.nn.functional.cosine_similarity(images["images"][:, None], captions["captions"][None], dim=-1)
    torch.testing.assert_close(family.scores(images, captions), expected)


def test_given_word_vectors_may_be_fixed():
    vectors = torch.randn(DATA.context.vocabulary_size, 6)
    context = Context(DATA.context.vocabulary_size, DATA.context.feature_dims, vectors)
    assert make_family("vsepp", context).words.embedding.weight.requires_grad
    assert not make_family("vsepp", context, fixed_words=True).words.embedding.weight.requires_grad


@pytest.mark.parametrize("components", [0, 4])
def test_a_start_by_cca_gives_the_codes_of_cca(components):
    settings = {"dim": 3, "ridge": 0.7, "image_components": components}
    started = make_family("vsepp", DATA.context, text="sentence", start="cca", **settings)
    fitted = make_family("cca", DATA.context, power=1.0, **settings)
    collate = DATA.collator(fitted, make_objective("cca"))
    for family in (started, fitted):
        family.fit(lambda: (collate(np.arange(k, min(k + 5, len(DATA))), 0) for k in range(0, len(DATA), 5)))
    batch = collate(np.arange(len(DATA)), 0)
    for side in ("encode_images", "encode_captions"):
        for name, codes in getattr(started, side)(batch).items():
            torch.testing.assert_close(codes, getattr(fitted, side)(batch)[name], rtol=1e-8, atol=1e-10)
    assert started.image.project.weight.requires_grad


def test_more_dimensions_than_cca_has_are_refused():
    with pytest.raises(InputError, match=re.escape("model.dim=7: model.start=cca has at most 4 canonical variables")):
        make_family("vsepp", DATA.context, text="sentence", start="cca", image_components=4)
