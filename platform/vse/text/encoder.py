"""Pretrained text encoders, frozen: a folder that Hugging Face's transformers reads, or a name on its hub."""

import logging
import tempfile
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float32
from safetensors import SafetensorError

from vse.config import fingerprint, knob
from vse.errors import InputError, first_line
from vse.registry import ComponentConfig, register
from vse.storage.files import local_path
from vse.storage.hub import hub_folder, optional_package
from vse.storage.user_files import digest, refuse_placeholder
from vse.text.word_states import lengths_of, shares

log = logging.getLogger(__name__)

REVISION = 1  # raise it whenever the same files and captions give other vectors
POOLINGS = ("mean", "cls", "last", "projected")
BATCH = 64  # captions of equal length at a time
_NO_LIMIT = 10**6  # a tokenizer without a maximum length names 10^30, which the library itself cannot truncate to
_NEEDED = "config.json"
_WEIGHTS = (".safetensors", ".bin")
_READ = (".json", ".txt", ".model", *_WEIGHTS)  # of a folder that save_pretrained wrote


@register("encoder", "none")
class NoEncoder:
    """No pretrained text encoder: words have vectors of their own."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """Nothing to set."""

    def __init__(self, config: Config) -> None:
        self.config = config


class TextEncoder(ABC):
    """One vector of a caption, by a frozen pretrained model.

    Args:
        config: the encoder's own `Config`.
        files: of the model, by name; by default the files that `config` names.
        contents: the `fingerprint` if it is known; the files are then not read before they are used.

    Attributes:
        by_word: whether it gives states of words.
    """

    by_word: ClassVar[bool] = False

    def __init__(self, config: Any, files: Mapping[str, Path] | None = None, contents: str = "") -> None:
        self.config: Any = config
        self._given, self._contents = files, contents

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """The files of the model by name. Raises InputError if there is no such model."""
        return dict(self._given) if self._given is not None else self._published()

    @cached_property
    def fingerprint(self) -> str:
        """Eight digits that name the vectors: contents of all files, and settings that change the vectors."""
        contents = {name: digest(str(path)) for name, path in sorted(self.files.items())} if not self._contents else {}
        return self._contents or fingerprint([*self._settings(), contents])

    @abstractmethod
    def _published(self) -> dict[str, Path]:
        """The files that the configuration names."""

    @abstractmethod
    def _settings(self) -> list[object]:
        """What changes the vectors besides the files."""

    @abstractmethod
    def check(self) -> None:
        """Raises InputError if a package is missing, or the files of the model."""

    @cached_property
    @abstractmethod
    def dim(self) -> int:
        """Length of a vector."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Float32[np.ndarray, "texts dim"]:
        """One vector for each text, in order. Texts that are longer than the model reads are cut, with a warning."""

    def encode_words(self, captions: Sequence[Sequence[str]]) -> Float32[np.ndarray, "states dim"]:
        """States of the words of captions, one caption after the other, as many as `lengths_of` says of each.

        Args:
            captions: lower-case words.
        """
        raise TypeError(f"{type(self).__name__} gives no word states")


