"""Negatives of a phrase from its own photograph: which, how drawn, and their losses against loops."""

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse.config import override
from vse.data.ragged import Ragged
from vse.data.regions import sides_of, split_uri
from vse.data.sources.phrase_regions import PhraseRegions
from vse.data.sources.scenes import Scenes
from vse.errors import InputError
from vse.presets import preset
from vse.training.config import check_objective
from vse.training.own_negatives import OwnNegatives, regions_apart
from vse.training.step import step_losses

DATA = synthetic(seed=5, images=8)
APART = Ragged.of(
    [[row for row in range(8) if (row + caption) % 4 == 1][: caption % 3] for caption in range(len(DATA))]
)
NUMBER = 3  # more than any caption has
OBJECTIVES = {"similarity_network": "logistic", "cite": "cite"}


def _overlap(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


@pytest.mark.parametrize("below", [0.3, 0.7])
def test_which_regions_are_apart_by_enumeration(below):
    scenes = Scenes.Config(num_train=3, num_val=1, num_test=1, num_shifted=0)
    records = PhraseRegions(PhraseRegions.Config(of=scenes, number=30)).describe()
    split, found = records.split("train"), regions_apart(records, "train", below)
    assert len(found) == len(split.captions)
    for caption, row in zip(split.captions, range(len(found)), strict=True):
        photograph, phrase = caption.id.partition("#")[0], caption.id.split(".")[0]
        boxes = [b for b in records.boxes[photograph] if b.caption == phrase]
        assert {b.label for b in boxes} == {caption.text}
        box = [
            f(getattr(b, s) for b in boxes) for f, s in ((min, "left"), (min, "top"), (max, "right"), (max, "bottom"))
        ]
        expected = [
            k
            for k, image in enumerate(split.images)
            if split_uri(image.id)[0] == photograph and (s := sides_of(image.id)) and _overlap(box, s) < below
        ]
        assert found.row(row).tolist() == expected
        assert expected
    assert len(set(found.lengths.tolist())) > 3


def test_draws_belong_to_caption_and_epoch():
    apart = Ragged.of([[], [3], [4, 5, 6, 7, 8], list(range(20, 60))])
    draw = OwnNegatives(apart, 4, seed=2)
    rows = np.arange(4)
    drawn = draw({}, rows, rows, 0)["negatives"].numpy()
    assert drawn.shape == (4, 4)
    assert drawn[:2].tolist() == [[-1] * 4, [3, -1, -1, -1]]
    for caption in (2, 3):
        assert len(set(drawn[caption])) == 4
        assert set(drawn[caption]) <= set(apart.row(caption).tolist())
    shares = [draw({}, part, part, 0)["negatives"].numpy() for part in (rows[:3], rows[3:])]
    np.testing.assert_array_equal(np.concatenate(shares), drawn)  # of two workers
    assert not np.array_equal(draw({}, rows, rows, 1)["negatives"], drawn)
    assert not np.array_equal(OwnNegatives(apart, 4, seed=3)({}, rows, rows, 0)["negatives"], drawn)
    counts = np.bincount(np.concatenate([draw({}, rows[2:3], rows, e)["negatives"].numpy()[0] for e in range(500)]))
    np.testing.assert_allclose(counts[4:9] / 500, 0.8, atol=0.08)


def _batch(family, objective, rows):
    collate = DATA.collator(family, objective)
    collate.extras = (*collate.extras, OwnNegatives(APART, NUMBER, 1))
    return collate(rows, 1)


def _pairs(family, batch):
    """(score of the own image, scores of the negatives) of each caption, pair by pair."""
    table = torch.from_numpy(DATA.examples.features[family.inputs.image])
    for k in range(len(batch["sample"])):
        caption = family.encode_captions({name: value[k : k + 1] for name, value in batch.items()})
        images = [batch["image_group"][k], *(row for row in batch["negatives"][k] if row >= 0)]
        codes = [family.encode_images({family.inputs.image: table[row][None]}) for row in images]
        own, *others = [family.scores(code, caption)[0, 0] for code in codes]
        yield own, others


def _check(family, objective, expected, batch):
    total, losses = step_losses(family, objective, batch, 0)
    gradients = [torch.autograd.grad(x, list(family.parameters()), allow_unused=True) for x in (total, expected)]
    torch.testing.assert_close(total, expected)
    for name, found, by_hand in zip(dict(family.named_parameters()), *gradients, strict=True):
        if found is not None or by_hand is not None:
            torch.testing.assert_close(found, by_hand, msg=name)
    assert sum(float(g.abs().sum()) > 0 for g in gradients[1] if g is not None) > 4
    return losses


def _of_batch(family, batch):
    """(i, j, score of image i and caption j) of all pairs of a batch that are negatives."""
    scores = family.scores(family.encode_images(batch), family.encode_captions(batch))
    images, texts = batch["image_group"].tolist(), batch["text_group"].tolist()
    numbers = range(len(images))
    return [(i, j, scores[i, j]) for i in numbers for j in numbers if images[i] != images[j] and texts[i] != texts[j]]


@pytest.mark.parametrize("also", [True, False])
@pytest.mark.parametrize("name", ["similarity_network", "cite"])
def test_logistic_loss_of_lists_against_a_loop(name, also):
    objective = make_objective(name, OBJECTIVES[name], batch_negatives=also)
    family = make_family(name, DATA.context, objective=OBJECTIVES[name])
    batch = _batch(family, objective, np.arange(9))
    bias = family.get_parameter("logistic_bias")
    positive, negative = 0.0, list[torch.Tensor]()
    for own, others in _pairs(family, batch):
        positive = positive + torch.log1p(torch.exp(-own - bias))
        negative += [torch.log1p(torch.exp(s + bias)) for s in others]
    assert 3 < len(negative) < 9 * NUMBER
    expected = positive + 9 * torch.stack(negative).mean()
    if also:
        others = torch.stack([torch.log1p(torch.exp(s + bias)) for _, _, s in _of_batch(family, batch)])
        expected = expected + 9 * others.mean()
    if name == "cite":
        expected = expected + objective.config.l1 * family.encode_captions(batch)["concepts"].abs().sum()
    _check(family, objective, expected, batch)


@pytest.mark.parametrize(("most", "also"), [(1, False), (2, True), (10, False), (100, True)])
def test_hinge_of_lists_against_a_loop(most, also):
    objective = make_objective("embedding_network", margin=0.9, most=most, batch_negatives=also)
    family = make_family("embedding_network", DATA.context, siblings=False)
    batch = _batch(family, objective, np.arange(9))
    pairs, of_batch = list(_pairs(family, batch)), _of_batch(family, batch) if also else []
    expected = torch.zeros((), dtype=torch.float64)
    for k, (own, listed) in enumerate(pairs):
        of_image, of_caption = ([s for *ij, s in of_batch if ij[side] == k] for side in (0, 1))
        for others in (listed, of_image, of_caption):
            terms = [0.9 + (2 - 2 * own).sqrt() - (2 - 2 * s).sqrt() for s in others]
            kept = sorted((t for t in terms if t > 0), key=lambda term: float(term.detach()), reverse=True)
            expected = expected + sum(kept[:most])
    _check(family, objective, expected, batch)


def test_jwae_cite_takes_the_list_for_its_logistic_loss():
    objective = make_objective("jwae_cite", "jwae_cite", batch_negatives=False)
    family = make_family("jwae_cite", DATA.context)
    batch = _batch(family, objective, np.arange(8))
    losses = step_losses(family, objective, batch, 0)[1]
    bias = family.get_parameter("logistic_bias")
    pairs = list(_pairs(family, batch))
    negatives = torch.stack([torch.log1p(torch.exp(s + bias)) for _, others in pairs for s in others])
    expected = sum(torch.log1p(torch.exp(-own - bias)) for own, _ in pairs) + 8 * negatives.mean()
    torch.testing.assert_close(losses["logistic"], expected.detach())


def test_captions_without_a_known_image_have_no_negatives():
    objective = make_objective("similarity_network", "logistic", batch_negatives=False)
    family = make_family("similarity_network", DATA.context, objective="logistic")
    batch = _batch(family, objective, np.arange(9))
    known = torch.arange(9) % 2 == 0
    few = {name: value[known] for name, value in batch.items()}
    alone = step_losses(family, objective, few, 0)[0]
    torch.testing.assert_close(step_losses(family, objective, batch | {"paired": known}, 0)[0], alone)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "jwae_mse_localisation_small",
            {},
            "data.own_negatives=5: objective=jwae takes no negatives of each caption "
            "(cite, embedding_network, jwae_cite, logistic do); use data.own_negatives=0",
        ),
        (
            "cite_localisation_small",
            {"train.finetune": True},
            "data.own_negatives=5: goes with frozen features; use train.finetune=false",
        ),
    ],
)
def test_refused_in_one_line(name, changes, message):
    with pytest.raises(InputError) as caught:
        check_objective(override(preset(name), {"data.own_negatives": 5, **changes}))
    assert str(caught.value) == message
