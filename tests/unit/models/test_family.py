"""What holds for every registered family, and the scaling of features."""

import numpy as np
import pytest
import torch

from tests.synthetic import gradients, make_family, make_objective, synthetic
from vse import registry
from vse.models.encoders import WordTable
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
        if family.unit_codes and code.is_floating_point():
            norms = code.norm(dim=-1)
            norms = norms[norms > 0] if code.ndim > 2 else norms  # what is no region and no word is zero
            torch.testing.assert_close(norms, torch.ones_like(norms))
    some = {key: value[:3] for key, value in images.items()}
    scores = family.scores(some, captions)
    assert scores.shape == (3, len(DATA))
    assert scores.isfinite().all()
    assert not family.unit_codes or family.pairwise or (scores.abs() <= 1 + 1e-9).all()
    torch.testing.assert_close(scores, family.scores(images, captions)[:3])


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_with_a_table_of_words_gives_their_vectors(name):
    """Which the probes of word vectors read."""
    family, ids = make_family(name, DATA.context), torch.tensor([4, 5])
    vectors = family.word_vectors(ids)
    assert vectors is not None or not any(isinstance(module, WordTable) for module in family.modules())
    assert vectors is None or len(vectors) == 2


@pytest.mark.parametrize("name", FAMILIES)
def test_the_training_entry_gives_the_codes_of_evaluation(name):
    family = make_family(name, DATA.context).eval()  # without augmentation
    batch = _batch(family, name)
    encoded = family(batch)
    for key, code in _codes(family, batch).items():
        torch.testing.assert_close(encoded[key], code, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_trainable_parameter_gets_a_gradient(name):
    family, objective = make_family(name, DATA.context), make_objective(name)
    found = {}
    for phase in family.phases():
        family.zero_grad()
        step_losses(family, objective, _batch(family, name), 2, phase.losses, phase.name)[0].backward()
        own = {id(p) for p in phase.parameters}
        names = [n for n, p in family.named_parameters() if id(p) in own]
        found |= {n: gradients(family)[n] for n in names}
    assert found.keys() == gradients(family).keys()
    for parameter, gradient in found.items():
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
        codes = _codes(family, _batch(family, name, rows))
        for key, code in codes.items():
            _equal_over_time(code, whole[key][rows])
        torch.testing.assert_close(_scores(family, codes), _scores(family, whole)[rows][:, rows])
    batch = _batch(family, name)
    for key in ("tokens", "objects", "attributes", "relations"):
        if key in batch:
            value = batch[key]
            batch[key] = torch.cat([value, value.new_zeros(len(value), 3, *value.shape[2:])], dim=1)
    codes = _codes(family, batch)
    for key, code in codes.items():
        _equal_over_time(code, whole[key])
    torch.testing.assert_close(_scores(family, codes), _scores(family, whole))


def _of_regions(name, **changes):
    if name == "vsepp":
        changes["image"] = "map"
    return make_family(name, DATA.context, **changes)


OF_REGIONS = [(n, {}) for n in FAMILIES if _of_regions(n).inputs.image == "map"]
OF_REGIONS += [("scan", {"direction": "i2t", "aggregate": how, "i2t_lse": 0.5}) for how in ("lse", "max")]


@pytest.mark.parametrize(("name", "changes"), OF_REGIONS, ids=str)
@pytest.mark.parametrize("training", [False, True])
def test_absent_regions_count_nowhere(name, changes, training):
    """Regions that an image lacks are zeros; scores, losses and gradients are those of the regions it has."""
    family, objective = _of_regions(name, **changes).train(training), make_objective(name)
    batch = DATA.collator(family, objective)(np.arange(len(DATA)), 2)
    nothing = torch.zeros(len(DATA), 3, 5, dtype=torch.float64)
    padded = batch | {"map": torch.cat([batch["map"], nothing], dim=1)}
    codes, longer = _codes(family, batch), _codes(family, padded)
    torch.testing.assert_close(_scores(family, longer), _scores(family, codes))
    for phase in family.phases():
        found = []
        for made in (batch, padded):
            family.zero_grad()
            total, losses = step_losses(family, objective, made, 2, phase.losses, phase.name)
            total.backward()
            found.append({**losses, **gradients(family)})
        torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-10)
    # An image without any region must not spoil the others.
    empty = batch | {"map": batch["map"] * (torch.arange(len(DATA)) != 2)[:, None, None]}
    total, losses = step_losses(family, objective, empty, 2)
    total.backward()
    assert all(value.isfinite().all() for value in (*losses.values(), *gradients(family).values()))
    assert all(float(losses[name].detach().abs()) < 1e6 for name in losses)


def _scores(family, codes):
    return family.scores(codes, codes)