@register("encoder", "transformers")
class TransformersEncoder(TextEncoder):
    """Vectors of captions from a frozen encoder of Hugging Face's transformers.

    Captions of equal length are encoded together, without padding: a vector does not depend on its neighbours, and
    decoders without a padding token serve as well. The model is loaded when the first caption is encoded.
    """

    by_word = True

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """The model card names the pooling that a model was trained with."""

        model: str = knob("", "folder that save_pretrained wrote, or a name on the Hugging Face hub")
        pooling: str = knob(
            "mean",
            "vector of a caption: mean of its tokens, the first, or the last; projected: as in CLIP",
            choices=POOLINGS,
            only="text.sentence=encoder",
        )
        unit: bool = knob(True, "scale vectors to unit length", only="text.sentence=encoder")
        max_tokens: int = knob(0, "longer captions are truncated and counted; 0: the model's maximum", low=0)

    def _published(self) -> dict[str, Path]:
        return files_of(self.config.model)

    def _settings(self) -> list[object]:
        c = self.config
        return ["transformers", REVISION, c.pooling, c.unit, c.max_tokens]

    def check(self) -> None:
        """Raises InputError if transformers is not installed, or there is no such model."""
        import_transformers()
        assert self.files

    @cached_property
    def dim(self) -> int:
        """Length of a vector."""
        if self.config.pooling == "projected":
            return self._projected(["a"]).shape[1]
        return int(self._model.config.hidden_size)

    def encode(self, texts: Sequence[str]) -> Float32[np.ndarray, "texts dim"]:
        """One vector for each text, in order. Texts that are longer than the model reads are cut, with a warning."""
        encoded = np.empty((len(texts), self.dim), dtype=np.float32)
        for rows, vectors in self._pooled(texts):
            vectors = torch.nn.functional.normalize(vectors, dim=1) if self.config.unit else vectors
            encoded[rows] = vectors.cpu().numpy()
        return encoded

    def encode_words(self, captions: Sequence[Sequence[str]]) -> Float32[np.ndarray, "states dim"]:
        """States of words, means over their tokens (see `word_states`); zero for words beyond the maximum length."""
        if not self._tokenizer.is_fast:
            raise InputError(
                f"text.encoder.model={self.config.model}: has no fast tokenizer, so its tokens cannot be assigned "
                "to words; use a model with a tokenizer.json, or text.sentence=encoder"
            )
        texts, lengths = [" ".join(words) for words in captions], lengths_of(captions)
        encoded = np.zeros((int(lengths.sum()), self.dim), dtype=np.float32)
        if not texts:
            return encoded
        places = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
        tokens = self._tokenizer(texts, truncation=True, max_length=self._limit, **places)
        ends = np.cumsum(lengths)
        for rows, states in self._states(texts):
            for row, of_tokens in zip(rows, states.cpu().numpy(), strict=True):
                mixed = shares(captions[row], tokens["offset_mapping"][row], tokens["special_tokens_mask"][row])
                encoded[ends[row] - lengths[row] : ends[row]] = mixed @ of_tokens
        return encoded

    def _pooled(self, texts: Sequence[str]) -> Iterator[tuple[Sequence[int], torch.Tensor]]:
        """(numbers of some texts, their vectors (texts, dim) before scaling)."""
        pooling = self.config.pooling
        if pooling == "projected":
            for low in range(0, len(texts), BATCH):
                some = texts[low : low + BATCH]
                yield range(low, low + len(some)), self._projected(some)
            return
        for rows, states in self._states(texts):
            yield rows, states.mean(1) if pooling == "mean" else states[:, 0 if pooling == "cls" else -1]

    @torch.inference_mode()
    def _projected(self, texts: Sequence[str]) -> torch.Tensor:
        """Vectors (texts, dim) in the space of images. Texts are padded to one length, as dual encoders are trained."""
        limit = self._limit
        self._warn_long([len(each) for each in self._tokenizer(list(texts))["input_ids"]], limit)
        tokens = self._tokenizer(
            list(texts), padding="max_length", truncation=True, max_length=limit, return_tensors="pt"
        )
        if self._model.config.model_type.startswith("siglip"):  # trained on padded texts without a mask
            tokens.pop("attention_mask", None)
        vectors = self._model.get_text_features(**tokens.to(next(self._model.parameters()).device))
        return getattr(vectors, "pooler_output", vectors).float()

    def _warn_long(self, lengths: Sequence[int], limit: int) -> bool:
        """Whether some captions have more tokens than are read, said in one line."""
        long = sum(length > limit for length in lengths)
        if long:
            log.warning(
                "text.encoder.model=%s: %d of %d captions have more than %d tokens and are truncated",
                self.config.model, long, len(lengths), limit,
            )  # fmt: skip
        return bool(long)

    def _states(self, texts: Sequence[str]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """(numbers of some texts, their states (texts, tokens, dim)), texts of equal length together."""
        ids, limit = self._tokenizer(list(texts))["input_ids"] if texts else [], self._limit
        if self._warn_long([len(each) for each in ids], limit):
            ids = self._tokenizer(list(texts), truncation=True, max_length=limit)["input_ids"]
        by_length: dict[int, list[int]] = defaultdict(list)
        for row, each in enumerate(ids):
            by_length[len(each)].append(row)
        device = next(self._model.parameters()).device
        for length, rows in sorted(by_length.items()):
            if not length:
                raise InputError(
                    f"text.encoder.model={self.config.model}: produces no tokens for the caption {texts[rows[0]]!r}; "
                    "use a model whose tokenizer adds special tokens, or leave the caption out"
                )
            for low in range(0, len(rows), BATCH):
                some = rows[low : low + BATCH]
                tokens = torch.tensor([ids[row] for row in some], device=device)
                yield some, self._model(input_ids=tokens).last_hidden_state.float()

    @property
    def _limit(self) -> int:
        """Tokens that are read of a caption, special ones included."""
        settings = getattr(self._model.config, "text_config", self._model.config)
        positions = getattr(settings, "max_position_embeddings", 0) or 0
        positions -= self._first_position
        limits = (self.config.max_tokens, self._tokenizer.model_max_length, positions)
        return min((limit for limit in limits if 0 < limit < _NO_LIMIT), default=512)

    @property
    def _first_position(self) -> int:
        """The position of the first token: RoBERTa and its kind count from behind the id of the padding."""
        embeddings = getattr(self._model, "embeddings", None)
        padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
        return 0 if padding is None else padding + 1

    @cached_property
    def _tokenizer(self) -> Any:
        return self._loaded[0]

    @cached_property
    def _model(self) -> Any:
        return self._loaded[1]

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """(tokenizer, model), from a folder with links to the files."""
        transformers = import_transformers()
        name = f"text.encoder.model={self.config.model}"
        for file, path in self.files.items():
            refuse_placeholder(str(path), f"{name}: {file}")
        with tempfile.TemporaryDirectory() as folder:
            for file, path in self.files.items():
                (Path(folder) / file).symlink_to(path.resolve())
            try:
                read = {"local_files_only": True, "trust_remote_code": False}
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **read)
                model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32, **read)
            except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
                raise InputError(f"{name}: cannot be loaded ({first_line(error)})") from error
        if self.config.pooling == "projected":
            if not hasattr(model, "get_text_features"):
                raise InputError(
                    f"{name}: is a {type(model).__name__}, which projects no texts; use another text.encoder.pooling"
                )
            if hasattr(model, "vision_model"):  # backbones read the images
                del model.vision_model
        else:
            model = model.get_encoder() if model.config.is_encoder_decoder else model
            if not hasattr(model.config, "hidden_size"):
                raise InputError(
                    f"{name}: is a {type(model).__name__}, which reads more than text; name a model of text alone, or "
                    "use text.encoder.pooling=projected"
                )
        return tokenizer, model.eval().requires_grad_(False).to("cuda" if torch.cuda.is_available() else "cpu")


