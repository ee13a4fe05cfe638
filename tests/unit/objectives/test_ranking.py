"""The ranking objective: masks, warm-up, collapse level."""

import pytest
import torch

from vse.objectives.hinge import bidirectional_hinge, same_meaning
from vse.objectives.ranking import Ranking


def _everyone():
    torch.manual_seed(0)
    codes = torch.nn.functional.normalize(torch.randn(2, 6, 4, dtype=torch.float64), dim=-1)
    groups = {"image_group": torch.tensor([0, 0, 1, 2, 3, 3]), "text_group": torch.tensor([0, 1, 2, 0, 3, 4])}
    return {"images": codes[0], "captions": codes[1], **groups}


@pytest.mark.parametrize("mask", ["same", "none"])
@pytest.mark.parametrize("hinge", ["hardest", "sum"])
def test_against_the_hinge_itself(mask, hinge):
    gathered = _everyone()
    groups = gathered["image_group"], gathered["text_group"]
    excluded = same_meaning(*groups, *groups) if mask == "same" else torch.zeros(6, 6, dtype=torch.bool)
    objective = Ranking(Ranking.Config(mask=mask, hinge=hinge, margin=0.3))
    losses = objective(gathered, gathered, 0)
    expected = bidirectional_hinge(gathered["images"] @ gathered["captions"].T, excluded, 0.3, hinge == "hardest")
    assert set(losses) == set(objective.weights(0)) == {"sent"}
    assert torch.equal(losses["sent"], expected)


def test_warmup_sums_and_then_mines():
    gathered, objective = _everyone(), Ranking(Ranking.Config(warmup=2))
    summed, mined = (Ranking(Ranking.Config(hinge=h))(gathered, gathered, 0)["sent"] for h in ("sum", "hardest"))
    assert torch.equal(objective(gathered, gathered, 1)["sent"], summed)
    assert torch.equal(objective(gathered, gathered, 2)["sent"], mined)
    assert objective.collapse_level(1) is None
    assert objective.collapse_level(2) == ("sent", 0.4)


def test_collapsed_codes_lose_the_collapse_level():
    gathered = _everyone() | {"image_group": torch.arange(6), "text_group": torch.arange(6)}
    gathered["images"] = gathered["captions"] = gathered["images"][:1].expand(6, 4)
    objective = Ranking(Ranking.Config())
    level = objective.collapse_level(0)
    assert level is not None
    assert float(objective(gathered, gathered, 0)["sent"]) / 6 == pytest.approx(level[1], rel=1e-12)
