"""Vision towers of transformers as backbones: ViT, DINOv2, Swin, ConvNeXt, and the image towers of CLIP and SigLIP."""

import contextlib
import inspect
import json
import logging
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vse.config import knob
from vse.errors import InputError, first_line
from vse.features.backbone import Normalisation
from vse.features.pretrained_encoder import EncoderConfig, EncoderTrunk, Preprocessing, PretrainedEncoder, grid_tokens
from vse.registry import register
from vse.storage.files import local_path
from vse.storage.hub import hub_file, optional_package
from vse.storage.weights import read_weights

log = logging.getLogger(__name__)

_INDEX = "model.safetensors.index.json"
_WEIGHTS = ("model.safetensors", _INDEX, "pytorch_model.bin")
_RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}  # PIL's numbers in published configurations
_SQUASHED = 384  # pixels from which ConvNeXt's processor scales the whole picture


def model_folder(arch: str, files: Sequence[str], key: str) -> Path:
    """A folder of this machine with files of a model, downloaded if necessary.

    Args:
        arch: a folder, or owner/name of the Hugging Face hub, perhaps with @revision.
        files: names that must be there.
        key: the setting that names the model, for messages.

    Raises:
        InputError: a file is missing.
    """
    if (folder := local_path(arch)).is_dir():
        for name in files:
            if not (folder / name).is_file():
                raise InputError(f"{key}: there is no {name} in {folder}")
        return folder
    return [hub_file(arch, (name,), key).parent for name in files][-1]


def weights_files(arch: str, key: str) -> list[str]:
    """Paths of the published weights of a model: one file, or the parts that an index lists. Raises InputError."""
    if (folder := local_path(arch)).is_dir():
        first = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
        if first is None:
            raise InputError(f"{key}: there is no {' or '.join(_WEIGHTS)} in {folder}")
    else:
        first = hub_file(arch, _WEIGHTS, key)
    if first.name != _INDEX:
        return [str(first)]
    parts = sorted(set(json.loads(first.read_text(encoding="utf-8"))["weight_map"].values()))
    return [str(model_folder(arch, (part,), key) / part) for part in parts]


