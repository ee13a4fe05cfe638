"""All backbones; importing this module registers them under kind "backbone"."""

from vse.features.arrays import ReadyMade
from vse.features.backbone import Backbone, Network
from vse.features.small_backbone import SmallBackbone
from vse.features.timm_backbone import TimmBackbone
from vse.features.torchvision_backbone import TorchvisionBackbone

__all__ = ["Backbone", "Network", "ReadyMade", "SmallBackbone", "TimmBackbone", "TorchvisionBackbone"]
