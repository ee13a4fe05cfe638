"""Relevance of regions for a text, of every family that reads a map: naive loops, absent regions, gradients."""

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse import registry

DATA = synthetic(seed=21, images=6, most_captions=3)
PLAIN = synthetic(seed=22, images=20, most_captions=2, most_components=1)  # captions of few components
TAU = 0.1
MAP = [("univse", {}), ("univse", {"pooling": "gpo"}), ("vsepp", {"image": "map"}), ("relational", {})]
MAP += [("vse_infinity", {}), ("scan", {"direction": "t2i"}), ("scan", {"direction": "i2t"}), ("jwae_scan", {})]


def codes(name, settings, rows=None, more=0, data=DATA):
    """(family, batch, codes of regions, codes of queries) of captions, with `more` absent regions."""
    family = make_family(name, data.context, **settings).eval()
    batch = data.collator(family, make_objective(registry.name_of("family", family.config)))
    batch = dict(batch(np.arange(len(data)) if rows is None else rows, 0))
    nothing = torch.zeros(*batch["map"].shape[:1], more, *batch["map"].shape[2:], dtype=batch["map"].dtype)
    images = {"map": torch.cat([batch["map"], nothing], dim=1)}
    return family, batch, family.encode_regions(images), family.encode_queries(batch)


def cosine(a, b):
    return (a @ b / (a.norm() * b.norm())).item()


@pytest.mark.parametrize(("name", "settings"), MAP)
def test_a_map_is_a_distribution_over_the_regions_that_exist(name, settings):
    family, batch, regions, queries = codes(name, settings)
    maps = family.relevance(regions, queries, TAU)
    number = len(batch["tokens"])
    assert maps.shape == (number, number, batch["map"].shape[1])
    torch.testing.assert_close(maps.sum(-1), torch.ones_like(maps[..., 0]))
    assert (maps >= 0).all()
    padded, _, more, queries = codes(name, settings, more=3)
    padded.load_state_dict(family.state_dict())
    more = padded.encode_regions({"map": torch.cat([batch["map"], torch.zeros_like(batch["map"][:, :3])], dim=1)})
    wider = padded.relevance(more, padded.encode_queries(batch), TAU)
    assert not wider[..., -3:].any()
    torch.testing.assert_close(wider[..., :-3], maps)


def test_every_family_that_reads_a_map_has_relevance():
    reads = {name for name in registry.names("family") if make_family(name, DATA.context).inputs.image == "map"}
    assert reads <= {name for name, _ in MAP}


@pytest.mark.parametrize("settings", [{}, {"learn_alpha": True}, {"renormalize": False}])
def test_univse_s_queries_are_what_a_text_names(settings):
    family, batch, regions, queries = codes("univse", settings, data=PLAIN)
    encoded = family(batch)
    bags = family.encode_captions(batch)
    kinds = set()
    for row in range(len(batch["tokens"])):
        counts = tuple(int(encoded[f"{kind}_mask"][row].sum()) for kind in ("object", "attribute", "relation"))
        nouns, pairs, triples = counts
        if (nouns, pairs, triples) == (1, 0, 0):
            kind, expected = "noun", encoded["words"][encoded["object_index"][row, 0]]
        elif pairs == 1 and nouns <= 1 and not triples:
            kind, expected = "pair", encoded["pairs"][encoded["attribute_index"][row, 0]]
        elif triples == 1 and nouns <= 2 and not pairs:
            kind, expected = "triple", encoded["triples"][encoded["relation_index"][row, 0]]
        else:
            kind, expected = "text", family.mix(bags["sentences"], bags["bags"], family.alpha)[row]
        kinds.add(kind)
        torch.testing.assert_close(queries["captions"][row], expected)
        maps = family.relevance(regions, queries, TAU)
        for image in range(2):
            exponents = np.exp([cosine(v, expected) / TAU for v in regions["regions"][image]])
            np.testing.assert_allclose(maps[image, row].detach(), exponents / exponents.sum())
    assert kinds == {"noun", "pair", "triple", "text"}


def test_a_text_is_read_alone_as_in_a_batch():
    family, batch, _, queries = codes("univse", {})
    for row in range(len(batch["tokens"])):
        alone = {
            key: value[row : row + 1]
            for key, value in batch.items()
            if key in ("tokens", "lengths", "objects", "attributes", "relations")
        }
        torch.testing.assert_close(family.encode_queries(alone)["captions"][0], queries["captions"][row])


