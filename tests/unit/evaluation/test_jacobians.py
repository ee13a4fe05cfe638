"""Jacobians against finite differences in double precision: words one occurrence at a time, and image features."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tests.levels import slow_but
from tests.synthetic import make_family, synthetic
from vse import registry
from vse.evaluation.jacobians import jacobians, occurrence_texts
from vse.models.encoders import WordTable
from vse.models.relational import Relational
from vse.text.components import Attribute, Components, Object, Relation
from vse.text.vocabulary import SPECIAL, Vocabulary
from vse.training.batches import text_batch
from vse.training.examples import encode_texts

DATA = synthetic(seed=5, images=3)
SIZE = DATA.context.vocabulary_size - len(SPECIAL)
VOCABULARY = Vocabulary(tuple(f"w{chr(97 + k)}" for k in range(SIZE)), (1,) * SIZE)
SPARE = VOCABULARY.words[-1]
CAPTIONS = ("wa wb wc", "wd wa we wd wf wb", "wg", "wh elsewhere wi wh")
STEP = 1e-5
FAMILIES = [name for name in registry.names("family") if not make_family(name, DATA.context).inputs.sentence]
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "univse": [{"aggregation": how} for how in ("max", "attention")] + [{"learn_alpha": True}],
    "vsepp": [{"image": "map"}, {"normalize_images": False}],
    "jwae": [{"text": "gru"}],
    "scan": [{"direction": "i2t"}, {"direction": "both"}],
    "relational": [{"structure": "pool"}],
}
CASES = [(name, {}) for name in FAMILIES] + [(name, each) for name, all_ in VARIANTS.items() for each in all_]
CASES += [(name, {"vectors": True, "fixed_words": True}) for name in FAMILIES]


class Stated:
    """Of a caption, its first word as a noun, modified by its second, and related to its last by the one before."""

    def components(self, text: str) -> Components:
        parts = text.split()
        objects = tuple(Object(word, token) for token, word in enumerate(parts) if token % 2 == 0)
        if len(parts) < 3:
            return Components(objects, (), ())
        last = len(parts) - 1
        attribute = Attribute(parts[1], parts[0], 1, 0)
        relation = Relation(parts[0], parts[last - 1], parts[last], 0, (last - 1,), last)
        return Components(objects, (attribute,), (relation,))


def made(name: str, changes: dict[str, Any]) -> Any:
    return make_family(name, DATA.context, seed=3, **changes).eval()


def image_of(family: Any) -> torch.Tensor:
    return torch.from_numpy(DATA.examples.features[family.inputs.image][0])


@torch.no_grad()
def score(family: Any, text: str, image: torch.Tensor | None = None) -> float:
    features = image_of(family) if image is None else image
    images = family.encode_images({family.inputs.image: features[None]})
    texts = encode_texts([text], VOCABULARY, Stated())
    captions = family.encode_captions(text_batch(texts, np.arange(1), family.inputs.components))
    return float(family.scores(images, captions)[0, 0])


def rows_of(family: Any, word: int) -> Iterator[torch.Tensor]:
    """The parameters that hold the vectors of a word, as views."""
    inside = set()
    for module in family.modules():
        if isinstance(module, WordTable):
            inside.add(module.embedding)
            if module.learned is not None and module.place[word] >= 0:
                yield module.learned.data[module.place[word]]
            else:
                yield module.embedding.weight.data[word]
        elif isinstance(module, torch.nn.Embedding) and module not in inside:
            yield module.weight.data[word]


def of_word(family: Any, text: str, token: int) -> float:
    """The norm of the central differences with respect to one occurrence, which another word stands in for."""
    changed = copy.deepcopy(family)
    parts = text.split()
    source, spare = (VOCABULARY.encode([each])[0] for each in (parts[token], SPARE))
    if text.split().count(parts[token]) == 1:
        spare = source
    else:
        parts[token] = SPARE
        for row, original in zip(rows_of(changed, spare), rows_of(family, source), strict=True):
            row.copy_(original)
        if isinstance(changed, Relational):
            changed.known[spare] = changed.known[source]
    total = 0.0
    for row in rows_of(changed, spare):
        for k in range(len(row)):
            ends = []
            for step in (STEP, -STEP):
                row[k] += step
                ends.append(score(changed, " ".join(parts)))
                row[k] -= step
            total += ((ends[0] - ends[1]) / (2 * STEP)) ** 2
    return total**0.5


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("name", "changes"),
    slow_but(
        CASES,
        *((family, {}) for family in ("vsepp", "univse", "scan", "jwae", "relational")),
        ("univse", {"aggregation": "attention"}),
        ("vsepp", {"vectors": True, "fixed_words": True}),
    ),
)
def test_words_by_finite_differences(name: str, changes: dict[str, Any]) -> None:
    family = made(name, changes)
    if family.inputs.sentence:
        pytest.skip("reads no words")
    result = jacobians(family, image_of(family), occurrence_texts(CAPTIONS, VOCABULARY, Stated()))
    assert result.words is not None
    np.testing.assert_allclose(result.scores, [score(family, text) for text in CAPTIONS], atol=1e-12)
    assert [len(each) for each in result.words] == [3, 6, 1, 4]
    for text, norms in zip(CAPTIONS, result.words, strict=True):
        repeats = len(set(text.split())) < len(text.split())
        if repeats and changes.get("fixed_words"):
            continue  # the other word may have a given vector, and this one none
        expected = [of_word(family, text, token) for token in range(len(norms))]
        np.testing.assert_allclose(norms, expected, rtol=1e-5, atol=1e-8)
    assert max(each.max() for each in result.words) > 1e-4


@pytest.mark.parametrize(("name", "changes"), [(name, {}) for name in registry.names("family")] + CASES)
def test_features_by_finite_differences(name: str, changes: dict[str, Any]) -> None:
    family = made(name, changes)
    if family.inputs.sentence:
        texts = occurrence_texts(CAPTIONS, VOCABULARY, None, DatasSentences())
    else:
        texts = occurrence_texts(CAPTIONS, VOCABULARY, Stated())
    image = image_of(family)
    result = jacobians(family, image, texts, of_image=[1, 3])
    assert set(result.image) == {1, 3}
    plain = text_batch(texts.plain, np.arange(len(CAPTIONS)), family.inputs.components)
    direction = torch.randn(image.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    ends = []
    for step in (STEP, -STEP):
        with torch.no_grad():
            images = family.encode_images({family.inputs.image: (image + step * direction)[None]})
            ends.append(family.scores(images, family.encode_captions(plain))[0])
    expected = ((ends[0] - ends[1]) / (2 * STEP)).numpy()
    for number, gradient in result.image.items():
        assert float((gradient * direction).sum()) == pytest.approx(expected[number], rel=1e-5, abs=1e-8)
    assert (result.words is None) == family.inputs.sentence


class DatasSentences:
    """Untrained vectors of captions."""

    def vectors(self, texts: Any) -> Any:
        return DATA.examples.texts.sentence


def test_a_component_s_lemma_has_a_row_of_its_own() -> None:
    class Plural:
        def components(self, text: str) -> Components:
            return Components((Object("wj", 1), Object("wj", 2), Object("unheard", 0)), (), ())

    texts = occurrence_texts(["wa dogs wj"], VOCABULARY, Plural())
    first = len(VOCABULARY.ids) + len(SPECIAL)
    assert texts.texts.tokens.row(0).tolist() == [1, first, first + 1, first + 2, 2]
    assert texts.texts.objects.row(0).tolist() == [first + 3]
    assert texts.word.tolist() == VOCABULARY.encode(["wa", "dogs", "wj", "wj"])
    assert texts.token.tolist() == [0, 1, 2, 1]
    family = made("univse", {})
    result = jacobians(family, image_of(family), texts)
    assert result.words is not None
    assert result.words[0].shape == (3,)


def test_a_score_that_depends_on_ids_is_refused() -> None:
    family = made("univse", {"aggregation": "gru", "alpha": 0.0})
    captions = ["wa wb wc wd we wf wg wh wi", *CAPTIONS]
    with pytest.raises(ValueError, match=r"UniVSE: scores differ by .* if every occurrence of a word has an id"):
        jacobians(family, image_of(family), occurrence_texts(captions, VOCABULARY, Stated()))


def test_zero_features_under_a_root_have_no_gradient() -> None:
    family = made("vsepp", {})
    family.image.scale.how = "root"
    image = image_of(family).clone()
    image[1] = 0
    result = jacobians(family, image, occurrence_texts(CAPTIONS, VOCABULARY, None), of_image=[0])
    assert result.image[0][1] == 0
    step = torch.zeros_like(image)
    step[0] = STEP
    ends = [score(family, CAPTIONS[0], image + sign * step) for sign in (1, -1)]
    assert float(result.image[0][0]) == pytest.approx((ends[0] - ends[1]) / (2 * STEP), rel=1e-5)


def test_captions_without_words_have_no_shares() -> None:
    family = made("vsepp", {})
    result = jacobians(family, image_of(family), occurrence_texts(["", "wb wc"], VOCABULARY, None), of_image=[0])
    assert result.words is not None
    assert [len(each) for each in result.words] == [0, 2]
    assert torch.isfinite(result.image[0]).all()
