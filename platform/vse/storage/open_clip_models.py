"""Models of open_clip by name, hub repository or folder: their settings, published weights and transforms."""

import json
from dataclasses import asdict
from functools import cached_property
from typing import Any

from vse.errors import InputError
from vse.storage.hub import FOLDER, HUB, first_file, hub_file, optional_package

CONFIG = "open_clip_config.json"
_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "open_clip_pytorch_model.bin")
_WEIGHTS += ("model.safetensors", "pytorch_model.bin")


class OpenClipModel:
    """What open_clip publishes of a model.

    Args:
        arch: a name in open_clip, `hf-hub:owner/name`, or `local-dir:FOLDER`.
        weights: of the configuration; a published tag chooses the transform too.
        group: of the keys `arch` and `weights`, for messages.

    Raises:
        InputError: there is no such model.
    """

    def __init__(self, arch: str, weights: str, group: str) -> None:
        self._open_clip = optional_package("open_clip", f"{group}.arch={arch}")
        self.arch, self.weights, self.group = arch, weights, group
        self.key = f"{group}.arch={arch}"
        self.named = not arch.startswith((HUB, FOLDER))
        self._tag: dict[str, Any] = {}
        if self.named:
            self._tag = self._open_clip.get_pretrained_cfg(arch, weights) if weights in self.tags else {}
            self._check_activation()

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """Names of published weights of a built-in model."""
        return tuple(self._open_clip.list_pretrained_tags_by_model(self.arch)) if self.named else ()

    @cached_property
    def _content(self) -> dict[str, Any]:
        if self.named:
            settings = self._open_clip.get_model_config(self.arch)
            if settings is None:
                raise InputError(f"{self.key}: not in open_clip; open_clip.list_models() lists its models")
            return {"model_cfg": settings, "preprocess_cfg": self._tag}
        file = self.file(CONFIG)
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            _ = content["model_cfg"]["vision_cfg"], content["model_cfg"]["text_cfg"], content["model_cfg"]["embed_dim"]
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{self.key}: {file} is not a configuration of open_clip") from None
        return content

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of the model: `embed_dim`, `vision_cfg`, `text_cfg` and others."""
        return self._content["model_cfg"]

    @property
    def image_size(self) -> int:
        """Side of the square that the image tower reads, in pixels."""
        size = self.settings["vision_cfg"].get("image_size", 224)
        return size if isinstance(size, int) else max(size)

    @property
    def preprocessing(self) -> dict[str, Any]:
        """`mean`, `std`, `interpolation` and `resize_mode`, open_clip's defaults included."""
        transform: Any = self._open_clip.transform
        return transform.merge_preprocess_dict(asdict(transform.PreprocessCfg()), self._content["preprocess_cfg"])

    def _check_activation(self) -> None:
        """Raises InputError if published weights need the other GELU: open_clip only warns of it."""
        wanted = bool(self._tag.get("quick_gelu", False))
        if self._tag and wanted != bool(self.settings.get("quick_gelu", False)):
            other = f"{self.arch}-quickgelu" if wanted else self.arch.removesuffix("-quickgelu")
            raise InputError(
                f"{self.group}.weights={self.weights}: were trained with{'' if wanted else 'out'} QuickGELU; "
                f"use {self.group}.arch={other}"
            )

    def file(self, *names: str) -> Any:
        """The first of some files that the folder or repository has."""
        return first_file(self.arch, names, self.key)

    def published_file(self) -> str:
        """Path of the published weights on this machine, downloaded if necessary."""
        if not self.named:
            return str(self.file(*_WEIGHTS))
        repository, _, name = self._tag.get("hf_hub", "").rpartition("/")
        if repository:
            return str(hub_file(repository, (name,) if name else _WEIGHTS, f"{self.group}.weights={self.weights}"))
        published = f"one of {', '.join(self.tags)}, " if self.tags else ""
        raise InputError(
            f"{self.group}.weights={self.weights}: open_clip has none of that name on the Hugging Face hub; "
            f"give {published}a file, or random"
        )
