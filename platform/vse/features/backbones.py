"""All backbones; importing this module registers them under kind "backbone"."""

from vse.features.arrays import ReadyMade
from vse.features.backbone import Backbone, Network
from vse.features.open_clip_backbone import OpenClipBackbone
from vse.features.small_backbone import SmallBackbone
from vse.features.timm_backbone import TimmBackbone
from vse.features.torchvision_backbone import TorchvisionBackbone
from vse.features.transformers_backbone import TransformersBackbone
from vse.features.tuned_backbone import TunedBackbone

__all__ = [
    "Backbone",
    "Network",
    "OpenClipBackbone",
    "ReadyMade",
    "SmallBackbone",
    "TimmBackbone",
    "TorchvisionBackbone",
    "TransformersBackbone",
    "TunedBackbone",
]
