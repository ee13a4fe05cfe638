"""Text towers of open_clip: captions in the space of the images of a dual encoder."""

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32

from vse.config import knob
from vse.errors import InputError
from vse.registry import ComponentConfig, register
from vse.storage.hub import FOLDER, hub_file
from vse.storage.open_clip_models import CONFIG, OpenClipModel
from vse.storage.user_files import is_file, local
from vse.storage.weights import load_weights, read_weights
from vse.text.encoder import BATCH, TextEncoder

log = logging.getLogger(__name__)

REVISION = 1  # raise it whenever the same files and captions give other vectors
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "spiece.model")
_WEIGHTS = "weights"  # its suffix names the format


@register("encoder", "open_clip")
class OpenClipEncoder(TextEncoder):
    """Unit vectors of captions. Captions are padded to the context of the model, as it was trained."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """The keys of the backbone `open_clip`: both towers are of one model."""

        arch: str = knob("ViT-B-32", "a name in open_clip, hf-hub:owner/name, or local-dir:FOLDER")
        weights: str = knob("default", "a published tag, a weights file (path or s3://), or random")
        seed: int = knob(0, "seed of random weights", low=0, only="weights=random")

    @cached_property
    def _source(self) -> OpenClipModel:
        return OpenClipModel(self.config.arch, self.config.weights, "text.encoder")

    def _published(self) -> dict[str, Path]:
        model, weights, files = self._source, self.config.weights, dict[str, Path]()
        if weights != "random":
            path = local(weights) if is_file(weights) else Path(model.published_file())
            files[_WEIGHTS + path.suffix] = path
        if not model.named:
            files[CONFIG] = model.file(CONFIG)
        if repository := model.settings["text_cfg"].get("hf_tokenizer_name"):
            folder = Path(self.config.arch.removeprefix(FOLDER)) if self.config.arch.startswith(FOLDER) else None
            if folder is None:
                folder = hub_file(repository, _TOKENIZER[:1], model.key).parent
                hub_file(repository, _TOKENIZER[1:2], model.key)
            files |= {name: folder / name for name in _TOKENIZER if (folder / name).is_file()}
        return files

    def _settings(self) -> list[object]:
        seed = self.config.seed if self.config.weights == "random" else None
        return ["open_clip", REVISION, self.config.arch if self._named else "", seed]

    @property
    def _named(self) -> bool:
        return CONFIG not in self.files

    def check(self) -> None:
        """Raises InputError if open_clip is not installed, or there is no such model."""
        assert self._source.settings
        _ = self.files

    @cached_property
    def dim(self) -> int:
        """Length of a vector."""
        return int(self._loaded[1]["embed_dim"])

    @torch.inference_mode()
    def encode(self, texts: Sequence[str]) -> Float32[np.ndarray, "texts dim"]:
        """One vector for each text, in order. Texts that are longer than the model reads are cut, with a warning."""
        tokenizer, settings, tower = self._loaded
        encoded = np.empty((len(texts), settings["embed_dim"]), dtype=np.float32)
        device = next(tower.parameters()).device
        if long := sum(_tokens(tokenizer, text) > tokenizer.context_length for text in texts):
            log.warning(
                "text.encoder.arch=%s: %d of %d captions have more than %d tokens and are truncated",
                self.config.arch, long, len(texts), tokenizer.context_length,
            )  # fmt: skip
        for low in range(0, len(texts), BATCH):
            tokens = tokenizer(list(texts[low : low + BATCH]))
            vectors = torch.nn.functional.normalize(tower(tokens.to(device)).float(), dim=1)
            encoded[low : low + BATCH] = vectors.cpu().numpy()
        return encoded

    @cached_property
    def _loaded(self) -> tuple[Any, dict[str, Any], Any]:
        """(tokenizer, settings of the model, text tower), from a folder with links to the files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, path in self.files.items():
                (Path(folder) / name).symlink_to(path.resolve())
            arch = self.config.arch if self._named else f"{FOLDER}{folder}"
            settings = OpenClipModel(arch, "", "text.encoder").settings
            tokenizer = self._tokenizer(settings["text_cfg"], folder)
        return tokenizer, settings, self._tower(settings)

    def _tokenizer(self, text: dict[str, Any], folder: str) -> Any:
        from open_clip.tokenizer import DEFAULT_CONTEXT_LENGTH, HFTokenizer, SimpleTokenizer

        length, more = text.get("context_length", DEFAULT_CONTEXT_LENGTH), text.get("tokenizer_kwargs", {})
        if not text.get("hf_tokenizer_name"):
            return SimpleTokenizer(context_length=length, **more)
        return HFTokenizer(folder, context_length=length, tokenizer_mode=text.get("tokenizer_mode"), **more)

    def _tower(self, settings: dict[str, Any]) -> Any:
        from open_clip.model import _build_text_tower

        text: Any = {**settings["text_cfg"], "hf_model_pretrained": False}
        weights = next((path for name, path in self.files.items() if name.startswith(_WEIGHTS)), None)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.config.seed)
            try:
                tower = _build_text_tower(settings["embed_dim"], text, bool(settings.get("quick_gelu", False)))
            except OSError:  # of transformers, whose configuration of the tower is on the hub
                raise InputError(
                    f"text.encoder.arch={self.config.arch}: the configuration of its text tower, "
                    f"{text['hf_model_name']}, is not in the cache of Hugging Face and cannot be downloaded"
                ) from None
        if weights is not None:
            content = {k: v for k, v in read_weights(str(weights)).items() if not k.endswith("position_ids")}
            load_weights(tower, content, str(weights))
        return tower.eval().requires_grad_(False).to("cuda" if torch.cuda.is_available() else "cpu")


def _tokens(tokenizer: Any, text: str) -> int:
    """Tokens of a text with both markers, before it is cut."""
    inner = getattr(tokenizer, "tokenizer", None)
    if inner is not None:
        return len(inner(text)["input_ids"])
    return len(tokenizer.encode(tokenizer.clean_fn(text))) + 2
