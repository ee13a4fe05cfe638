"""UniVSE and its losses against a naive rewriting of the paper: one caption, one component, one negative at a time.

The rewriting follows Wu et al. (2019), §3.2-3.4 with eqs. 1-4 and supplement A.1, and for what they leave open: margin
0.2, cosine throughout, the mean over negatives and over a caption's components, the sum over captions; negatives from
the batch exclude captions of the same image or text and, for relations, triples that the image's captions mention.
"""

from typing import Any

import numpy as np
import pytest
import torch

from tests.synthetic import gradients, make_family, make_objective, synthetic
from vse.training.step import step_losses


def _norm(x):
    return x / x.norm()


class Naive:
    """Encoders of one word, pair, triple, sentence and image, from the parameters of the real model."""

    def __init__(self, model):
        self.model, self.p = model, dict(model.named_parameters())

    def phi(self, noun, modifier):
        p = self.p
        w = torch.cat([p["phi.basic.embedding.weight"][noun], p["phi.modifier.weight"][modifier]])
        weight = torch.cat([p["phi.from_basic.weight"], p["phi.from_modifier.weight"]], dim=1)
        gate, content = (weight @ w + p["phi.from_basic.bias"]).chunk(2)
        return _norm(torch.sigmoid(gate) * torch.tanh(content))

    def psi(self, words):
        p = self.p
        h = torch.zeros(self.model.config.dim, dtype=torch.float64)
        for word in words:
            ir, iz, inew = (p["psi.gru.weight_ih_l0"] @ self.phi(word, word) + p["psi.gru.bias_ih_l0"]).chunk(3)
            hr, hz, hn = (p["psi.gru.weight_hh_l0"] @ h + p["psi.gru.bias_hh_l0"]).chunk(3)
            r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
            h = (1 - z) * torch.tanh(inew + r * hn) + z * h
        return _norm(h)

    def regions(self, features):
        return [self.p["image.project.weight"] @ f + self.p["image.project.bias"] for f in features if f.any()]

    def image(self, features):
        columns = torch.stack(self.regions(features)).T
        k = min(self.model.config.k, columns.shape[1])
        return _norm(torch.stack([torch.stack(sorted(c, key=lambda x: -x.item())[:k]).mean() for c in columns]))

    def bag(self, objects, pairs, triples):
        codes = [self.phi(o, o) for o in objects] + [self.phi(n, a) for a, n in pairs] + [self.psi(t) for t in triples]
        return _norm(torch.stack(codes).mean(0)) if codes else None


def _present(array):
    return [item for item in array.tolist() if (item if isinstance(item, int) else item[0])]


def _eq1(images, captions, excluded, margin, hardest):
    pick = max if hardest else sum
    total = torch.zeros((), dtype=torch.float64)
    for i in range(len(images)):
        others = [j for j in range(len(images)) if j != i and not excluded(i, j)]
        if others:
            s = images[i] @ captions[i]
            total = total + pick((margin + images[i] @ captions[j] - s).clamp_min(0) for j in others)
            total = total + pick((margin + images[j] @ captions[i] - s).clamp_min(0) for j in others)
    return total


