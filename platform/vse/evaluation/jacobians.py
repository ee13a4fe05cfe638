"""Jacobians of a score with respect to an image and to each occurrence of a word in a caption.

VSE-C (Shi et al., COLING 2018), section 4.2, eq. 4: ∇ s(i, c') by automatic differentiation through the family and, for
pixels, through its frozen backbone.

A family looks words up by vocabulary id, so words that a caption repeats share one vector. Here every occurrence gets a
vocabulary id of its own (`OccurrenceTexts`), and the family's word tables a copy of the word's row for it
(`own_rows`). Scores are the same, and the gradient to a copy is the one to that occurrence.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call

from vse.data.ragged import Ragged
from vse.models.encoders import WordTable
from vse.models.family import Batch, Family
from vse.text.components import EMPTY, Components
from vse.text.tokens import words
from vse.text.vocabulary import END, START, UNKNOWN, Vocabulary
from vse.training.batches import text_batch
from vse.training.examples import ComponentSource, SentenceSource, Texts, encode_texts

Occurrence = tuple[str, Sequence[int]]
"""A component's word and the tokens of its caption that say it."""

TOLERANCE = 1e-4  # by which scores may differ with a row for every occurrence, relative to the largest


@dataclass(frozen=True, eq=False)
class OccurrenceTexts:
    """Captions as ids, with an id for every occurrence of a word.

    Args:
        texts: The captions, in which the id of row r is the size of the vocabulary plus r.
        plain: The same captions with ordinary ids.
        tokens: Words of each caption.
        size: Of the vocabulary.
        word: Vocabulary id of each row.
        caption: Caption of each row.
        token: Position of each row's word in its caption. A component whose lemma is not the word that the caption
            has at that position ("dogs": dog) has a row of its own there.
    """

    texts: Texts
    plain: Texts
    tokens: tuple[tuple[str, ...], ...]
    size: int
    word: Int[np.ndarray, " rows"]
    caption: Int[np.ndarray, " rows"]
    token: Int[np.ndarray, " rows"]

    def unknown(self, caption: int) -> frozenset[int]:
        """Positions of a caption's words that the vocabulary lacks, as they are and as lemmas; they share a vector."""
        own, known = self.caption == caption, self.word != UNKNOWN
        return frozenset(self.token[own & ~known].tolist()) - frozenset(self.token[own & known].tolist())


class _Rows:
    """Rows of the words of one caption, added to those of the captions before it."""

    def __init__(self, vocabulary: Vocabulary, first: int, caption: int, text: str) -> None:
        self.vocabulary, self.first, self.caption = vocabulary, first, caption
        self.ids = vocabulary.encode(words(text))
        self.word, self.token = list(self.ids), list(range(len(self.ids)))
        self._lemmas: dict[tuple[int, int], int] = {}

    def named(self, word: str, tokens: Sequence[int]) -> int:
        """The own id of a component's word at one of its tokens; UNKNOWN for a word that the vocabulary lacks."""
        (id_,) = self.vocabulary.encode([word])
        if id_ == UNKNOWN:
            return UNKNOWN
        for token in tokens:
            if token < len(self.ids) and self.ids[token] == id_:
                return self.first + token
        key = id_, tokens[0]
        if key not in self._lemmas:
            self._lemmas[key] = self.first + len(self.word)
            self.word.append(id_)
            self.token.append(tokens[0])
        return self._lemmas[key]


