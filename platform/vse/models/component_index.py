"""Distinct words, pairs and triples that UniVSE encodes of a batch, and the positions where each is used."""

from collections.abc import Mapping

import torch
from jaxtyping import Int
from torch import Tensor

from vse.models.encoders import distinct
from vse.models.family import Batch
from vse.models.gru import within

WORDS = (
    "objects",
    "attributes",
    "relations",
    "object_negatives",
    "attribute_word_negatives",
    "attribute_noun_negatives",
    "relation_negatives",
    "sampled_relation",
)


def component_index(batch: Batch) -> dict[str, Tensor]:
    """Tables of distinct words, pairs and triples, and indices into them for the batch and its negatives.

    Args:
        batch: with tokens, components and, in training, negatives.

    Returns:
        By name: `word_ids` (words,), vocabulary ids, with the indices `sentence_index`, `object_index`,
        `object_negative_index`; `pair_noun` and `pair_modifier` (pairs,), rows of `word_ids`, with the indices
        `attribute_index`, `attribute_word_index`, `attribute_noun_index`; `triple_words` (triples, 3), rows of
        `word_ids`, with the indices `relation_index`, `relation_negative_index`, `sampled_index`.
    """
    names = [n for n in WORDS if n in batch]
    # Without the markers: row b's words are tokens[b, 1 : lengths[b] - 1].
    sentences, lengths = batch["tokens"][:, 1:-1], batch["lengths"] - 2
    inside = within(lengths, sentences.shape[1])
    words, (sentences, *rest) = distinct(sentences * inside, *(batch[n] for n in names))
    local = dict(zip(names, rest, strict=True))
    index = {"word_ids": words, "sentence_index": sentences, "object_index": local["objects"]}
    if "object_negatives" in local:
        index["object_negative_index"] = local["object_negatives"]
    return index | _pairs(local, len(words)) | _triples(local, len(words))


def _pairs(local: Mapping[str, Tensor], num: int) -> dict[str, Tensor]:
    adjectives, nouns = local["attributes"].unbind(-1)
    keys = {"attribute_index": adjectives * num + nouns}
    if "attribute_word_negatives" in local:
        keys["attribute_word_index"] = local["attribute_word_negatives"] * num + nouns[..., None]
        keys["attribute_noun_index"] = adjectives[..., None] * num + local["attribute_noun_negatives"]
    pairs, index = distinct(*keys.values())
    return {"pair_noun": pairs % num, "pair_modifier": pairs // num, **dict(zip(keys, index, strict=True))}


def _triples(local: Mapping[str, Tensor], num: int) -> dict[str, Tensor]:
    keys = {"relation_index": _triple_key(local["relations"], num)}
    if "relation_negatives" in local:
        keys["relation_negative_index"] = _triple_key(local["relation_negatives"], num)
        keys["sampled_index"] = _triple_key(local["sampled_relation"], num)
    triples, index = distinct(*keys.values())
    words = torch.stack([triples // num**2, triples // num % num, triples % num], dim=1)
    return {"triple_words": words, **dict(zip(keys, index, strict=True))}


def _triple_key(triples: Int[Tensor, "*batch 3"], num: int) -> Int[Tensor, "*batch"]:
    subject, word, object_ = triples.unbind(-1)
    return (subject * num + word) * num + object_
