"""Image towers of open_clip as backbones: CLIP, SigLIP, EVA and others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn

from vse.config import knob
from vse.features.backbone import Normalisation
from vse.features.pretrained_encoder import EncoderConfig, EncoderTrunk, Preprocessing, PretrainedEncoder
from vse.registry import register
from vse.storage.open_clip_models import OpenClipModel
from vse.storage.weights import load_weights, read_weights, state_dict_in

_MODES = {"shortest": "crop", "squash": "scale"}  # open_clip's names of the transforms that we have


class _Trunk(EncoderTrunk):
    """The tower's normalised last layer, and its projection into the space that it shares with texts."""

    def __init__(self, visual: Any, outputs: Sequence[str]) -> None:
        super().__init__(outputs)
        self.visual = visual

    def features(self, x: Tensor) -> dict[str, Tensor]:
        """The map is left out if nothing needs it: the pooled vector alone is computed by the tower's own forward."""
        if "map" not in self.outputs:
            return {"pooled": self.visual(x)}
        both = self.visual.forward_intermediates(x, indices=1, normalize_intermediates=True)
        return {"pooled": both["image_features"], "map": both["image_intermediates"][-1]}


@register("backbone", "open_clip")
class OpenClipBackbone(PretrainedEncoder):
    """An image tower of open_clip; `pooled` is the projected vector, without normalisation."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(EncoderConfig):
        """A name needs `weights`: a published tag such as laion2b_s34b_b79k, a file, or random."""

        arch: str = knob("ViT-B-32", "a name in open_clip, hf-hub:owner/name, or local-dir:FOLDER")

    def _published_names(self) -> Sequence[str]:
        self._model = OpenClipModel(self.config.arch, self.config.weights, "features.backbone")
        return self._model.tags

    def _preprocessing(self) -> Preprocessing:
        published = self._model.preprocessing
        mode = published["resize_mode"]
        return Preprocessing(
            mode=_MODES.get(mode, str(mode)),
            size=self._model.image_size,
            share=1.0,
            interpolation=published["interpolation"],
            normalisation=Normalisation(tuple(published["mean"]), tuple(published["std"])),
        )

    def _published_files(self) -> list[str]:
        return [self._model.published_file()]

    def _network(self) -> Any:
        return [self._model.settings["embed_dim"], self._model.settings["vision_cfg"], self._quick_gelu]

    @property
    def _quick_gelu(self) -> bool:
        return bool(self._model.settings.get("quick_gelu", False))

    def _build(self, outputs: Sequence[str]) -> _Trunk:
        return _Trunk(self._tower(), outputs)

    def _tower(self) -> nn.Module:
        from open_clip.model import _build_vision_tower

        settings = self._model.settings
        vision: Any = {**settings["vision_cfg"], "timm_model_pretrained": False, "image_size": self.transform.size}
        return _build_vision_tower(settings["embed_dim"], vision, self._quick_gelu)

    def _filled(self, outputs: Sequence[str], files: Sequence[str]) -> _Trunk:
        """Positions are resampled as open_clip does if the size differs."""
        from open_clip.model import resize_pos_embed

        trunk = self._build(outputs)
        content: Mapping[str, Any] = read_weights(files[0])
        if self.transform.size != self._model.image_size:
            state = dict(state_dict_in(content, files[0]))
            resize_pos_embed(state, SimpleNamespace(visual=trunk.visual))  # it reads the tower
            content = state
        load_weights(trunk.visual, content, files[0])
        return trunk
