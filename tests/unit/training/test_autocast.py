"""Half-precision autocast of every family's step: finite, and near what single precision gives.

On a CPU, where the same casts happen as on a GPU; whether a GPU's kernels agree is seen on one.
"""

import numpy as np
import pytest
import torch

from tests.parity.distributed_worker import FAMILIES
from tests.synthetic import gradients, make_family, make_objective, synthetic
from vse import registry
from vse.models.cross_attention import Attention, relevance
from vse.models.encoders import unit
from vse.training.batches import blocks
from vse.training.step import step_losses

CASES = FAMILIES | {name: {} for name in registry.names("family")}


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("case", CASES)
def test_a_step_in_half_precision_is_near_one_in_single(case: str, precision: torch.dtype) -> None:
    name, data = case.split()[0], synthetic(seed=3, images=7, most_captions=3)
    changes = {key: value for key, value in CASES[case].items() if key not in ("pairs", "mask")}
    objective = make_objective(name, **changes)
    family = make_family(name, data.context, double=False, **changes)
    collate = data.collator(family, objective, seed=1)

    def single(rows: np.ndarray, epoch: int) -> dict[str, torch.Tensor]:
        batch = collate(rows, epoch)
        return {key: value.float() if value.is_floating_point() else value for key, value in batch.items()}

    family.fit(lambda: (single(rows, 0) for rows in blocks(len(data), 4)))
    batch = single(np.arange(8), 2)
    for phase in family.phases():
        found = {}
        for kind in (torch.float32, precision):
            family.zero_grad()
            with torch.autocast("cpu", kind, enabled=kind != torch.float32):
                total, losses = step_losses(family, objective, batch, 2, phase.losses, phase.name)
            total.backward()
            found[kind] = losses, {n: g.clone() for n, g in gradients(family).items()}
            assert all(torch.isfinite(g).all() for g in found[kind][1].values())
            assert total.dtype == torch.float32
            assert all(loss.isfinite() for loss in losses.values())
        for key, expected in found[torch.float32][0].items():
            # a rounded score may make another negative the hardest
            torch.testing.assert_close(found[precision][0][key].float(), expected, rtol=0.1, atol=0.05)


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_nothing_to_normalise_is_no_number_too_small(precision: torch.dtype) -> None:
    """Where a single-precision epsilon rounds to zero, a vector of zeros would become NaN."""
    zeros = torch.zeros(2, 5, dtype=precision, requires_grad=True)
    code = unit(zeros)
    code.sum().backward()
    assert zeros.grad is not None
    assert not code.any()
    assert zeros.grad.isfinite().all()
    raw = -torch.rand(2, 3, 4, 5).to(precision)  # every similarity is clipped
    gram, here = torch.zeros(2, 3, 3, dtype=precision), torch.ones(2, 3, dtype=torch.bool)
    how = Attention(direction="t2i", softmax=9.0, aggregate="mean", lse=6.0, slope=0.0)
    assert relevance(raw, gram, here, torch.ones(1, 4, 5, dtype=torch.bool), how).isfinite().all()