def _equal_over_time(code, expected):
    """Codes over time are as long as the longest caption of their batch: padding must be zero."""
    assert (code.ndim > 1) == (expected.ndim > 1)
    if code.ndim > 1:
        width = min(code.shape[1], expected.shape[1])
        assert not code[:, width:].any()
        assert not expected[:, width:].any()
        code, expected = code[:, :width], expected[:, :width]
    torch.testing.assert_close(code, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_an_empty_batch_has_codes_and_keeps_parameters_in_the_graph(name):
    """A worker may hold no caption of an epoch's last batch."""
    family = make_family(name, DATA.context)
    for phase in family.phases():
        encoded = family(_batch(family, name, np.zeros(0, dtype=np.int64)), phase.name)
        if family.pairwise and family.pairwise <= encoded.keys():  # what scores pairs learns too
            encoded["scores"] = family.scores(encoded, encoded)
        total = sum(value.sum() for value in encoded.values() if value.requires_grad)
        assert isinstance(total, torch.Tensor)
        family.zero_grad()
        total.backward()
        scalars = {id(family.get_parameter(each)) for each in family.scalars()}  # of the objective
        assert not [p.shape for p in phase.parameters if p.grad is None and id(p) not in scalars]
    assert all(len(code) == 0 for code in _codes(family, _batch(family, name, np.zeros(0, dtype=np.int64))).values())


@pytest.mark.parametrize("name", FAMILIES)
def test_half_precision_features_are_read(name):
    family = make_family(name, DATA.context, double=False)
    batch = _batch(family, name)
    image = family.inputs.image
    half = batch | {image: batch[image].half()}
    for key, code in family.encode_images(half).items():
        torch.testing.assert_close(code, family.encode_images(half | {image: half[image].float()})[key])
        assert code.dtype == torch.float32 or not code.is_floating_point()


@pytest.mark.parametrize("name", FAMILIES)
def test_phases_own_every_trainable_parameter_once(name):
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


def test_roots_of_features_keep_their_signs():
    scale = FeatureScale(3, "root")
    scale.fit(iter([]))
    features = torch.tensor([[4.0, 0.0, -9.0]])
    torch.testing.assert_close(scale(features), torch.tensor([[2.0, 0.0, -3.0]]))


def test_absent_regions_are_no_part_of_the_statistics():
    torch.manual_seed(0)
    features = torch.randn(6, 4, 3) + 5
    padded = torch.cat([features, torch.zeros(6, 2, 3)], dim=1)[:, torch.randperm(6)]
    scale, other = FeatureScale(3, "standardize"), FeatureScale(3, "standardize")
    scale.fit(iter([features]))
    other.fit(iter([padded[:2], torch.zeros(1, 6, 3), padded[2:]]))
    torch.testing.assert_close(other.mean, scale.mean)
    torch.testing.assert_close(other.std, scale.std)
    pooled = FeatureScale(3, "standardize")  # a whole image is never absent
    pooled.fit(iter([torch.tensor([[0.0, 0.0, 0.0], [2.0, 4.0, 6.0]])]))
    torch.testing.assert_close(pooled.mean, torch.tensor([1.0, 2.0, 3.0]))
    nothing = FeatureScale(3, "standardize")
    nothing.fit(iter([torch.zeros(2, 2, 3)]))
    assert nothing.mean.tolist() == [0.0] * 3
    assert nothing.std.tolist() == [1.0] * 3


def test_other_scalings():
    features = torch.randn(4, 2, 3)
    unchanged, normed = FeatureScale(3, "none"), FeatureScale(3, "l2")
    for scale in (unchanged, normed):
        scale.fit(iter([features]))
        assert not scale.mean.any()
    assert torch.equal(unchanged(features), features)
    torch.testing.assert_close(normed(features), features / features.norm(dim=-1, keepdim=True))


def test_vectors_of_captions_keep_the_shape_of_their_cloud():
    """One deviation for all dimensions: with as many principal components as captions, each one's own would leave
    every pair of captions equally far apart."""
    torch.manual_seed(0)
    alike = torch.randn(6, 40).repeat_interleave(2, 0) + 0.3 * torch.randn(12, 40)  # six pairs of siblings
    cloud = alike - alike.mean(0)
    components = torch.linalg.svd(cloud, full_matrices=False)
    vectors = (components.U * components.S)[:, :11]
    scale, image = FeatureScale(11, "standardize", images=False), FeatureScale(11, "standardize")
    for each in (scale, image):
        each.fit(iter([vectors]))
    torch.testing.assert_close(scale(vectors), vectors / vectors.square().mean().sqrt())
    assert torch.nn.functional.cosine_similarity(scale(vectors)[0], scale(vectors)[1], dim=0) > 0.8
    assert abs(torch.nn.functional.cosine_similarity(image(vectors)[0], image(vectors)[1], dim=0) + 1 / 11) < 1e-4