def occurrence_texts(
    captions: Sequence[str],
    vocabulary: Vocabulary,
    parses: ComponentSource | None,
    sentences: SentenceSource | None = None,
) -> OccurrenceTexts:
    """Captions with an id for every occurrence of a word.

    Args:
        captions: The captions.
        vocabulary: Vocabulary of the run; ids of occurrences follow its own.
        parses: Components of captions, for a family that reads them. Of a component that a caption names several times,
            the first occurrence counts, since it counts once in the score. None for a family without components.
        sentences: Vectors of whole sentences, for a family that reads them.
    """
    plain = encode_texts(captions, vocabulary, parses, sentences)
    size, rows = len(vocabulary), list[_Rows]()
    columns: dict[str, list[list]] = {"tokens": [], "objects": [], "attributes": [], "relations": []}
    total = size
    for number, text in enumerate(captions):
        row = _Rows(vocabulary, total, number, text)
        parts = parses.components(text) if parses else EMPTY
        columns["tokens"].append([START, *(range(total, total + len(row.ids)) if row.ids else [UNKNOWN]), END])
        for name, items in _components(parts).items():
            ids = [tuple(row.named(*each) for each in item) for item in items]
            kept = [each for each in ids if UNKNOWN not in each]
            columns[name].append([each[0] for each in kept] if name == "objects" else kept)
        rows.append(row)
        total += len(row.word)
    texts = Texts(
        Ragged.of(columns["tokens"]),
        Ragged.of(columns["objects"]),
        Ragged.of(columns["attributes"], 2),
        Ragged.of(columns["relations"], 3),
        plain.sentence,
    )
    return OccurrenceTexts(
        texts,
        plain,
        tuple(words(text) for text in captions),
        size,
        np.array([word for row in rows for word in row.word], dtype=np.int64),
        np.repeat(np.arange(len(rows)), [len(row.word) for row in rows]),
        np.array([token for row in rows for token in row.token], dtype=np.int64),
    )


def _components(parts: Components) -> dict[str, list[tuple[Occurrence, ...]]]:
    """The words of each component with their tokens; of equal components the first."""
    objects, attributes, relations = dict[Any, Any](), dict[Any, Any](), dict[Any, Any]()
    for o in parts.objects:
        objects.setdefault(o.word, ((o.word, (o.token,)),))
    for a in parts.attributes:
        attributes.setdefault((a.word, a.noun), ((a.word, (a.token,)), (a.noun, (a.noun_token,))))
    for r in parts.relations:
        subject, other = (r.subject, (r.subject_token,)), (r.object, (r.object_token,))
        relations.setdefault((r.subject, r.word, r.object), (subject, (r.word, r.tokens), other))
    named = {"objects": objects, "attributes": attributes, "relations": relations}
    return {name: list(items.values()) for name, items in named.items()}


@dataclass(frozen=True, eq=False)
class Jacobians:
    """Scores of one image with captions, and their derivatives.

    Args:
        scores: (captions,).
        image: By caption, the gradient of its score with respect to the image, if it was asked for.
        words: For each caption, the Euclidean norm of the gradient of its score with respect to the vector of each of
            its words; None for a family that reads no words.
    """

    scores: Float[np.ndarray, " captions"]
    image: Mapping[int, Float[Tensor, "*image"]]
    words: tuple[Float[np.ndarray, " _"], ...] | None


def jacobians(
    family: Family,
    image: Float[Tensor, "*image"],
    texts: OccurrenceTexts,
    *,
    features: Callable[[Tensor], Tensor] = lambda image: image[None],
    of_image: Sequence[int] = (),
    settings: Mapping[str, float] | None = None,
) -> Jacobians:
    """Differentiate the scores of one image with captions.

    Args:
        family: In eval mode.
        image: What the image's gradient is asked of, such as its features or pixels.
        texts: The captions.
        features: Gives the features (1, ...) of `image`.
        of_image: Numbers of the captions whose gradient with respect to the image is computed.
        settings: Inference parameters of the family that are not as configured.

    Returns:
        Scores and gradients, in the precision of the family.

    Raises:
        ValueError: The family's score depends on the ids of words and not only on their vectors.
    """
    assert not family.training, "derivatives are those of the score, in eval mode"
    device, score = next(family.parameters()).device, _Score(family, dict(settings or {}))

    def batch(each: Texts) -> Batch:
        rows = text_batch(each, np.arange(len(each)), family.inputs.components)
        return {key: value.to(device) for key, value in rows.items()}

    with torch.enable_grad():
        leaf = image.detach().clone().requires_grad_()
        read, leaves, state = features(leaf).to(device), list[Tensor](), dict[str, Tensor]()
        reads_words = not family.inputs.sentence or family.inputs.states
        captions, states = batch(texts.texts if reads_words else texts.plain), None
        if family.inputs.states:
            states = captions["states"].requires_grad_()
        if reads_words:
            state, leaves = own_rows(family, torch.from_numpy(texts.word).to(device), texts.size)
        with _without_cudnn():
            scores = functional_call(score, state, (read, captions))
            if reads_words:
                _check_equal(scores, score(read.detach(), batch(texts.plain)), family)
        leaves += [] if states is None else [states]
        of_words = list[Tensor | None]()
        if leaves:
            of_words += torch.autograd.grad(scores.sum(), leaves, retain_graph=True, allow_unused=True)
        gradients = {
            number: torch.autograd.grad(scores[number], leaf, retain_graph=True, materialize_grads=True)[0]
            for number in of_image
        }
    norms = None
    if reads_words:
        squares = np.zeros(len(texts.word))
        of_states = None if states is None else of_words.pop()
        for each in of_words:
            if each is not None:  # a table that no caption of these is read from
                squares += each.double().square().sum(1).cpu().numpy()
        norms = _by_token(texts, squares, of_states)
    return Jacobians(scores.detach().double().cpu().numpy(), gradients, norms)