@pytest.mark.parametrize(("name", "settings"), [m for m in MAP if "scan" not in m[0] and m[0] != "univse"])
def test_other_families_compare_regions_with_the_caption(name, settings):
    family, batch, regions, _ = codes(name, settings)
    captions = family.encode_captions(batch)["captions"]
    maps = family.relevance(regions, {"captions": captions}, TAU)
    for image in range(3):
        for row in range(len(captions)):
            exponents = np.exp([cosine(v, captions[row]) / TAU for v in regions["regions"][image]])
            np.testing.assert_allclose(maps[image, row].detach(), exponents / exponents.sum())


def attention_loop(regions, words, length, how):
    """SCAN's relevance of regions for one caption, word by word."""
    words = words[:length]
    similarity = torch.stack([torch.stack([v @ e for e in words]) for v in regions])
    clipped = torch.where(similarity > 0, similarity, how.slope * similarity)
    if how.direction == "t2i":
        clipped = clipped / (clipped.norm(dim=1, keepdim=True) + 1e-8)
        attention = (how.softmax * clipped).softmax(0)
        return attention[:, 1:-1].mean(1)  # without both markers
    clipped = clipped / (clipped.norm(dim=0, keepdim=True) + 1e-8)
    attention = (how.softmax * clipped).softmax(1)
    attended = attention @ words
    own = torch.stack([v @ a / a.norm() for v, a in zip(regions, attended, strict=True)])
    return (how.lse * own).softmax(0)


@pytest.mark.parametrize("slope", [0.0, 0.1])
@pytest.mark.parametrize("direction", ["t2i", "i2t", "both"])
def test_scan_s_attention_against_a_loop(direction, slope):
    family, batch, images, queries = codes("scan", {"direction": direction, "slope": slope, "weight": 0.3})
    maps = family.attention_map(images, queries)
    torch.testing.assert_close(maps.sum(-1), torch.ones_like(maps[..., 0]))
    shares = {"t2i": 0.3, "i2t": 0.7} if direction == "both" else {direction: 1.0}
    for image in range(3):
        for row, length in enumerate(batch["lengths"].tolist()):
            expected = sum(
                share * attention_loop(images["regions"][image], queries["words"][row], length, family.attention(which))
                for which, share in shares.items()
            )
            torch.testing.assert_close(maps[image, row], expected)


def test_scan_compares_regions_with_all_words():
    family, batch, images, queries = codes("scan", {})
    maps = family.relevance(images, queries, TAU)
    for image in range(3):
        for row, length in enumerate(batch["lengths"].tolist()):
            words = queries["words"][row, 1 : length - 1]  # without both markers
            similarity = [(v[None] * words).sum(-1).mean() for v in images["regions"][image]]
            torch.testing.assert_close(maps[image, row], (torch.stack(similarity) / TAU).softmax(0))


@pytest.mark.parametrize(("name", "settings"), MAP)
def test_gradients(name, settings):
    family, batch, _, queries = codes(name, settings, np.arange(2))
    family, images = family.double(), batch["map"].double().requires_grad_()
    weights = torch.randn(2, 2, images.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    queries = {key: value.detach() for key, value in family.encode_queries(batch).items()}

    def loss(pixels):
        return (family.relevance(family.encode_regions({"map": pixels}), queries, TAU) * weights).sum()

    (gradient,) = torch.autograd.grad(loss(images), images)
    step = torch.zeros_like(images)
    for place in [(0, 1, 2), (1, 0, 3), (1, 4, 0)]:
        step.zero_()
        step[place] = 1e-6
        slope = (loss(images + step) - loss(images - step)) / 2e-6
        assert gradient[place].item() == pytest.approx(slope.item(), rel=1e-5, abs=1e-8)


def test_a_family_that_reads_pooled_features_has_no_regions():
    family = make_family("vsepp", DATA.context)
    with pytest.raises(TypeError, match="no vectors of regions"):
        family.encode_regions({"map": torch.zeros(1, 4, 5)})
    with pytest.raises(TypeError, match="no attention over regions"):
        family.attention_map({}, {})
