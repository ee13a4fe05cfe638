"""UniVSE's codes and scores; its losses have their oracle in tests/parity."""

import itertools

import numpy as np
import pytest
import torch

from tests.synthetic import gradients, make_family, make_objective, synthetic
from vse.errors import InputError
from vse.models.encoders import unit
from vse.models.family import Context
from vse.models.univse import TYPES
from vse.objectives.matching import MATCHES
from vse.training.step import step_losses

DATA = synthetic(seed=5, images=10)
ROWS = np.arange(len(DATA))
BARE = ~np.any([getattr(DATA.examples.texts, f"{kind}s").lengths > 0 for kind in TYPES], axis=0)
KINDS = ("avg", "sum", "max", "gru", "attention")


def _encoded(family, rows=ROWS):
    return family(DATA.collator(family, make_objective("univse"))(rows, 2))


@pytest.mark.parametrize("aggregation", KINDS)
def test_unit_norms_and_bags_without_components(aggregation):
    assert 0 < BARE.sum() < len(DATA)
    encoded = _encoded(make_family("univse", DATA.context, aggregation=aggregation))
    for key in ("images", "sentences", "bags", "words", "pairs", "triples"):
        norms = encoded[key].norm(dim=-1)
        torch.testing.assert_close(norms, torch.ones_like(norms))
    torch.testing.assert_close(encoded["region_norms"], encoded["regions"].norm(dim=-1))
    assert torch.equal(encoded["bags"][BARE], encoded["sentences"][BARE])
    assert encoded["bag_mask"].tolist() == (~BARE).tolist()
    assert not torch.isclose(encoded["bags"][~BARE], encoded["sentences"][~BARE]).all(-1).any()