@contextmanager
def _without_cudnn() -> Generator[None]:
    """cuDNN differentiates recurrent layers in training mode only; torch's own kernels do it in eval mode too."""
    cudnn: Any = torch.backends.cudnn
    enabled, cudnn.enabled = cudnn.enabled, False
    try:
        yield
    finally:
        cudnn.enabled = enabled


class _Score(nn.Module):
    """The scores of one image, given by its features, with captions."""

    def __init__(self, family: Family, settings: dict[str, float]) -> None:
        super().__init__()
        self.family, self.settings = family, settings

    def forward(self, features: Tensor, captions: Batch) -> Float[Tensor, " captions"]:
        family = self.family
        images = family.encode_images({family.inputs.image: features})
        return family.combine(family.score_parts(images, family.encode_captions(captions)), **self.settings)[0]


def own_rows(family: Family, word: Int[Tensor, " rows"], size: int) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The state of a family whose word tables have further rows, copies of the rows of some words.

    Args:
        family: Whose tables are extended.
        word: Vocabulary id of each further row.
        size: Of the vocabulary.

    Returns:
        Tensors by their names in a module that holds the family as `family`, for `torch.func.functional_call`; and the
        further rows of each table, which require a gradient.
    """
    state, leaves, inside = dict[str, Tensor](), list[Tensor](), set[nn.Module]()
    for name, module in family.named_modules(prefix="family"):
        if isinstance(module, WordTable):
            inside.add(module.embedding)
            rows, weight = module(word).detach().requires_grad_(), module.embedding.weight.detach()
            state[f"{name}.embedding.weight"] = torch.cat([weight, rows])
            if module.learned is not None:  # a row of the table, not of the separate learned rows
                state[f"{name}.place"] = torch.cat([module.place, torch.full_like(word, -1)])
            leaves.append(rows)
        elif isinstance(module, nn.Embedding) and module not in inside and module.num_embeddings == size:
            rows = module(word).detach().requires_grad_()
            state[f"{name}.weight"] = torch.cat([module.weight.detach(), rows])
            leaves.append(rows)
    for name in family.vocabulary_buffers:
        buffer = family.get_buffer(name)
        state[f"family.{name}"] = torch.cat([buffer, buffer[word]])
    return state, leaves


def _check_equal(scores: Tensor, plain: Tensor, family: Family) -> None:
    difference = (scores - plain).abs().max()
    if not difference <= TOLERANCE * plain.abs().max().clamp_min(1):
        raise ValueError(
            f"{type(family).__name__}: scores differ by {difference.item():.2g} if every occurrence of a word has an "
            "id of its own"
        )


def _by_token(
    texts: OccurrenceTexts, squares: Float[np.ndarray, " rows"], states: Float[Tensor, "captions time dim"] | None
) -> tuple[np.ndarray, ...]:
    """For each caption the norms of its tokens, over all rows of a token and its state, if there is one."""
    lengths = np.array([len(each) for each in texts.tokens], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    sums = np.zeros(int(lengths.sum()))
    np.add.at(sums, starts[texts.caption] + texts.token, squares)
    if states is not None:  # <start> comes before the first word
        of_words = states.double().square().sum(-1)[:, 1:].cpu().numpy()
        sums += np.concatenate([row[:length] for row, length in zip(of_words, lengths, strict=True)])
    return tuple(np.split(np.sqrt(sums), starts[1:])) if len(lengths) else ()