class _Trunk(EncoderTrunk):
    """The last hidden state of a vision tower, and the vector that it pools or projects."""

    def __init__(self, model: Any, outputs: Sequence[str], side: int, *, resampled: bool) -> None:
        super().__init__(outputs)
        for unused in ("text_model", "text_projection"):  # of a dual encoder, whose image tower is enough
            if hasattr(model, unused):
                delattr(model, unused)
        self.model, self._run = model, getattr(model, "get_image_features", model.__call__)
        vision = getattr(model.config, "vision_config", model.config)
        patch = getattr(vision, "patch_size", None)
        self._cells = (side // patch) ** 2 if isinstance(patch, int) else 0
        takes = inspect.signature(getattr(model, "get_image_features", model.forward)).parameters
        self._more = {"interpolate_pos_encoding": True} if resampled and "interpolate_pos_encoding" in takes else {}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        """Without a pooled vector of its own, a tower gives its class token, or else the mean of its tokens."""
        output = self._run(pixel_values=x, **self._more)
        hidden, pooled = output.last_hidden_state, output.pooler_output
        if hidden.dim() == 4:
            grid, first = hidden if min(hidden.shape[2:]) > 1 else None, hidden.mean((2, 3))
        else:
            prefix = max(0, hidden.shape[1] - self._cells) if 0 < self._cells <= hidden.shape[1] else 0
            grid, first = grid_tokens(hidden, prefix), hidden[:, 0] if prefix else hidden.mean(1)
        features = {"pooled": first if pooled is None else pooled.flatten(1)}
        return features if grid is None else {**features, "map": grid}


@register("backbone", "transformers")
class TransformersBackbone(PretrainedEncoder):
    """A vision tower of transformers; `pooled` of a dual encoder is the projected vector, without normalisation."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(EncoderConfig):
        """Code of a repository is never executed."""

        arch: str = knob("facebook/dinov2-small", "owner/name of the Hugging Face hub (perhaps @revision), or a folder")

    def _preprocessing(self) -> Preprocessing:
        transformers = _transformers()
        key, arch = self.key, self.config.arch
        folder = model_folder(arch, ("config.json", "preprocessor_config.json"), key)
        try:
            self._settings = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
            processor = transformers.AutoImageProcessor.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise InputError(f"{key}: transformers cannot read its configuration ({first_line(error)[:120]})") from None
        if unlike := _unlike(processor):
            raise InputError(f"{key}: its preprocessing has {unlike}, which this backbone does not reproduce")
        mode, size, share = _geometry(processor)
        self._published_size = size
        return Preprocessing(
            mode=mode,
            size=size,
            share=share,
            interpolation=_RESAMPLING.get(int(processor.resample), str(processor.resample)),
            normalisation=Normalisation(tuple(processor.image_mean), tuple(processor.image_std))
            if getattr(processor, "do_normalize", True)
            else Normalisation((0.0,) * 3, (1.0,) * 3),
        )

    def _published_files(self) -> list[str]:
        return weights_files(self.config.arch, self.key)

    def _network(self) -> Any:
        vision = getattr(self._settings, "vision_config", self._settings)
        excluded = {"transformers_version", "_name_or_path", "id2label", "label2id", "dtype", "architectures"}
        return {name: value for name, value in vision.to_dict().items() if name not in excluded}

    def _build(self, outputs: Sequence[str]) -> _Trunk:
        try:
            return self._trunk(_transformers().AutoModel.from_config(self._settings), outputs)
        except ValueError as error:
            raise InputError(f"{self.key}: no vision tower of transformers ({first_line(error)[:120]})") from None

    def _trunk(self, model: Any, outputs: Sequence[str]) -> _Trunk:
        size = self.transform.size
        return _Trunk(model, outputs, size, resampled=size != self._published_size)

    def _filled(self, outputs: Sequence[str], files: Sequence[str]) -> _Trunk:
        """A checkpoint of a classifier may lack the layer that pools; then the class token is the pooled vector."""
        content = {key: value for file in files for key, value in read_weights(file).items()}
        where = files[0] if len(files) == 1 else self.config.arch
        model = filled_model(_transformers().AutoModel, self._settings, content, where, optional=("pooler.",))
        if "pooler." in model.absent:
            model.network.pooler = None
            log.info("%s: has no pooling layer; the pooled vector is the class token", where)
        return self._trunk(model.network, outputs)


class FilledModel(NamedTuple):
    """A model of transformers with the weights of a file, and which of its optional parts the file lacks."""

    network: Any
    absent: frozenset[str]


def filled_model(
    auto: Any, settings: Any, content: Mapping[str, Any], where: str, optional: Sequence[str] = ()
) -> FilledModel:
    """A model of transformers with given weights, after the conversions that transformers knows.

    Args:
        auto: the class to build, such as AutoModel.
        settings: its configuration.
        content: weights by name, in the form in which they were published.
        where: the file or name for messages.
        optional: prefixes of weights that may be absent.

    Raises:
        InputError: weights are missing or have another shape.
    """
    with torch.device("meta"):
        kind: Any = type(auto.from_config(settings))
    with _quiet():
        network, report = kind.from_pretrained(
            None,
            config=settings,
            state_dict=dict(content),
            dtype=torch.float32,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    absent = {prefix for prefix in optional if any(key.startswith(prefix) for key in report["missing_keys"])}
    missing = [key for key in sorted(report["missing_keys"]) if not key.startswith(tuple(absent))]
    others = sorted(str(each[0]) for each in report["mismatched_keys"])
    if missing or others:
        faults = [f"{what[0]} and {len(what) - 1} more {word}" for what, word in _faults(missing, others)]
        raise InputError(f"{where}: not weights of this architecture: {'; '.join(faults)}")
    return FilledModel(network, frozenset(absent))


def _faults(missing: Sequence[str], others: Sequence[str]) -> list[tuple[Sequence[str], str]]:
    both = [(missing, "are missing"), (others, "have other shapes")]
    return [(keys, word) for keys, word in both if keys]


def _transformers() -> Any:
    """The library, imported so that type checkers do not read all of its models for an `import`: half a minute."""
    return optional_package("transformers", "features.backbone=transformers")


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Hide transformers' report on loading, which the caller turns into one line, and its progress bar."""
    hf_logging = _transformers().utils.logging
    level, bar = hf_logging.get_verbosity(), hf_logging.is_progress_bar_enabled()
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        hf_logging.set_verbosity(level)
        if bar:
            hf_logging.enable_progress_bar()


def _unlike(processor: Any) -> str:
    """A setting by which an image processor does other than scale to [0, 1] and normalise RGB; empty if none."""
    expected = {
        "do_resize": True,
        "do_rescale": True,
        "do_flip_channel_order": False,
        "rescale_offset": False,
        "include_top": False,
    }
    for name, value in expected.items():
        if (given := getattr(processor, name, None)) is not None and bool(given) != value:
            return f"{name}={given}"
    factor = getattr(processor, "rescale_factor", None)
    return f"rescale_factor={factor}" if factor is not None and abs(255 * factor - 1) > 1e-3 else ""


def _geometry(processor: Any) -> tuple[str, int, float]:
    """Mode, size and share of an image processor (`Preprocessing`)."""
    size, crop = dict(processor.size or {}), dict(getattr(processor, "crop_size", None) or {})
    shorter = size.get("shortest_edge")
    if getattr(processor, "do_center_crop", False) and crop:
        side = int(crop["height"])
        if shorter:
            return "crop", side, side / shorter
        squashed = size.get("height") == size.get("width") == side
        return ("scale" if squashed else f"squash to {size} and crop"), side, 1.0
    if shorter:  # ConvNeXt's
        share = getattr(processor, "crop_pct", None)
        if share is None:
            return "shorter side without a crop", int(shorter), 1.0
        return ("crop", int(shorter), share) if shorter < _SQUASHED else ("scale", int(shorter), 1.0)
    return "scale", int(size.get("height", 224)), 1.0
