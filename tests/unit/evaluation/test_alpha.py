"""All alphas at once against embeddings mixed one alpha at a time, and the rule that chooses."""

import itertools

import numpy as np
import pytest
import torch

from tests.levels import slow_but
from tests.unit.evaluation.contexts import evaluate_attacks, evaluate_retrieval
from tests.unit.evaluation.models import Cosine, Mixed, unit
from vse.errors import InputError
from vse.evaluation import alpha as alpha_module
from vse.evaluation.alpha import AlphaRule, choose_alpha, evaluate_alphas
from vse.evaluation.attacks import AttackSet
from vse.evaluation.retrieval import Blocks

ALPHAS = tuple(k / 20 for k in range(21))


def planted(noise, num_images=40, seed=0, width=16):
    """Ragged captions with two vectors each, and adversaries of both."""
    generator = torch.Generator().manual_seed(seed)

    def near(x):
        return unit(x + noise * torch.randn(x.shape, generator=generator))

    caption_to_image = torch.randint(0, num_images, (3 * num_images,), generator=generator)
    images = unit(torch.randn(num_images, width, generator=generator))
    images[7:10] = images[6]  # ties at every alpha
    captions = {"sent": near(images[caption_to_image]), "comp": near(images[caption_to_image])}
    captions["comp"][3] = captions["sent"][3]  # no components
    caption = torch.randint(0, len(caption_to_image), (150,), generator=generator)
    adversaries = {name: near(captions[name][caption]) for name in captions}
    return {"v": images}, captions, caption_to_image.numpy(), AttackSet(encoded=adversaries, caption=caption.numpy())


def mixed(texts, alpha, renormalise):
    """u_cap by its definition."""
    both = alpha * texts["sent"] + (1 - alpha) * texts["comp"]
    return {"u": unit(both) if renormalise else both}


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("dense_above", "noise", "renormalise"),
    slow_but(
        itertools.product((-1.0, 0.12, 2.0), (0.15, 0.5), (True, False)),
        *((-1.0, 0.15, True), (0.12, 0.5, False), (2.0, 0.5, True)),
    ),
)
def test_every_alpha_equals_mixing_the_embeddings(renormalise, noise, dense_above, monkeypatch):
    monkeypatch.setattr(alpha_module, "DENSE_ABOVE", dense_above)
    images, captions, caption_to_image, attacked = planted(noise)
    points = evaluate_alphas(
        Mixed(renormalise),
        images,
        captions,
        caption_to_image,
        {"object": attacked},
        ALPHAS,
        blocks=Blocks(images=11, captions=50),
    )
    for point, alpha in zip(points, ALPHAS, strict=True):
        texts = mixed(captions, alpha, renormalise)
        false = AttackSet(encoded=mixed(attacked.encoded, alpha, renormalise), caption=attacked.caption)
        direct = evaluate_retrieval(Cosine(), images, texts, caption_to_image).metrics
        direct |= evaluate_attacks(Cosine(), images, texts, caption_to_image, {"object": false}).metrics
        assert {f"test/{name}": value for name, value in point.metrics().items()} == pytest.approx(direct)


def test_no_adversaries_and_bad_alphas():
    images, captions, caption_to_image, attacked = planted(0.3)
    none = AttackSet(encoded={k: v[:0] for k, v in attacked.encoded.items()}, caption=attacked.caption[:0])
    (point,) = evaluate_alphas(Mixed(), images, captions, caption_to_image, {"object": none}, [0.75])
    assert point.attacks["object"].metrics()["r1"] == point.retrieval.i2t.metrics()["r1"]
    with pytest.raises(InputError, match="between 0 and 1"):
        evaluate_alphas(Mixed(), images, captions, caption_to_image, {}, [1.2])
    with pytest.raises(InputError, match="at least one"):
        evaluate_alphas(Mixed(), images, captions, caption_to_image, {}, [])


def curve(rows):
    """alpha -> metrics from (alpha, rsum, sum over the three attacks)."""
    return {
        a: {"val/rsum": plain, **{f"val/attack_{k}/rsum3": robust / 3 for k in ("object", "attribute", "relation")}}
        for a, plain, robust in rows
    }


def test_rule_takes_the_most_robust_close_alpha():
    rows = [(0.5, 98.9, 400.0), (0.7, 99.2, 350.0), (0.8, 99.5, 350.0), (1.0, 100.0, 300.0)]
    assert choose_alpha([curve(rows)]) == 0.8  # 0.5 is too far from the best rsum; the tie goes to the larger
    assert choose_alpha([curve(rows)], AlphaRule(within=2.0)) == 0.5
    assert choose_alpha([curve(rows)], AlphaRule(within=0.1)) == 1.0


def test_rule_averages_over_seeds_first():
    first = curve([(0.5, 100.0, 300.0), (1.0, 100.0, 330.0)])
    second = curve([(0.5, 100.0, 300.0), (1.0, 100.0, 250.0)])
    assert choose_alpha([first]) == 1.0
    assert choose_alpha([first, second]) == 0.5


def test_rule_with_a_standard_error():
    seeds = [curve([(0.5, 95.0 + d, 400.0), (1.0, 97.0 + d, 300.0)]) for d in (-4.0, 0.0, 4.0)]
    error = np.std([93.0, 97.0, 101.0], ddof=1) / np.sqrt(3)
    assert error > 2
    assert choose_alpha(seeds, AlphaRule(standard_error=True)) == 0.5
    assert choose_alpha(seeds[:1], AlphaRule(standard_error=True)) == 1.0
    with pytest.raises(InputError, match="same alphas"):
        choose_alpha([seeds[0], curve([(0.5, 1.0, 1.0)])])


def test_rule_leaves_out_attacks_without_adversaries():
    rows = curve([(0.5, 100.0, 300.0), (1.0, 100.0, 330.0)])
    rows[0.5]["val/attack_object/rsum3"] = 300.0  # outweighs the others at 0.5
    assert choose_alpha([rows]) == 0.5
    fewer = {a: {name: v for name, v in point.items() if "object" not in name} for a, point in rows.items()}
    assert choose_alpha([fewer]) == 1.0
    assert choose_alpha([rows, fewer]) == 1.0  # what one seed lacks is summed for none
    none = {a: {"val/rsum": point["val/rsum"]} for a, point in rows.items()}
    with pytest.raises(InputError, match="split val has no adversaries of any attack"):
        choose_alpha([none])
