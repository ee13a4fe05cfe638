"""Queries of unified text-to-image retrieval: components of captions and the images that they are relevant for.

UniVSE (Wu et al., CVPR 2019), section 4.3 and supplement B.3.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vse.evaluation.average_precision import average_precision
from vse.evaluation.retrieval import Encoded, ScoresParts, num_items, slice_items, spans
from vse.models.family import Batch
from vse.text.components import EMPTY, Attribute, Components, Object, Relation

Words = tuple[str, ...]
"""The words of a component: (noun,), (adjective, noun) or (subject, word, object)."""

KINDS: Mapping[str, Callable[[Components], Iterable[Words]]] = {
    "obj": lambda components: ((each.word,) for each in components.objects),
    "attr": lambda components: ((each.word, each.noun) for each in components.attributes),
    "rel": lambda components: ((each.subject, each.word, each.object) for each in components.relations),
}
"""Columns of Table 3 that captions decide, and the components of a caption that they ask for."""

SCORES_AT_ONCE = 2**20


@runtime_checkable
class EncodesComponents(Protocol):
    """A family with an encoder of single components, such as φ of UniVSE."""

    def encode_components(self, batch: Batch) -> dict[str, Tensor]: ...


@dataclass(frozen=True, slots=True)
class Query:
    """A text that looks for images.

    Args:
        text: Its words.
        components: It as one component, for a family with an encoder of components; empty if it is none.
        relevant: Positions of the relevant images, ascending.
    """

    text: str
    components: Components
    relevant: np.ndarray


def as_component(words: Words) -> Components:
    """Components that hold one noun, pair or triple and nothing else."""
    if len(words) == 1:
        return replace(EMPTY, objects=(Object(words[0], 0),))
    if len(words) == 2:
        return replace(EMPTY, attributes=(Attribute(words[0], words[1], 0, 1),))
    subject, word, other = words
    return replace(EMPTY, relations=(Relation(subject, word, other, 0, (1,), 2),))


def frequent(captions: Iterable[Components], kind: str, least: int) -> dict[Words, int]:
    """Frequent components of captions with the number of captions that have each, most frequent first.

    Args:
        captions: The components of each caption.
        kind: A key of `KINDS`.
        least: Captions in which a component must occur; repetitions in one caption count once.
    """
    counts = Counter(words for components in captions for words in set(KINDS[kind](components)))
    kept = ((words, count) for words, count in counts.items() if count >= least)
    return dict(sorted(kept, key=lambda item: (-item[1], item[0])))


def valid_queries(
    candidates: Iterable[Words], captions: Sequence[Components], image: np.ndarray, kind: str, least: int
) -> list[Query]:
    """The valid ones of some components as queries: an image is relevant if one of its captions has the component.

    Args:
        candidates: Components of the kind, such as the frequent ones of training.
        captions: Components of the captions of the images that are searched.
        image: The image of each caption.
        kind: A key of `KINDS`.
        least: Images that must be relevant for a query to be valid (B.3).

    Returns:
        Queries in the order of the candidates.
    """
    images: dict[Words, set[int]] = {}
    for components, row in zip(captions, image.tolist(), strict=True):
        for words in KINDS[kind](components):
            images.setdefault(words, set()).add(row)
    return [
        Query(" ".join(words), as_component(words), np.array(sorted(rows)))
        for words in candidates
        if len(rows := images.get(words, ())) >= least
    ]


def label_queries(labels: Sequence[Iterable[str]], least: int) -> list[Query]:
    """Labels of boxes as queries, `obj(det)` of Table 3; `labels`: those of each image.

    φ reads a label of one word. A label of several words, such as "traffic light", is read as a short sentence.
    """
    images: dict[str, list[int]] = {}
    for row, each in enumerate(labels):
        for label in set(each):
            images.setdefault(label, []).append(row)
    return [
        Query(label, EMPTY if " " in label else as_component((label,)), np.array(rows))
        for label, rows in sorted(images.items())
        if len(rows) >= least
    ]


@torch.inference_mode()
def average_precisions(
    model: ScoresParts, images: Encoded, queries: Encoded, relevant: Sequence[np.ndarray]
) -> Float[Tensor, " queries"]:
    """Average precision of each query over all of its relevant images.

    Args:
        model: Scores the codes. Scores are held one block of queries at a time.
        images: Codes of the images.
        queries: Codes of the queries.
        relevant: For each query, positions of its relevant images.

    Raises:
        Diverged: A score is NaN.
    """
    num_images, values = num_items(images), list[Tensor]()
    for rows in spans(len(relevant), max(1, SCORES_AT_ONCE // num_images)):
        scores = query_scores(model, images, slice_items(queries, rows))
        values.append(average_precision(scores, relevance(relevant[rows], num_images).to(scores.device)).cpu())
    return torch.cat(values) if values else torch.zeros(0, dtype=torch.float64)


def query_scores(model: ScoresParts, images: Encoded, queries: Encoded) -> Float[Tensor, "queries images"]:
    """The scores of some queries with all images.

    Args:
        model: Scores the codes.
        images: Codes of the images.
        queries: Codes of the queries, made as those of captions.
    """
    return model.combine(model.score_parts(images, queries)).float().T


def relevance(relevant: Sequence[np.ndarray], num_images: int) -> Tensor:
    """(queries, images), bool."""
    mask = torch.zeros(len(relevant), num_images, dtype=torch.bool)
    for row, positions in enumerate(relevant):
        mask[row, torch.from_numpy(positions)] = True
    return mask