def _naive_losses(model, objective, batch, data, epoch, temperature, hardest):
    naive, margin, size = Naive(model), 0.2, len(batch["tokens"])
    rows = [
        {name: _present(value[i]) for name, value in batch.items() if name in ("objects", "attributes", "relations")}
        for i in range(size)
    ]
    v = [naive.image(batch["map"][i]) for i in range(size)]
    regions = [[_norm(r) for r in naive.regions(batch["map"][i])] for i in range(size)]
    sentences = [naive.psi(batch["tokens"][i, 1 : batch["lengths"][i] - 1].tolist()) for i in range(size)]
    image, text = batch["image_group"].tolist(), batch["text_group"].tolist()

    def same(i, j):
        return image[i] == image[j] or text[i] == text[j]

    losses = {"sent": _eq1(v, sentences, same, margin, hardest)}
    bags = [naive.bag(r["objects"], r["attributes"], r["relations"]) for r in rows]
    some = [i for i in range(size) if bags[i] is not None]
    losses["comp"] = _eq1(
        [v[i] for i in some], [bags[i] for i in some], lambda i, j: same(some[i], some[j]), margin, hardest
    )

    def local(i, positive, negatives):
        """Eqs. 2 and 3 for one descriptor, mean over its negatives."""
        if not negatives:
            return torch.zeros((), dtype=torch.float64)
        s = torch.stack([positive @ r for r in regions[i]])
        relevance = (s / temperature).exp() / (s / temperature).exp().sum()
        terms = []
        for negative in negatives:
            hinges = [(margin + negative @ r - x).clamp_min(0) for r, x in zip(regions[i], s, strict=True)]
            terms.append(sum(m * h for m, h in zip(relevance, hinges, strict=True)))
        return sum(terms) / len(terms)

    def over(name, caption_term):
        """The mean over a caption's components, the sum over captions."""
        total = torch.zeros((), dtype=torch.float64)
        for i in range(size):
            terms = [caption_term(i, m) for m in range(len(rows[i][name]))]
            total = total + (sum(terms) / len(terms) if terms else 0)
        return total

    def obj(i, m):
        noun = rows[i]["objects"][m]
        return local(i, naive.phi(noun, noun), [naive.phi(x, x) for x in _present(batch["object_negatives"][i, m])])

    def attr_word(i, m):
        adjective, noun = rows[i]["attributes"][m]
        drawn = _present(batch["attribute_word_negatives"][i, m])
        return local(i, naive.phi(noun, adjective), [naive.phi(noun, x) for x in drawn])

    def attr_noun(i, m):
        adjective, noun = rows[i]["attributes"][m]
        drawn = _present(batch["attribute_noun_negatives"][i, m])
        return local(i, naive.phi(noun, adjective), [naive.phi(x, adjective) for x in drawn])

    def globally(i, m, negatives):
        if not negatives:
            return torch.zeros((), dtype=torch.float64)
        s = v[i] @ naive.psi(rows[i]["relations"][m])
        return sum((margin + v[i] @ naive.psi(n) - s).clamp_min(0) for n in negatives) / len(negatives)

    counts = objective.negatives
    spans = {"word": counts.relation_words, "subject": counts.relation_subjects, "object": counts.relation_objects}

    def relation(kind):
        start = {"word": 0, "subject": spans["word"], "object": spans["word"] + spans["subject"]}[kind]
        return lambda i, m: globally(i, m, _present(batch["relation_negatives"][i, m, start : start + spans[kind]]))

    def rel_batch(i, m):
        mentioned = [
            tuple(t)
            for c in np.flatnonzero(data.examples.image == image[i]).tolist()
            for t in data.examples.texts.relations.row(c).tolist()
        ]
        others = [batch["sampled_relation"][j].tolist() for j in range(size) if not same(i, j)]
        return globally(i, m, [t for t in others if t[0] and tuple(t) not in mentioned])

    losses["obj"] = over("objects", obj)
    losses["attr_word"], losses["attr_noun"] = over("attributes", attr_word), over("attributes", attr_noun)
    if epoch >= 2:
        for kind in spans:
            losses[f"rel_{kind}"] = over("relations", relation(kind))
        losses["rel_batch"] = over("relations", rel_batch)
    return losses


WEIGHTS = {"sent": 1.0, "comp": 0.5, "obj": 0.5, "attr_word": 0.5, "attr_noun": 0.5} | dict.fromkeys(
    ("rel_word", "rel_subject", "rel_object", "rel_batch"), 1.0
)

CASES: dict[str, dict[str, Any]] = {
    "ragged": {},
    "before relations": {"epoch": 1},
    "sum and temperature": {"objective": {"hinge": "sum", "temperature": 0.25}},
    "few words, padded negatives": {"data": {"nouns": 4, "adjectives": 2, "relations": 2}},
    "no component in half of the captions": {"data": {"share_bare": 0.5}},
    "no relation anywhere": {"strip": True},
    "not a component": {"data": {"share_bare": 1.0}},
    "some regions absent": {"hide": True},
}


@pytest.mark.seconds
@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients(case):
    options = CASES[case]
    data = synthetic(seed=2, images=6, most_captions=3, **options.get("data", {}))
    model = make_family("univse", data.context)
    changes = options.get("objective", {})
    objective, epoch = make_objective("univse", **changes), options.get("epoch", 2)
    batch = data.collator(model, objective, seed=5)(np.arange(len(data)), epoch)
    if options.get("strip"):
        for name in ("relations", "relation_negatives", "sampled_relation"):
            batch[name] = torch.zeros_like(batch[name])
    if options.get("hide"):
        there = np.random.default_rng(0).random((data.examples.num_images, batch["map"].shape[1])) < 0.6
        there[:, 4] = True
        batch["map"] = batch["map"] * torch.from_numpy(there[data.examples.image])[..., None]
    total, losses = step_losses(model, objective, batch, epoch)
    total.backward()
    ours = gradients(model)
    model.zero_grad()
    naive = _naive_losses(
        model, objective, batch, data, epoch, changes.get("temperature", 1.0), changes.get("hinge") != "sum"
    )
    torch.stack([WEIGHTS[name] * loss for name, loss in naive.items()]).sum().backward()
    assert set(losses) == set(naive)
    for name, loss in naive.items():
        torch.testing.assert_close(
            losses[name], loss.detach(), rtol=1e-10, atol=1e-11, msg=lambda m, n=name: f"{n}: {m}"
        )
    if case == "ragged":
        assert all(float(loss) > 0 for loss in losses.values())
    for name, gradient in gradients(model).items():
        if name in ("phi.basic.embedding.weight", "phi.modifier.weight"):
            assert not ours[name][0].any(), "the padding word learns nothing"
        torch.testing.assert_close(ours[name], gradient, rtol=1e-8, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}")
