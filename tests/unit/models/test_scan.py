"""SCAN's codes against plain layers, its settings, and the memory of a training step."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.synthetic import make_family, make_objective, synthetic
from tests.unit.models.test_cross_attention import loop
from vse.models.cross_attention import Attention, cross_attention
from vse.models.scan import AGGREGATES

DATA = synthetic(seed=3, images=6)


def _codes(family, rows=None):
    rows = np.arange(len(DATA)) if rows is None else rows
    batch = DATA.collator(family, make_objective("scan"))(rows, 0)
    return batch, {**family.encode_images(batch), **family.encode_captions(batch)}


def test_codes_against_plain_torch():
    family = make_family("scan", DATA.context)
    batch, codes = _codes(family)
    projected = batch["map"] @ family.project.weight.T + family.project.bias
    torch.testing.assert_close(codes["regions"], torch.nn.functional.normalize(projected, dim=-1))
    for b, length in enumerate(batch["lengths"].tolist()):
        vectors = family.vectors.embedding.weight[batch["tokens"][b, :length]]
        forward = family.states.forward_gru.gru(vectors[None])[0][0]
        backward = family.states.backward_gru.gru(vectors.flip(0)[None])[0][0].flip(0)
        mean = (forward + backward) / 2
        torch.testing.assert_close(codes["words"][b, :length], torch.nn.functional.normalize(mean, dim=-1))
        assert not codes["words"][b, length:].any()


@pytest.mark.seconds
@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize(("direction", "slope"), [("t2i", 0.0), ("i2t", 0.1)])
def test_scores_are_those_of_the_published_loop(direction, slope, aggregate):
    family = make_family("scan", DATA.context, direction=direction, aggregate=aggregate, slope=slope, i2t_lse=3.0)
    batch, codes = _codes(family, np.arange(5))
    how = Attention(direction, *((9.0, aggregate, 6.0) if direction == "t2i" else (4.0, aggregate, 3.0)), slope)
    there = torch.ones(codes["regions"].shape[:2], dtype=torch.bool)
    torch.testing.assert_close(
        family.scores(codes, codes), loop(codes["regions"], codes["words"], there, batch["lengths"], how)
    )


def test_the_share_of_both_directions_is_a_knob():
    family = make_family("scan", DATA.context, direction="both", weight=0.25)
    assert family.inference_parameters == ("weight",)
    _, codes = _codes(family)
    parts = family.score_parts(codes, codes)
    assert set(parts) == {"t2i", "i2t"}
    for weight in (0.0, 0.3, 1.0):
        expected = weight * parts["t2i"] + (1 - weight) * parts["i2t"]
        assert torch.equal(family.combine(parts, weight=weight), expected)
    assert torch.equal(family.scores(codes, codes), family.combine(parts, weight=0.25))
    alone = make_family("scan", DATA.context, direction="i2t")
    alone.load_state_dict(family.state_dict())
    assert torch.equal(alone.scores(codes, codes), parts["i2t"])
    with pytest.raises(AssertionError, match="weight"):
        alone.combine(parts, weight=0.5)


def test_absent_regions_of_ready_made_arrays_change_nothing():
    family = make_family("scan", DATA.context, direction="both")
    batch, codes = _codes(family)
    nothing = torch.zeros(len(DATA), 3, 5, dtype=torch.float64)
    padded = family.encode_images(batch | {"map": torch.cat([batch["map"], nothing], dim=1)})
    assert not padded["regions"][:, 6:].any()
    torch.testing.assert_close(family.scores(padded, codes), family.scores(codes, codes))


class _Largest(TorchDispatchMode):
    """The most numbers in tensors that one operation reads and makes, as a lower bound of what is alive."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers, self.together = 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        tensors = [x for x in (*args, made) if isinstance(x, torch.Tensor)]
        found = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() // x.element_size() for x in tensors}
        self.numbers = max(self.numbers, *found.values(), 0)
        self.together = max(self.together, sum(found.values()))
        return made


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_no_tensor_comes_near_images_times_captions_times_words_times_dim(monkeypatch, direction, dense):
    """A step of 24 images and captions, 20 words and 64 dimensions, with blocks in proportion to a batch of 128."""
    torch.manual_seed(0)
    images, r, t, dim = 24, 10, 20, 64
    monkeypatch.setattr("vse.models.cross_attention.AT_ONCE", 2**12)
    unit = torch.nn.functional.normalize
    regions, words = unit(torch.randn(images, r, dim), dim=-1), unit(torch.randn(images, t, dim), dim=-1)
    leaves = [regions.requires_grad_(), words.requires_grad_()]
    how = Attention(direction, 9.0, "lse", 6.0, 0.0)
    grad = torch.randn(images, images) * (torch.ones(images, images) if dense else torch.eye(images))
    with _Largest() as seen:
        torch.autograd.grad(cross_attention(leaves[0], leaves[1], how), leaves, grad)
    whole = images * images * t * dim
    assert seen.numbers < whole / 10
    assert seen.together < whole / 10
    with _Largest() as naive:  # the measure sees what it should: attended vectors of every pair
        weights = torch.softmax(torch.einsum("bkd,cld->bckl", regions, words), 2)
        torch.einsum("bckl,bkd->bcld", weights, regions)
    assert naive.numbers >= whole


_A_STEP = """
import re, sys, torch
from pathlib import Path
from vse.models.cross_attention import Attention, cross_attention
torch.set_num_threads(1)
unit, few = torch.nn.functional.normalize, float(sys.argv[2])
regions, words = (unit(torch.randn(128, n, 1024), dim=-1).requires_grad_() for n in (36, 20))
grad = torch.randn(128, 128) * (torch.rand(128, 128) < few)
how = Attention(sys.argv[1], 9.0, "lse", 6.0, 0.0)
torch.autograd.grad(cross_attention(regions[:2], words[:2], how).sum(), (regions, words))
def kib(what):  # not getrusage, whose peak is inherited from the parent
    return int(re.search(what + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
before = kib("VmRSS")
torch.autograd.grad(cross_attention(regions, words, how), (regions, words), grad)
print(1024 * (kib("VmHWM") - before))
"""


@pytest.mark.slow
@pytest.mark.parametrize("few", [1.0, 0.02])
@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_a_published_step_takes_an_eighth_of_what_attended_vectors_would(direction, few):
    """In a process of its own, by the system's count; the peak may hold what the allocator has not given back."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "JAXTYPING_DISABLE": "1"}
    command = [sys.executable, "-c", _A_STEP, direction, str(few)]
    taken = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert int(taken.stdout) < 128 * 128 * 20 * 1024 * 4 / 8


def test_the_configuration_reaches_the_attention():
    family = make_family("scan", DATA.context, t2i_softmax=3.0, t2i_lse=2.0, aggregate="max", slope=0.1)
    assert dataclasses.astuple(family.attention("t2i")) == ("t2i", 3.0, "max", 2.0, 0.1)
    assert dataclasses.astuple(family.attention("i2t")) == ("i2t", 4.0, "max", 20.0, 0.1)
