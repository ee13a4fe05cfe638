"""Normalisations, the alignment of captions with adversaries, and pixels through a linear backbone in closed form."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from tests.synthetic import make_family, synthetic
from vse.evaluation.jacobians import occurrence_texts
from vse.evaluation.relevance_maps import Rectangle
from vse.evaluation.saliency import (
    Saliency,
    SaliencyReader,
    changed_words,
    mass_inside,
    normalized_to_maximum,
    normalized_to_sum,
)
from vse.evaluation.saliency_pictures import SaliencyBlock, SaliencyRow, draw_saliency, heat_map
from vse.features.backbone import Network, Normalisation
from vse.features.forward import Forward
from vse.features.transforms import Transform
from vse.text.components import Components, Object
from vse.text.vocabulary import SPECIAL, Vocabulary

DATA = synthetic(seed=5, images=3)
SIZE = DATA.context.vocabulary_size - len(SPECIAL)
VOCABULARY = Vocabulary(tuple(f"w{chr(97 + k)}" for k in range(SIZE)), (1,) * SIZE)
CAPTIONS = ["wa wb wc", "wd wa we wd"]
SIDE = 6
STD = (0.25, 0.5, 0.2)


@pytest.mark.parametrize("shape", [(7,), (3, 5)])
def test_normalisations_do_not_depend_on_the_scale(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).random(shape)
    largest = normalized_to_maximum(values)
    assert largest.max() == 1
    np.testing.assert_allclose(largest * values.max(), values)
    np.testing.assert_allclose(normalized_to_maximum(1e-30 * values), largest)
    assert not normalized_to_maximum(np.zeros(shape)).any()
    flat = values.ravel()
    shares = normalized_to_sum(flat)
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(shares, flat / flat.sum())
    np.testing.assert_allclose(normalized_to_sum(1e-310 * flat), shares, rtol=1e-6)  # subnormal numbers
    assert not normalized_to_sum(np.zeros(4)).any()
    assert normalized_to_sum(np.zeros(0)).shape == (0,)


def test_mass_inside_against_a_loop() -> None:
    rng = np.random.default_rng(1)
    values, covered = rng.random((4, 5)), rng.random((4, 5))
    inside = sum(values[i, j] * covered[i, j] for i in range(4) for j in range(5))
    assert mass_inside(values, covered) == pytest.approx(inside / values.sum())
    assert mass_inside(3 * values, covered) == pytest.approx(mass_inside(values, covered))
    assert mass_inside(values, np.ones((4, 5))) == pytest.approx(1)
    assert mass_inside(np.zeros((4, 5)), covered) == 0


@pytest.mark.parametrize(
    ("caption", "adversary", "before", "after"),
    [
        ("a dog on a mat", "a cat on a mat", [1], [1]),
        ("a dog on a cat", "a cat on a dog", [1, 4], [1, 4]),
        ("a dog on a mat", "two dogs on a mat", [0, 1], [0, 1]),
        ("a dog near a mat", "a dog in front of a mat", [2], [2, 3, 4]),
        ("a dog next to a mat", "a dog under a mat", [2, 3], [2]),
        ("dogs run", "three dogs run", [], [0]),
        ("a red ball", "a ball", [1], []),
        ("a mat", "a mat", [], []),
    ],
)
def test_words_that_differ(caption: str, adversary: str, before: list[int], after: list[int]) -> None:
    assert changed_words(caption.split(), adversary.split()) == (before, after)


class Linear(torch.nn.Module):
    """A pooled feature that is a linear function of all pixels."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"pooled": torch.einsum("nchw,kchw->nk", x, self.weight.float())}


