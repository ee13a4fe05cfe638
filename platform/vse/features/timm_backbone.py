"""Networks of timm as backbones: ViT, Swin, ConvNeXt, EfficientNet, DINOv2, SigLIP's vision tower and others."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vse.config import knob
from vse.errors import InputError
from vse.features.backbone import Normalisation
from vse.features.pretrained_encoder import (
    EncoderConfig,
    EncoderTrunk,
    Preprocessing,
    PretrainedEncoder,
    grid_tokens,
)
from vse.registry import register
from vse.storage.hub import FOLDER, HUB, first_file, hub_file, optional_package
from vse.storage.weights import load_weights, read_weights, state_dict_in

_MODES = {"center": "crop", "squash": "scale"}  # timm's names of the transforms that we have
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


class _Trunk(EncoderTrunk):
    """Features of timm's `forward_features`, and the vector before the classifier of `forward_head`."""

    def __init__(self, model: Any, outputs: Sequence[str]) -> None:
        super().__init__(outputs)
        self.model = model

    def features(self, x: Tensor) -> dict[str, Tensor]:
        """Prefix tokens (class, registers) are left out of the map."""
        unpooled = self.model.forward_features(x)
        features = {"pooled": self.model.forward_head(unpooled, pre_logits=True)}
        if isinstance(unpooled, Tensor):
            grid = self._grid(unpooled)
            features |= {} if grid is None else {"map": grid}
        return features

    def _grid(self, x: Tensor) -> Tensor | None:
        if x.dim() == 4:
            x = x.permute(0, 3, 1, 2) if str(getattr(self.model, "output_fmt", "NCHW")) == "NHWC" else x
            return x if min(x.shape[2:]) > 1 else None
        return grid_tokens(x, getattr(self.model, "num_prefix_tokens", 0)) if x.dim() == 3 else None


@register("backbone", "timm")
class TimmBackbone(PretrainedEncoder):
    """A network of timm; `pooled` is what its classifier reads."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(EncoderConfig):
        """`hf-hub:owner/name@revision` names a repository in timm's format, `local-dir:` a folder with its files."""

        arch: str = knob("tf_efficientnet_lite1", "a name in timm, hf-hub:owner/name, or local-dir:FOLDER")

    def _preprocessing(self) -> Preprocessing:
        timm = optional_package("timm", "features.backbone=timm")
        arch = self.config.arch
        self._arguments: dict[str, Any] = {}
        if arch.startswith((HUB, FOLDER)):
            from timm.models._hub import load_model_config_from_path

            folder = first_file(arch, ("config.json",), self.key).parent
            try:
                self._published, self._arch, self._arguments = load_model_config_from_path(folder)
            except (OSError, ValueError, KeyError) as error:
                raise InputError(f"{self.key}: its config.json is not one of timm ({error!r})") from None
        else:
            published = timm.get_pretrained_cfg(arch, allow_unregistered=False) if timm.is_model(arch) else None
            if published is None:
                raise InputError(f"{self.key}: not in timm {timm.__version__}; timm.list_models() lists its networks")
            self._published, self._arch = published.to_dict(), arch
        data = timm.data.resolve_data_config(pretrained_cfg=self._published)
        size = self.config.size or data["input_size"][-1]
        if self._published.get("fixed_input_size") and size != data["input_size"][-1]:
            self._arguments = {**self._arguments, "img_size": size}
        mode, share = data["crop_mode"], data["crop_pct"]
        return Preprocessing(
            mode=_MODES.get(mode, mode) if mode != "squash" or share == 1 else f"squash to 1/{share:g} and crop",
            size=data["input_size"][-1],
            share=share,
            interpolation=data["interpolation"] if data["interpolation"] != "random" else "bilinear",
            normalisation=Normalisation(tuple(data["mean"]), tuple(data["std"])),
        )

    def _published_files(self) -> list[str]:
        if self.config.arch.startswith((HUB, FOLDER)):
            return [str(first_file(self.config.arch, _WEIGHTS, self.key))]
        repository, file = self._published.get("hf_hub_id"), self._published.get("hf_hub_filename")
        if not repository:
            raise InputError(
                f"{self.key}: timm has no published weights of it on the Hugging Face hub; "
                "give features.backbone.weights a file, or random"
            )
        return [str(hub_file(repository, (file,) if file else _WEIGHTS, self.key))]

    def _network(self) -> Any:
        return [self._arch, self._arguments]

    def _build(self, outputs: Sequence[str]) -> _Trunk:
        return _Trunk(self._create(num_classes=0), outputs)

    def _create(self, **settings: Any) -> nn.Module:
        import timm

        try:
            return timm.create_model(self._arch, pretrained=False, **{**self._arguments, **settings})
        except TypeError as error:  # no argument of this network
            raise InputError(f"{self.key}: {error}; remove features.backbone.size") from None

    def _filled(self, outputs: Sequence[str], files: Sequence[str]) -> _Trunk:
        """Files in timm's own form are taken as they are; others pass timm's conversion of published checkpoints, which
        also resamples positions for another size."""
        trunk, content = self._build(outputs), read_weights(files[0])
        with torch.device("meta"):
            whole = self._create().state_dict()
        try:
            load_weights(trunk.model, content, files[0], whole)
        except InputError:
            converted = self._converted(trunk.model, content, files[0])
            if converted is None:
                raise
            load_weights(trunk.model, converted, files[0], whole)
        return trunk

    @staticmethod
    def _converted(model: nn.Module, content: Mapping[str, Any], where: str) -> dict[str, Tensor] | None:
        """A checkpoint after timm's conversion for this network; None if there is none, or it fails."""
        convert = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
        if convert is None:
            return None
        try:
            return dict(convert(dict(state_dict_in(content, where)), model))
        except (KeyError, ValueError, RuntimeError, AttributeError, TypeError, IndexError):
            return None  # of another network