def test_sum_equals_avg_once_normalised():
    mean, total = (_encoded(make_family("univse", DATA.context, aggregation=how)) for how in ("avg", "sum"))
    torch.testing.assert_close(mean["bags"], total["bags"], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("aggregation", KINDS)
def test_neither_company_nor_order_of_components_matters(aggregation):
    family = make_family("univse", DATA.context, aggregation=aggregation)
    batch = DATA.collator(family, make_objective("univse"))(ROWS, 2)
    bags = family.encode_captions(batch)["bags"]
    for rows in (np.array([4]), ROWS[::-1].copy()):
        torch.testing.assert_close(_encoded(family, rows)["bags"], bags[rows], rtol=1e-10, atol=1e-12)
    for kind in TYPES:
        batch[f"{kind}s"] = batch[f"{kind}s"].flip(1)  # padding first
    torch.testing.assert_close(family.encode_captions(batch)["bags"], bags, rtol=1e-10, atol=1e-12)


def test_one_component_is_encoded_by_its_encoder():
    family = make_family("univse", DATA.context, aggregation="gru", components=("object",))
    batch = dict(DATA.collator(family, make_objective("univse"))(ROWS, 2))
    encoded = family(batch)
    for kind, table in (("object", "words"), ("attribute", "pairs"), ("relation", "triples")):
        mask = encoded[f"{kind}_mask"][:, :1]
        expected = torch.where(mask, encoded[table][encoded[f"{kind}_index"][:, 0]], encoded["sentences"])
        other = {f"{each}s": torch.zeros_like(batch[f"{each}s"]) for each in TYPES if each != kind}
        texts = {key: batch[key] for key in ("tokens", "lengths", f"{kind}s")} | other
        codes = family.encode_components(texts)
        assert 0 < mask.sum() < len(mask)
        torch.testing.assert_close(codes["sentences"], expected, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(codes["bags"], expected, rtol=1e-10, atol=1e-12)


def test_the_generalised_pooling_pools_regions_and_learns():
    family, objective = make_family("univse", DATA.context, pooling="gpo"), make_objective("univse")
    batch = DATA.collator(family, objective)(ROWS, 2)
    encoded = family(batch)
    ranked = encoded["regions"].sort(dim=1, descending=True).values
    theta = family.image.gpo.weights(torch.tensor([ranked.shape[1]]), ranked.shape[1])[0]
    torch.testing.assert_close(encoded["images"], unit((theta[:, None] * ranked).sum(1)))
    step_losses(family, objective, batch, 2)[0].backward()
    found = gradients(family)
    pooled = [name for name in found if name.startswith("image.gpo.")]
    assert pooled
    assert all(found[name].any() and found[name].isfinite().all() for name in pooled)
    names = make_family("univse", DATA.context).state_dict().keys()
    assert family.state_dict().keys() - names == set(pooled)


@pytest.mark.parametrize("chosen", [c for n in (1, 2, 3) for c in itertools.combinations(TYPES, n)])
def test_bags_of_some_types(chosen):
    family = make_family("univse", DATA.context, components=chosen)
    encoded = _encoded(family)
    tables = {"object": "words", "attribute": "pairs", "relation": "triples"}
    for b in ROWS:
        items = [
            encoded[tables[kind]][i]
            for kind in chosen
            for i, there in zip(encoded[f"{kind}_index"][b], encoded[f"{kind}_mask"][b], strict=True)
            if there
        ]
        mean = torch.stack(items).mean(0) if items else encoded["sentences"][b]
        torch.testing.assert_close(encoded["bags"][b], mean / mean.norm(), rtol=1e-10, atol=1e-12)
        assert bool(encoded["bag_mask"][b]) == bool(items)


def test_no_type_at_all_is_refused():
    with pytest.raises(InputError, match="components"):
        make_family("univse", DATA.context, components=())


@pytest.mark.parametrize("renormalize", [True, False])
def test_combine_equals_mixing_codes_at_every_alpha(renormalize):
    family = make_family("univse", DATA.context, renormalize=renormalize, alpha=0.6)
    encoded = _encoded(family)
    parts = family.score_parts(encoded, encoded)
    for alpha in np.linspace(0, 1, 21).tolist():
        mixed = alpha * encoded["sentences"] + (1 - alpha) * encoded["bags"]
        if renormalize:
            mixed = mixed / mixed.norm(dim=1, keepdim=True)
        torch.testing.assert_close(
            family.combine(parts, alpha=alpha), encoded["images"] @ mixed.T, rtol=1e-11, atol=1e-12
        )
        torch.testing.assert_close(family.mix(encoded["sentences"], encoded["bags"], alpha), mixed)
    torch.testing.assert_close(family.scores(encoded, encoded), family.combine(parts, alpha=0.6))
    blocks = [family.combine(family.score_parts({"images": encoded["images"][k : k + 3]}, encoded)) for k in (0, 3)]
    torch.testing.assert_close(torch.cat(blocks), family.scores(encoded, encoded)[:6])


def test_opposite_sentence_and_bag_give_a_finite_score():
    family = make_family("univse", DATA.context)
    code = torch.nn.functional.normalize(torch.randn(2, 7, dtype=torch.float64), dim=1)
    parts = family.score_parts({"images": code}, {"sentences": code, "bags": -code})
    assert family.combine(parts, alpha=0.5).isfinite().all()


@pytest.mark.parametrize("match", MATCHES)
def test_learned_alpha_alone_learns_from_its_loss(match):
    family = make_family("univse", DATA.context, learn_alpha=True, alpha=0.75, match=match)
    with torch.no_grad():
        family.alpha_logit.fill_(np.log(3.0))
    assert float(family.alpha.detach()) == pytest.approx(0.75)
    objective = make_objective("univse", match=match)
    batch = DATA.collator(family, objective)(ROWS, 2)
    total, losses = step_losses(family, objective, batch, 2, frozenset({"cap"}))
    assert set(losses) == {"cap"}
    assert float(losses["cap"]) > 0
    total.backward()
    for name, gradient in gradients(family).items():
        assert bool(gradient.any()) == (name == "alpha_logit"), name
    # By finite differences, too.
    gradient, values = float(family.alpha_logit.grad), []
    for shift in (1e-6, -1e-6):
        with torch.no_grad():
            family.alpha_logit.fill_(np.log(3.0) + shift)
        values.append(float(step_losses(family, objective, batch, 2, frozenset({"cap"}))[1]["cap"]))
    assert (values[0] - values[1]) / 2e-6 == pytest.approx(gradient, rel=1e-4)
    encoded = {k: v.detach() for k, v in family(batch).items()}
    torch.testing.assert_close(
        family.scores(encoded, encoded),
        family.combine(family.score_parts(encoded, encoded), alpha=0.75),
        rtol=1e-5,
        atol=1e-6,
    )
    fixed = make_family("univse", DATA.context, match=match)
    assert "cap" not in step_losses(fixed, objective, batch, 2)[1]


def test_given_word_vectors_stay_fixed():
    vectors = torch.randn(DATA.context.vocabulary_size, 6, dtype=torch.float64)
    family = make_family("univse", Context(DATA.context.vocabulary_size, DATA.context.feature_dims, vectors))
    objective = make_objective("univse")
    step_losses(family, objective, DATA.collator(family, objective)(ROWS, 2), 2)[0].backward()
    assert family.phi.basic.embedding.weight.grad is None
    assert all(gradient.any() for gradient in gradients(family).values())


def test_markers_are_no_words_of_a_sentence():
    """ψ reads sentences as it reads triples: what stands in the place of <start> and <end> has no influence."""
    family = make_family("univse", DATA.context)
    batch = DATA.collator(family, make_objective("univse"))(ROWS, 2)
    sentences = family.encode_captions(batch)["sentences"]
    batch["tokens"][:, 0] = 9
    batch["tokens"][torch.arange(len(DATA)), batch["lengths"] - 1] = 8
    torch.testing.assert_close(family.encode_captions(batch)["sentences"], sentences, rtol=1e-11, atol=1e-12)


def test_a_triple_is_encoded_like_a_sentence_of_three_words():
    family = make_family("univse", DATA.context)
    texts = DATA.examples.texts
    caption = int(np.flatnonzero(texts.relations.lengths)[0])
    triple = texts.relations.row(caption)[0]
    batch = DATA.collator(family, make_objective("univse"))(np.array([caption]), 2)
    encoded = family(batch)
    batch["tokens"], batch["lengths"] = torch.tensor([[1, *triple.tolist(), 2]]), torch.tensor([5])
    sentence = family.encode_captions(batch)["sentences"]
    torch.testing.assert_close(encoded["triples"][encoded["relation_index"][0, 0]], sentence[0], rtol=1e-11, atol=1e-12)


def test_what_the_host_prepares_changes_no_bit():
    """Codes, losses and gradients with the component index made ahead and with it made in the step."""
    data = synthetic(seed=4)
    family, objective = make_family("univse", data.context), make_objective("univse")
    batch = data.collator(family, objective)(np.arange(len(data)), 2)
    prepared = family.prepared(batch)
    assert prepared.keys() > batch.keys()
    found = []
    for each in (batch, prepared):
        family.zero_grad()
        total, losses = step_losses(family, objective, each, 2)
        total.backward()
        found.append({**losses, **gradients(family)})
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())
    codes, ahead = family.encode_captions(batch), family.encode_captions(prepared)
    assert codes.keys() == ahead.keys()
    for name, code in codes.items():  # the tables of the second hold the negatives too
        torch.testing.assert_close(ahead[name], code, rtol=1e-12, atol=1e-13)
