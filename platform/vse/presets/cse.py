"""CSE as the relational thesis compares with it (section 1.4.3): our reading."""

from dataclasses import replace

from vse.models.cse import CSE
from vse.objectives.cse import CSELoss
from vse.presets.catalogue import register_preset
from vse.presets.vsepp import vsepp_coco
from vse.training.config import RunConfig


@register_preset("cse_scenes", "cse_small", "cse_flickr8k")
def cse_coco() -> RunConfig:
    """CSE: frozen ResNet, all negatives of the batch; rate, schedule, margin and every width are ours or VSE++'s."""
    return replace(vsepp_coco(), model=CSE.Config(), objective=CSELoss.Config())
