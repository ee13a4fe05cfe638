"""The tables of `vse.models.family`: what batches hold and which codes objectives ask for stands there, and is true."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse import registry
from vse.models import family as contract
from vse.training.batches import Truth, Unpaired
from vse.training.step import BOOKKEEPING

DATA = synthetic(seed=13, images=7)
FAMILIES = registry.names("family")


def _rows(head: str) -> list[list[str]]:
    assert contract.__doc__ is not None
    table = contract.__doc__.split(f"| {head} |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]


def _names(cell: str) -> list[str]:
    return re.findall(r"[a-z_0-9]+", cell)


def _specs() -> Iterator[tuple[str, tuple[str, str]]]:
    """Key -> (dimensions, dtype); one of each for several keys holds for all of them."""
    for keys, specs, *_ in _rows("batch key"):
        names, found = _names(keys), re.findall(r"\(([^)]*)\),? ([a-z]+)", specs)
        yield from zip(names, found * len(names) if len(found) == 1 else found, strict=True)


BATCH = dict(_specs())
CODES = {name for codes, *_ in _rows("codes") for name in _names(codes)}


@pytest.mark.parametrize("name", FAMILIES)
def test_batches_hold_what_is_written(name: str) -> None:
    family, objective = make_family(name, DATA.context), make_objective(name)
    collate = DATA.collator(family, objective)
    known = np.arange(len(DATA)) % 3 > 0
    truth = np.ones((DATA.examples.num_images, len(DATA)), dtype=bool)
    collate.extras = (*collate.extras, Unpaired(DATA.examples, known, 0), Truth(truth))
    batch = collate(np.arange(5), 1)
    for key, value in batch.items():
        shape, kind = BATCH[key]
        assert value.ndim == len([part for part in shape.split(",") if part.strip()]), key
        assert len(value) == 5, key
        assert str(value.dtype).removeprefix("torch.").startswith(kind), key
    assert bool(family.inputs.components) == ("objects" in batch)
    assert bool(family.inputs.siblings) == ("sibling" in batch)
    assert {"tokens", "lengths", "draw", *BOOKKEEPING} <= batch.keys()


def test_every_key_that_is_written_is_some_batch_s() -> None:
    seen = {"fc1"}  # read by configuration, in place of `pooled`
    for name in FAMILIES:
        family, objective = make_family(name, DATA.context), make_objective(name)
        seen |= DATA.collator(family, objective)(np.arange(5), 1).keys()
        if family.inputs.sentence:
            seen |= {"sentence"}
    family = make_family("vsec", DATA.context, text="states")
    seen |= DATA.collator(family, make_objective("vsec"))(np.arange(5), 1).keys()
    assert seen | {"paired", "true_images", "negatives", "negative_features"} == BATCH.keys()


@pytest.mark.parametrize("name", FAMILIES)
def test_families_emit_both_codes_but_for_those_named(name: str) -> None:
    without = _names(next(row[2] for row in _rows("codes") if row[0] == "images, captions"))
    family = make_family(name, DATA.context).eval()
    batch = DATA.collator(family, make_objective(name))(np.arange(5), 1)
    codes = {**family.encode_images(batch), **family.encode_captions(batch)}
    assert ({"images", "captions"} <= codes.keys()) == (name not in without)
    for code in codes.values():
        assert len(code) == 5


def test_what_objectives_gather_is_written() -> None:
    for name in registry.names("objective"):
        objective = make_objective(name, name)
        assert objective.gathers - set(BOOKKEEPING) <= CODES or name == "univse", name


@pytest.mark.parametrize("name", FAMILIES)
def test_parts_of_a_score_are_a_matrix_or_a_row(name: str) -> None:
    family = make_family(name, DATA.context).eval()
    collate = DATA.collator(family, make_objective(name))
    batch, few = collate(np.arange(5), 1), collate(np.arange(3), 1)
    parts = family.score_parts(family.encode_images(few), family.encode_captions(batch))
    for part in parts.values():
        assert part.shape in ((3, 5), (1, 5))
    assert family.combine(parts).shape == (3, 5)
    assert torch.equal(family.combine(parts), family.scores(family.encode_images(few), family.encode_captions(batch)))
