"""The losses of CSE are hinges of each layer's codes."""

import pytest
import torch
import torch.nn.functional as F

from vse.objectives.cse import CSELoss
from vse.objectives.hinge import bidirectional_hinge, excluded_pairs


def _everyone(layers=2):
    generator = torch.Generator().manual_seed(0)
    codes = F.normalize(torch.randn(2 + layers, 6, 4, generator=generator, dtype=torch.float64), dim=-1)
    groups = {"image_group": torch.tensor([0, 0, 1, 2, 3, 3]), "text_group": torch.tensor([0, 1, 2, 0, 3, 4])}
    return {"images": codes[0], "captions": codes[1], "middle": codes[2:].transpose(0, 1), **groups}


@pytest.mark.parametrize("hinge", ["sum", "hardest"])
def test_each_layer_has_its_hinge(hinge):
    gathered, objective = _everyone(), CSELoss(CSELoss.Config(hinge=hinge, margin=0.3, middle=0.25))
    losses = objective(gathered, gathered, 0)

    def loss(codes):
        excluded = excluded_pairs(gathered, "same")
        return bidirectional_hinge(gathered["images"] @ codes.T, excluded, 0.3, hinge == "hardest")

    torch.testing.assert_close(losses["sent"], loss(gathered["captions"]))
    lower = (loss(gathered["middle"][:, 0]) + loss(gathered["middle"][:, 1])) / 2
    torch.testing.assert_close(losses["middle"], lower)
    assert objective.weights(0) == {"sent": 1.0, "middle": 0.25}
    assert objective.collapse_level(0) == (("sent", 0.6) if hinge == "hardest" else None)


def test_without_lower_layers_there_is_one_loss():
    gathered = _everyone(0)
    assert CSELoss(CSELoss.Config())(gathered, gathered, 0).keys() == {"sent"}
