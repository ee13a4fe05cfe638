"""How often a training step makes the host wait for a GPU."""

from collections import Counter

import numpy as np
import pytest
import torch

from tests.levels import slow_but
from tests.parity.distributed_worker import FAMILIES
from tests.synthetic import make_family, make_objective, synthetic
from tests.unit.training.synchronising import synchronisations
from vse import registry
from vse.training.config import OptimConfig
from vse.training.step import Stepper

DATA = synthetic(seed=7, images=8)
CASES = FAMILIES | {name: {} for name in registry.names("family")}
# How often a step may: once in each direction of SCAN's attention for the captions' lengths, by which its blocks are
# cut, and twice for the pairs that have a gradient, of which it computes no others; for each phase of jWAE over words
# once for the lengths, since a network of two directions cannot go over padding.
ATTENTION, PACKED = 3, 1
ALLOWED = {
    "scan": ATTENTION,
    "scan i2t": ATTENTION,
    "scan both": 2 * ATTENTION,
    "scan states": ATTENTION,
    "scan projected": ATTENTION,
    "jwae": 2 * PACKED,
    "jwae known pairs": 2 * PACKED,
    "jwae sigmoid known pairs": 2 * PACKED,
    "jwae means": 2 * PACKED,
    "jwae vae": PACKED,
    "jwae mmd": PACKED,
    "jwae_scan": ATTENTION,
    "jwae_scan released": ATTENTION,
}


def set_up(case):
    name, changes = case.split()[0], {k: v for k, v in CASES[case].items() if k not in ("pairs", "mask")}
    family, objective = make_family(name, DATA.context, **changes), make_objective(name, **changes)
    batch = family.prepared(DATA.collator(family, objective)(np.arange(len(DATA)), 2))
    return family, objective, batch


def _waits(case):
    family, objective, batch = set_up(case)
    stepper = Stepper(family, family, objective, OptimConfig(), "float64")
    with synchronisations() as found:
        stepper.step(batch, 2, 1)
    return found


@pytest.mark.seconds
@pytest.mark.parametrize(
    "case", slow_but(CASES, "vsepp", "univse", "relational", "vsec", "cse", "cite own negatives", *ALLOWED)
)
def test_a_step_waits_for_a_gpu_as_rarely_as_stated(case):
    found = _waits(case)
    assert sum(found.values()) <= ALLOWED.get(case, 0), dict(found)


@pytest.mark.seconds
def test_few_pairs_with_a_gradient_are_read_no_more_often(monkeypatch):
    """Whole captions at once and pair by pair; one part of pairs or several."""
    for few in (0.0, 1.0):
        for room in (1, 2**21):
            monkeypatch.setattr("vse.models.cross_attention.FEW", few)
            monkeypatch.setattr("vse.models.cross_attention.AT_ONCE", room)
            assert sum(_waits("scan").values()) <= ATTENTION


@pytest.mark.parametrize(
    ("ask", "operator"),
    [
        (lambda x: float(x.detach().sum()), "_local_scalar_dense"),
        (lambda x: bool((x > 0).all()), "_local_scalar_dense"),
        (lambda x: (x > 0).nonzero(), "nonzero"),
        (lambda x: x[x > 0], "index"),
        (lambda x: x.masked_select(x > 0), "masked_select"),
        (lambda x: torch.unique(x), "_unique2"),
        (lambda x: torch.unique(x, dim=0), "unique_dim"),
        (lambda x: x.sum().tolist(), "tolist"),
        (lambda x: x.cpu(), "cpu"),
        (lambda x: torch.tensor([1, 2], device=x.device), "tensor"),
        (lambda x: x.detach().clone().index_put_((x > 0,), x.new_zeros(())), "index_put_"),
    ],
)
def test_what_waits_is_seen_forward_and_backward(ask, operator):
    class Asking(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, *grads):
            ask(grads[0])
            return grads[0]

    for work in (ask, lambda x: Asking.apply(x).sum().backward()):
        with synchronisations() as found:
            work(torch.ones(3, requires_grad=True))
        assert found == Counter({f"{operator} in torch": 1})


def test_what_waits_for_nothing_is_not_counted():
    x = torch.rand(4, 3)
    with synchronisations() as found:
        x[torch.tensor([0, 2])].sum(1).where(x[:2, 0] > 0, x[:2, 1]).sort()
        torch.nn.GRU(3, 2, batch_first=True)(x[None])
    assert found == Counter()
