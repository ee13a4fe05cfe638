"""Queries of unified retrieval against loops over captions."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.unit.evaluation.models import Cosine, unit
from vse.evaluation import component_queries
from vse.evaluation.component_queries import (
    KINDS,
    as_component,
    average_precisions,
    frequent,
    label_queries,
    valid_queries,
)
from vse.text.components import EMPTY


def joined(*words):
    """Components of a caption with these nouns, pairs and triples."""
    each = [as_component(one) for one in words]
    return replace(
        EMPTY,
        objects=tuple(o for c in each for o in c.objects),
        attributes=tuple(a for c in each for a in c.attributes),
        relations=tuple(r for c in each for r in c.relations),
    )


CAPTIONS = [
    joined(("cat",), ("red", "cat")),
    joined(("cat",), ("cat",), ("mat",), ("cat", "on", "mat")),
    joined(("mat",), ("red", "cat")),
    joined(("dog",)),
    joined(("cat",), ("cat", "on", "mat")),
]
IMAGE = np.array([0, 0, 1, 2, 3])


def test_a_component_is_frequent_by_the_captions_that_have_it():
    assert frequent(CAPTIONS, "obj", 2) == {("cat",): 3, ("mat",): 2}
    assert list(frequent(CAPTIONS, "obj", 1)) == [("cat",), ("mat",), ("dog",)]
    assert frequent(CAPTIONS, "rel", 2) == {("cat", "on", "mat"): 2}


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_is_relevant_if_a_caption_of_it_has_the_component(kind):
    candidates = [("cat",), ("dog",), ("bird",)] if kind == "obj" else [("red", "cat")]
    candidates = [("cat", "on", "mat")] if kind == "rel" else candidates
    for least in (1, 2):
        expected = []
        for words in candidates:
            rows = sorted({int(i) for c, i in zip(CAPTIONS, IMAGE, strict=True) if words in set(KINDS[kind](c))})
            if len(rows) >= least:
                expected.append((" ".join(words), rows))
        made = valid_queries(candidates, CAPTIONS, IMAGE, kind, least)
        assert [(each.text, each.relevant.tolist()) for each in made] == expected
        assert [list(KINDS[kind](each.components)) for each in made] == [[tuple(t.split())] for t, _ in expected]


def test_labels_of_boxes_are_queries_and_several_words_are_no_component():
    made = label_queries([("dog", "dog", "traffic light"), ("dog",), ("traffic light",), ()], 2)
    assert [(each.text, each.relevant.tolist()) for each in made] == [("dog", [0, 1]), ("traffic light", [0, 2])]
    assert [each.components == EMPTY for each in made] == [False, True]
    assert label_queries([("dog",), ()], 2) == []


@pytest.mark.parametrize("at_once", [1, 17, 2**20])
def test_blocks_of_queries_change_nothing(at_once, monkeypatch):
    monkeypatch.setattr(component_queries, "SCORES_AT_ONCE", at_once)
    generator = torch.Generator().manual_seed(1)
    images, queries = unit(torch.randn(7, 4, generator=generator)), unit(torch.randn(9, 4, generator=generator))
    relevant = [np.flatnonzero(np.random.default_rng(k).random(7) < 0.5) for k in range(9)]
    relevant = [rows if len(rows) else np.array([3]) for rows in relevant]
    values = average_precisions(Cosine(), {"v": images}, {"u": queries}, relevant)
    for query, (rows, value) in enumerate(zip(relevant, values.tolist(), strict=True)):
        ranking = np.argsort(-(images @ queries[query]).numpy())
        places = 1 + np.flatnonzero(np.isin(ranking, rows))
        assert value == pytest.approx(np.mean(np.arange(1, len(rows) + 1) / places))
