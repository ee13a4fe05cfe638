"""Relational embeddings: the graphs' nodes, random left padding, dropped words, pools."""

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse.errors import InputError
from vse.models.family import Context
from vse.models.relational import NodePools

DATA = synthetic(seed=3)
KINDS = ("none", "pool", "attention")


def _family(context=DATA.context, dim=8, heads=2, **changes):
    return make_family("relational", context, dim=dim, heads=heads, **changes)


def _batch(family, rows=None):
    rows = np.arange(len(DATA)) if rows is None else rows
    return DATA.collator(family, make_objective("relational"))(rows, 0)


def _words(family, tokens, shift=0):
    """Nodes of one caption without markers, all of it read, by the family's own layers on this caption alone."""
    vectors = family.words.embedding.weight[tokens] + family.word_position[shift : shift + len(tokens)]
    nodes = vectors[None]
    for layer in family.text_layers:
        nodes = layer(nodes)
    return nodes[0]


@pytest.mark.parametrize("pooling", ["avg", "max"])
def test_codes_are_pooled_nodes_of_both_graphs(pooling):
    family = _family(pooling=pooling, text_layers=3, image_layers=2).eval()
    assert [layer.residual for layer in family.text_layers] == [False, True, True]
    batch = _batch(family)
    codes = family(batch)
    for b, length in enumerate(batch["lengths"].tolist()):
        tokens = [t for t in batch["tokens"][b, 1 : length - 1].tolist() if t != 3]  # <unk> is dropped
        nodes = _words(family, tokens or batch["tokens"][b, 1 : length - 1].tolist())
        pooled = nodes.mean(0) if pooling == "avg" else nodes.amax(0)
        torch.testing.assert_close(codes["captions"][b], pooled / pooled.norm())
    regions = batch["map"] @ family.project.weight.T + family.project.bias + family.region_position[:6]
    for layer in family.image_layers:
        regions = layer(regions)
    pooled = regions.mean(1) if pooling == "avg" else regions.amax(1)
    torch.testing.assert_close(codes["images"], torch.nn.functional.normalize(pooled, dim=-1))


def test_left_padding_is_random_in_training_only_and_belongs_to_the_caption():
    family = _family(padded_length=9)
    batch, some = _batch(family), _batch(family, np.array([4, 1]))
    shifted, part = family(batch)["captions"], family(some)["captions"]
    torch.testing.assert_close(part, shifted[[4, 1]])
    assert not torch.allclose(shifted, family.eval()(batch)["captions"])
    for b, length in enumerate(batch["lengths"].tolist()):
        tokens = [t for t in batch["tokens"][b, 1 : length - 1].tolist() if t != 3]
        tokens = tokens or batch["tokens"][b, 1 : length - 1].tolist()
        means = [_words(family, tokens, shift).mean(0) for shift in range(max(1, 10 - len(tokens)))]
        assert any(torch.allclose(shifted[b], mean / mean.norm()) for mean in means)


def test_every_shift_occurs():
    family = _family(padded_length=4)
    batch = _batch(family, np.repeat(3, 200))
    batch["draw"] = torch.arange(200) * 7919
    batch["tokens"], batch["lengths"] = torch.tensor([[1, 5, 6, 2]]).expand(200, 4), torch.full((200,), 4)
    assert len({tuple(code.round(decimals=6).tolist()) for code in family(batch)["captions"].detach()}) == 3


def test_words_without_a_vector_are_dropped_and_truncation_counts_words():
    vectors = torch.randn(DATA.context.vocabulary_size, 4)
    vectors[[0, 1, 2, 3, 7]] = 0
    family = _family(Context(len(vectors), DATA.context.feature_dims, vectors)).eval()
    batch = _batch(family, np.array([0]))

    def code(*tokens):
        row = torch.tensor([[1, *tokens, 2]])
        return family.encode_captions(batch | {"tokens": row, "lengths": torch.tensor([row.shape[1]])})["captions"]

    torch.testing.assert_close(code(5, 7, 6), code(5, 6))
    torch.testing.assert_close(code(7, 3, 5), code(5))
    assert not torch.allclose(code(7), code(3))  # nothing else is there: they are kept
    assert not torch.allclose(code(5, 6), code(6, 5))
    short = _family(Context(len(vectors), DATA.context.feature_dims, vectors), max_words=2).eval()
    short.load_state_dict({k: v[:24] if k == "word_position" else v for k, v in family.state_dict().items()})
    family.config = short.config
    torch.testing.assert_close(code(5, 7, 6, 8, 9), code(5, 6))


def test_which_words_are_known_is_kept_with_the_weights():
    vectors = torch.randn(DATA.context.vocabulary_size, 4)
    vectors[7] = 0
    trained = _family(Context(len(vectors), DATA.context.feature_dims, vectors))
    opened = _family(Context(len(vectors), DATA.context.feature_dims, torch.zeros_like(vectors)))
    assert not opened.known.any()
    opened.load_state_dict(trained.state_dict())
    assert opened.known.sum() == len(vectors) - 1


@pytest.mark.parametrize("structure", KINDS)
def test_what_training_compares(structure):
    family = _family(structure=structure, pools=3).eval()
    batch = _batch(family)
    encoded = family(batch)
    extra = {"none": set(), "pool": {"image_pools", "caption_pools"}, "attention": {"image_nodes", "caption_nodes"}}
    assert encoded.keys() == {"images", "captions"} | extra[structure]
    for name in extra[structure]:
        norms = encoded[name].norm(dim=-1)
        assert ((norms - 1).abs() < 1e-9).logical_or(norms == 0).all()
    if structure == "attention":
        assert (encoded["caption_nodes"] != 0).any(-1).sum(1).tolist() == [
            max(1, n) for n in ((batch["tokens"] > 3).sum(1)).tolist()
        ]


def test_pools_against_the_formula():
    torch.manual_seed(0)
    pools, nodes = NodePools(4, 3).double(), torch.randn(2, 5, 4, dtype=torch.float64)
    mask = torch.tensor([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    found = pools(nodes, mask)
    for b in range(2):
        kept = nodes[b][mask[b]]
        for i in range(3):
            alpha = torch.softmax(kept @ pools.weight[i], 0)
            torch.testing.assert_close(found[b, i], alpha @ kept)
    torch.testing.assert_close(pools(nodes, None), pools(nodes, torch.ones_like(mask)))
    assert not pools(nodes, torch.zeros_like(mask)).any()


def test_an_image_without_regions_is_aligned_with_nothing():
    family = _family(structure="pool")
    batch = _batch(family, np.arange(4))
    batch["map"][1] = 0
    encoded = family(batch)
    assert not encoded["images"][1].any()
    assert not encoded["image_pools"][1].any()
    assert encoded["image_pools"][[0, 2, 3]].norm(dim=-1).allclose(torch.ones(3, 3, dtype=torch.float64))


def test_more_regions_than_places_are_refused():
    family = _family(regions=5)
    with pytest.raises(InputError, match=r"model\.regions=5: the features have 6"):
        family(_batch(family))


def test_absent_regions_change_nothing():
    family = _family(structure="attention").eval()
    batch = _batch(family, np.arange(4))
    batch["map"][1, 4:] = 0
    padded = batch | {"map": torch.cat([batch["map"], torch.zeros(4, 2, 5, dtype=torch.float64)], dim=1)}
    torch.testing.assert_close(family.encode_images(padded), family.encode_images(batch))
    assert not family(padded)["image_nodes"][:, 6:].any()
