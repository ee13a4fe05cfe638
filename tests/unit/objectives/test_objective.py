"""What all objectives share: scores of a batch, exact where the rest of a step is of half precision."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.synthetic import make_objective
from vse.objectives.jwae import mean_discrepancy
from vse.objectives.objective import batch_scores, products, single


def _near(items: int = 12, dim: int = 256) -> dict[str, Tensor]:
    """Codes at distances of 0.1 or so from each other, where cosines differ by what bfloat16 rounds away."""
    torch.manual_seed(0)
    middle = torch.randn(dim)

    def beside(*shape: int) -> Tensor:
        return torch.nn.functional.normalize(middle + 0.07 * torch.randn(items, *shape, dim), dim=-1)

    return {
        "images": beside(),
        "captions": beside(),
        "siblings": beside(),
        "middle": beside(2),
        "contrast": beside(3),
        "contrast_mask": torch.ones(items, 3, dtype=torch.bool),
        "image_pools": beside(3),
        "caption_pools": beside(3),
        "image_nodes": beside(5),
        "caption_nodes": beside(4),
        "has_sibling": torch.ones(items, dtype=torch.bool),
        "image_group": torch.arange(items),
        "text_group": torch.arange(items),
    }


def _values_and_gradients(objective: Any, codes: Mapping[str, Tensor], autocast: bool) -> dict[str, Tensor]:
    leaves = {k: v.clone().requires_grad_() if v.is_floating_point() else v for k, v in codes.items()}
    scalars = {"log_scale": torch.tensor(4.6).requires_grad_()} if "log_scale" in objective.scalars else {}
    scalars |= {name: torch.tensor(0.1) for name in objective.scalars if name not in scalars}
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        losses = objective(leaves, leaves | scalars, 2)
        total = torch.stack([loss.float() for loss in losses.values()]).sum()
    total.backward()
    grads = {f"gradient {k}": v.grad for k, v in (leaves | scalars).items() if v.grad is not None}
    return {k: loss.detach() for k, loss in losses.items()} | grads


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("ranking", {"hinge": "sum"}),
        ("infonce", {}),
        ("sigmoid", {}),
        ("logistic", {}),
        ("embedding_network", {"neighbours": 1.0}),
        ("cse", {}),
        ("vsec", {}),
        ("vsec", {"pool": "batch"}),
        ("relational", {}),
    ],
)
def test_near_pairs_are_told_apart_under_autocast(name: str, changes: dict[str, Any]) -> None:
    objective, codes = make_objective("", name, **changes), _near()
    exact, found = (_values_and_gradients(objective, codes, autocast) for autocast in (False, True))
    assert exact.keys() == found.keys() >= {"sent", "gradient captions"}
    for key, value in exact.items():
        assert found[key].dtype == torch.float32
        torch.testing.assert_close(found[key], value, rtol=1e-6, atol=1e-7, msg=lambda m, k=key: f"{k}: {m}")


def test_discrepancies_are_exact_under_autocast() -> None:
    codes = _near()
    exact = mean_discrepancy(codes["images"], codes["captions"])
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(mean_discrepancy(codes["images"], codes["captions"]), exact)


def test_products_of_short_codes_are_of_single_precision() -> None:
    codes = _near()
    a, b = codes["images"].bfloat16(), codes["captions"].double()
    assert products(a, a).dtype == torch.float32
    torch.testing.assert_close(products(a, a), a.float() @ a.float().T)
    assert torch.equal(products(b, b), b @ b.T)
    assert single(a).dtype == torch.float32
    assert single(b) is b


def test_scores_of_pairwise_families_are_taken_as_they_are() -> None:
    own = torch.rand(3, 3).bfloat16()
    assert torch.equal(batch_scores({"scores": own}), own.float())
