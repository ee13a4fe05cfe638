"""What holds for every registered family, and the scaling of features."""

import numpy as np
import pytest
import torch

from tests.synthetic import gradients, make_family, make_objective, synthetic
from vse import registry
from vse.models.family import FeatureScale, feature_scales
from vse.training.step import step_losses

FAMILIES = registry.names("family")
DATA = synthetic(seed=7, images=8)


def _batch(family, name, rows=None, epoch=2):
    rows = np.arange(len(DATA)) if rows is None else np.asarray(rows)
    return DATA.collator(family, make_objective(name))(rows, epoch)


def _codes(family, batch):
    return {**family.encode_images(batch), **family.encode_captions(batch)}


@pytest.mark.parametrize("name", FAMILIES)
def test_shapes_and_unit_norms(name):
    family = make_family(name, DATA.context)
    batch = _batch(family, name)
    images, captions = family.encode_images(batch), family.encode_captions(batch)
    for code in (*images.values(), *captions.values()):
        assert len(code) == len(DATA)
        torch.testing.assert_close(code.norm(dim=-1), torch.ones(len(DATA), dtype=torch.float64))
    some = {key: value[:3] for key, value in images.items()}
    scores = family.scores(some, captions)
    assert scores.shape == (3, len(DATA))
    assert (scores.abs() <= 1 + 1e-9).all()
    torch.testing.assert_close(scores, family.scores(images, captions)[:3])


@pytest.mark.parametrize("name", FAMILIES)
def test_the_training_entry_gives_the_codes_of_evaluation(name):
    family = make_family(name, DATA.context)
    batch = _batch(family, name)
    encoded = family(batch)
    for key, code in _codes(family, batch).items():
        torch.testing.assert_close(encoded[key], code, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_trainable_parameter_gets_a_gradient(name):
    family, objective = make_family(name, DATA.context), make_objective(name)
    step_losses(family, objective, _batch(family, name), 2)[0].backward()
    for parameter, gradient in gradients(family).items():
        assert gradient.any(), parameter
        assert gradient.isfinite().all(), parameter


@pytest.mark.parametrize("name", FAMILIES)
def test_save_and_load(name):
    family = make_family(name, DATA.context, seed=0, double=False)
    for scale in feature_scales(family):
        scale.fit(iter([torch.randn(40, len(scale.mean))]))
    other = make_family(name, DATA.context, seed=1, double=False)
    other.load_state_dict({key: value.clone() for key, value in family.state_dict().items()})
    batch = _batch(family, name)
    for key, code in _codes(family, batch).items():
        assert torch.equal(_codes(other, batch)[key], code)


@pytest.mark.parametrize("name", FAMILIES)
def test_order_company_and_padding_change_nothing(name):
    family = make_family(name, DATA.context)
    whole = _codes(family, _batch(family, name))
    order = np.random.default_rng(0).permutation(len(DATA))
    for rows in (order, order[:2], np.array([5]), np.array([3, 3, 0])):
        for key, code in _codes(family, _batch(family, name, rows)).items():
            torch.testing.assert_close(code, whole[key][rows], rtol=1e-11, atol=1e-12)
    batch = _batch(family, name)
    for key in ("tokens", "objects", "attributes", "relations"):
        if key in batch:
            value = batch[key]
            batch[key] = torch.cat([value, value.new_zeros(len(value), 3, *value.shape[2:])], dim=1)
    for key, code in _codes(family, batch).items():
        torch.testing.assert_close(code, whole[key], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_an_empty_batch_has_codes_and_keeps_parameters_in_the_graph(name):
    """A worker may hold no caption of an epoch's last batch."""
    family = make_family(name, DATA.context)
    encoded = family(_batch(family, name, np.zeros(0, dtype=np.int64)))
    total = sum(value.sum() for value in encoded.values() if value.requires_grad)
    assert isinstance(total, torch.Tensor)
    total.backward()
    missing = [n for n, p in family.named_parameters() if p.requires_grad and p.grad is None]
    assert not missing
    assert all(len(code) == 0 for code in _codes(family, _batch(family, name, np.zeros(0, dtype=np.int64))).values())


@pytest.mark.parametrize("name", FAMILIES)
def test_half_precision_features_are_read(name):
    family = make_family(name, DATA.context, double=False)
    batch = _batch(family, name)
    image = family.inputs.image
    half = batch | {image: batch[image].half()}
    for key, code in family.encode_images(half).items():
        torch.testing.assert_close(code, family.encode_images(half | {image: half[image].float()})[key])
        assert code.dtype == torch.float32


@pytest.mark.parametrize("name", FAMILIES)
def test_one_phase_owns_every_trainable_parameter_once(name):
    family = make_family(name, DATA.context)
    owned = [id(p) for phase in family.phases() for p in phase.parameters]
    assert sorted(owned) == sorted(id(p) for p in family.parameters() if p.requires_grad)


@pytest.mark.parametrize("shape", [(50, 3), (10, 4, 3)])
def test_feature_scale_standardises_over_images_and_regions(shape):
    torch.manual_seed(0)
    features = (
        torch.randn(shape, dtype=torch.float64) * torch.tensor([3.0, 0.1, 0.0]) + torch.tensor([5.0, -1.0, 2.0])
    ).half()
    scale = FeatureScale(3, "standardize")
    scale.fit(iter([features[:7], features[7:8], features[8:]]))
    flat = features.double().reshape(-1, 3)
    torch.testing.assert_close(scale.mean.double(), flat.mean(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(scale.std.double()[:2], flat.std(0, correction=0)[:2], rtol=1e-5, atol=1e-6)
    scaled = scale(features).reshape(-1, 3)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3), rtol=0, atol=1e-5)
    assert scale.std[2] == 1  # a constant channel stays at zero
    assert not scaled[:, 2].any()


def test_other_scalings():
    features = torch.randn(4, 2, 3)
    unchanged, normed = FeatureScale(3, "none"), FeatureScale(3, "l2")
    for scale in (unchanged, normed):
        scale.fit(iter([features]))
        assert not scale.mean.any()
    assert torch.equal(unchanged(features), features)
    torch.testing.assert_close(normed(features), features / features.norm(dim=-1, keepdim=True))
