"""Content of a gallery: the best candidates of some queries, and the content of wrong ones that no right one has."""

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse.evaluation.metrics import Ranks, refuse_nan
from vse.evaluation.retrieval import Blocks, Encoded, ScoresParts, num_items, slice_items, spans
from vse.text.components import Components

KINDS = ("object", "attribute", "relation")


@torch.inference_mode()
def best_candidates(
    blocks: Iterable[tuple[np.ndarray, Float[Tensor, "queries _"]]], number: int
) -> tuple[Float[Tensor, "queries best"], Int[Tensor, "queries best"]]:
    """(scores, positions) of the best candidates of every query; equal scores in the order of positions.

    Args:
        blocks: (positions, scores) of some candidates each.
        number: How many are kept.

    Raises:
        Diverged: A score is NaN.
    """
    scores = positions = None
    for rows, block in blocks:
        refuse_nan(block)
        places = torch.as_tensor(rows, device=block.device).expand(len(block), -1)
        scores, positions = (
            (block, places)
            if scores is None or positions is None
            else (torch.cat((scores, block), 1), torch.cat((positions, places), 1))
        )
        by_place = positions.argsort(dim=1)
        scores, positions = scores.gather(1, by_place), positions.gather(1, by_place)
        order = scores.argsort(dim=1, descending=True, stable=True)[:, :number]
        scores, positions = scores.gather(1, order), positions.gather(1, order)
    assert scores is not None, "no candidates"
    assert positions is not None, "no candidates"
    return scores, positions


def image_blocks(
    model: ScoresParts, images: Encoded, captions: Encoded
) -> Iterator[tuple[np.ndarray, Float[Tensor, "captions block"]]]:
    """All images as candidates of some captions, block by block.

    Args:
        model: Scores the codes.
        images: Codes of all images.
        captions: Codes of the captions that are the queries.

    Returns:
        (positions of the images, scores) of each block.
    """
    for rows in spans(num_items(images), Blocks().images):
        parts = model.score_parts(slice_items(images, rows), captions)
        yield np.arange(rows.start, rows.stop), model.combine(parts).float().T


def caption_blocks(
    model: ScoresParts, images: Encoded, candidates: Iterable[tuple[np.ndarray, Encoded]]
) -> Iterator[tuple[np.ndarray, Float[Tensor, "images block"]]]:
    """Captions as candidates of some images, block by block.

    Args:
        model: Scores the codes.
        images: Codes of the images that are the queries.
        candidates: (positions, codes) of captions or adversaries, a block each.

    Returns:
        (positions of the captions, scores) of each block.
    """
    for rows, captions in candidates:
        yield rows, model.combine(model.score_parts(images, captions)).float()


def worst_queries(ranks: Ranks, number: int) -> list[tuple[int, float]]:
    """(query, expected rank) of the queries with the worst ranks above 1, worst first, then in the order of queries."""
    expected = ranks.expected()
    order = expected.argsort(descending=True, stable=True)[:number].tolist()
    return [(int(ranks.queries[k]), float(expected[k])) for k in order if expected[k] > 1]


def unmatched(text: Components, others: Iterable[Components]) -> dict[str, tuple[str, ...]]:
    """Components of a text that no other text has, by kind. The smallest difference counts: an attribute only if its
    noun is among the others' objects, a relation only if both of its arguments are.

    Args:
        text: Components of the text.
        others: Components of the texts that it is compared with.
    """
    others = list(others)
    objects = {each.word for one in others for each in one.objects}
    pairs = {(each.word, each.noun) for one in others for each in one.attributes}
    pairs |= {(each.word, each.noun) for one in others for each in one.modifiers}
    triples = {(each.subject, each.word, each.object) for one in others for each in one.relations}
    objects |= {word for one in others for word in one.nouns}
    differing = (
        [each.word for each in text.objects if each.word not in objects],
        [
            f"{each.word} {each.noun}"
            for each in text.attributes
            if each.noun in objects and (each.word, each.noun) not in pairs
        ],
        [
            f"{each.subject} {each.word} {each.object}"
            for each in text.relations
            if {each.subject, each.object} <= objects and (each.subject, each.word, each.object) not in triples
        ],
    )
    return {kind: tuple(dict.fromkeys(each)) for kind, each in zip(KINDS, differing, strict=True) if each}