def import_transformers() -> Any:
    """The library, silent about its own progress. Raises InputError if it is not installed."""
    transformers: Any = optional_package("transformers", "text.encoder=transformers")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def files_of(model: str) -> dict[str, Path]:
    """The files of a model by name: configuration, tokenizer and weights.

    Args:
        model: a folder, or a name on the Hugging Face hub, perhaps with @revision, which is downloaded once into the
            hub's own cache.

    Raises:
        InputError: no model is named, or the folder or the name holds none.
    """
    if not model:
        raise InputError("text.encoder.model: name a folder that save_pretrained wrote, or a model on the hub")
    folder = local_path(model)
    if not folder.is_dir():
        import_transformers()
        folder = hub_folder(model, [f"*{suffix}" for suffix in _READ], "text.encoder.model")
    files = {path.name: path for path in sorted(folder.iterdir()) if path.is_file() and path.suffix in _READ}
    weights = [name for name in files if name.endswith(_WEIGHTS)]
    if any(name.endswith(".safetensors") for name in weights):  # the same weights are often there in both forms
        files = {name: path for name, path in files.items() if not name.endswith(".bin")}
    if _NEEDED not in files or not weights:
        lacks = _NEEDED if _NEEDED not in files else "weights (*.safetensors)"
        raise InputError(f"text.encoder.model={model}: has no {lacks}; name a folder that save_pretrained wrote")
    return files