def picture(width: int, height: int) -> PIL.Image.Image:
    pixels = np.random.default_rng(width * height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return PIL.Image.fromarray(pixels)


def reader_of(weight: torch.Tensor, transform: Transform, **changes: Any) -> tuple[Any, Forward]:
    """A VSE++ without normalised images (scores are linear in the feature), and a backbone as extraction loads it."""
    family = make_family("vsepp", DATA.context, double=False, normalize_images=False, **changes).eval()
    network = Network(Linear(weight), Normalisation((0.5, 0.4, 0.3), STD)).prepare(torch.device("cpu"))
    forward = Forward.__new__(Forward)  # without a backbone's configuration
    forward.network, forward.device = network, torch.device("cpu")
    return family, forward


@pytest.mark.parametrize(("name", "size"), [("crop", (9, 14)), ("crop", (13, 7)), ("scale", (9, 14))])
def test_pixels_through_a_linear_backbone(name: str, size: tuple[int, int]) -> None:
    channels = DATA.context.feature_dims["pooled"]
    weight = torch.randn(channels, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    transform = Transform(name=name, size=SIDE, resize=7)
    family, forward = reader_of(weight, transform)
    texts = occurrence_texts(CAPTIONS, VOCABULARY, None)
    answers = SaliencyReader(family, {}).of_picture(picture(*size), texts, forward, transform, [1])
    assert answers[0].image is None
    assert answers[0].shares is not None
    assert answers[0].shares.sum() == pytest.approx(1)
    # s = c · (P ((f - m) / d) + b) with f = W (x / 255 - mean) / std
    tokens = texts.plain.tokens.pad(np.arange(2))[0]
    batch = {"tokens": torch.from_numpy(tokens), "lengths": torch.tensor([5, 6])}
    with torch.no_grad():
        code = family.encode_captions(batch)["captions"][1]
        of_feature = code @ family.image.project.weight / family.image.scale.std
        gradient = torch.einsum("k,kchw->hwc", of_feature, weight) / torch.tensor(STD) / 255
    expected = gradient.norm(dim=-1).numpy()
    image, seen = answers[1].image, answers[1].seen
    assert image is not None
    assert seen is not None
    if name == "crop":
        short, long = sorted(size)
        assert sorted(image.shape) == [7, 7 * long // short]
        assert seen.sum() == SIDE * SIDE
        image = image[seen].reshape(SIDE, SIDE)
    assert image.max() == 1
    np.testing.assert_allclose(image, expected / expected.max(), rtol=1e-4)


def test_a_score_that_ignores_the_image_has_no_saliency() -> None:
    weight = torch.ones(DATA.context.feature_dims["pooled"], 3, SIDE, SIDE)
    transform = Transform(name="scale", size=SIDE, resize=SIDE)
    family, forward = reader_of(weight, transform)
    with torch.no_grad():
        family.image.project.weight.zero_()
    texts = occurrence_texts(CAPTIONS, VOCABULARY, None)
    (first, _) = SaliencyReader(family, {}).of_picture(picture(8, 8), texts, forward, transform, [0])
    assert first.image is not None
    assert not first.image.any()
    assert mass_inside(first.image, np.ones(first.image.shape)) == 0
    assert draw_saliency([SaliencyBlock(picture(8, 8), "image", [SaliencyRow("caption", [first])])], ["run"])


@pytest.mark.parametrize("name", ["crop", "scale", "ten_crop"])
@pytest.mark.parametrize("size", [(9, 14), (13, 7), (8, 8)])
def test_spreading_is_the_transpose_of_cutting(name: str, size: tuple[int, int]) -> None:
    transform = Transform(name=name, size=SIDE, resize=8)
    squares = transform(picture(*size)).astype(np.float64)
    weights = np.random.default_rng(3).normal(size=squares.shape)
    ratio = max(size) / min(size)
    shape = {"scale": (SIDE, SIDE)}.get(name, (8, int(8 * ratio)) if size[0] >= size[1] else (int(8 * ratio), 8))
    resized = np.asarray(picture(*size).resize((shape[1], shape[0]), PIL.Image.Resampling.BILINEAR), dtype=np.float64)
    spread = transform.spread(weights, *size)
    assert spread.shape == (*shape, 3)
    assert (spread * resized).sum() == pytest.approx((weights * squares).sum())


@pytest.mark.parametrize("name", ["vsepp", "univse"])
def test_features_of_a_map_and_of_a_vector(name: str) -> None:
    family = make_family(name, DATA.context, double=False).eval()
    texts = occurrence_texts(CAPTIONS, VOCABULARY, None)
    if family.inputs.components:
        texts = occurrence_texts(CAPTIONS, VOCABULARY, NoComponents())
    features = DATA.examples.features[family.inputs.image][0].astype(np.float16)
    answers = SaliencyReader(family, {}).of_features(features, texts, [0, 1])
    assert [answer.level for answer in answers] == ["features"] * 2
    if name == "vsepp":
        assert answers[0].image is None
    else:
        assert answers[0].image is not None
        assert answers[0].image.shape == (1, 6)  # six regions are no square
        assert answers[0].image.max() == 1


def test_words_that_the_vocabulary_lacks_are_marked() -> None:
    texts = occurrence_texts(["wa dogs wb dogs", "wa wb"], VOCABULARY, None)
    family = make_family("vsepp", DATA.context, double=False).eval()
    features = DATA.examples.features[family.inputs.image][0].astype(np.float16)
    answers = SaliencyReader(family, {}).of_features(features, texts, [])
    assert [answer.unknown for answer in answers] == [{1, 3}, set()]
    block = SaliencyBlock(None, "image 1", [SaliencyRow("caption", answers[:1])])
    known = SaliencyBlock(None, "image 1", [SaliencyRow("caption", [replace(answers[0], unknown=frozenset())])])
    assert draw_saliency([block], ["run"]) != draw_saliency([known], ["run"])


def test_a_word_with_a_known_lemma_is_not_unknown() -> None:
    texts = occurrence_texts(["wa dogs"], Vocabulary(("wa", "dog"), (1, 1)), Lemma())
    assert texts.unknown(0) == set()


class Lemma:
    def components(self, text: str) -> Components:
        return Components((Object("dog", 1),), (), ())


class NoComponents:
    def components(self, text: str) -> Any:
        from vse.text.components import EMPTY

        return EMPTY


@pytest.mark.seconds
def test_a_figure_has_a_block_for_each_picture() -> None:
    image = np.random.default_rng(0).random((20, 30))
    with_words = Saliency(0.5, ("a", "red", "ball"), np.array([0.2, 0.3, 0.5]), image, image > 0)
    without = Saliency(0.5, ("a", "very", "long", "caption") * 20, None, image[:4, :4], None, "features")
    rows = [SaliencyRow("caption", [with_words, without]), SaliencyRow("noun attack", [without, with_words], [1])]
    box = Rectangle(0.1, 0.1, 0.6, 0.9)
    one = SaliencyBlock(picture(30, 20), "image 1", rows, [box])
    small = draw_saliency([one], ["first", "second"])
    large = draw_saliency([one, SaliencyBlock(None, "image 2", rows)], ["first", "second"], "a note " * 40)
    sizes = [PIL.Image.open(io.BytesIO(each)).size for each in (small, large)]
    assert sizes[0][0] == sizes[1][0]
    assert sizes[1][1] > 1.5 * sizes[0][1]
    many = SaliencyBlock(picture(20, 30), "image 3", [SaliencyRow(f"caption {k}", [with_words] * 2) for k in range(12)])
    few = SaliencyBlock(picture(20, 30), "image 3", many.rows[:2])
    heights = [PIL.Image.open(io.BytesIO(draw_saliency([each], ["first", "second"]))).height for each in (few, many)]
    assert heights[1] > 3000
    assert heights[1] == pytest.approx(6 * heights[0], rel=0.15)
    lowest = np.asarray(PIL.Image.open(io.BytesIO(draw_saliency([many], ["a", "b"]))).convert("L"))[-200:]
    assert 0.3 < (lowest > 250).mean() < 1  # white with the last row, not black
    white = heat_map(np.eye(4), None, (40, 40), "features")
    assert white.size == (40, 40)


@pytest.mark.seconds
@pytest.mark.parametrize("size", [(20, 900), (900, 20), (1, 900), (1, 1)])
def test_figures_of_elongated_pictures_have_a_bounded_size(size: tuple[int, int]) -> None:
    result = Saliency(0.5, ("a", "dog"), np.array([0.4, 0.6]), np.eye(8), np.ones((8, 8), dtype=bool))
    thin = Rectangle(0.5, 0.5, 0.501, 0.501)
    drawn = draw_saliency(
        [SaliencyBlock(picture(*size), "image 1", [SaliencyRow("caption", [result])], [thin])], ["run"]
    )
    assert PIL.Image.open(io.BytesIO(drawn)).height < 700
