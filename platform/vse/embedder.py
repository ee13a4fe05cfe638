"""Raw pictures and raw sentences to vectors of the joint space, from a checkpoint alone."""

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from vse import registry
from vse.data.examples import encode_texts
from vse.data.images import UnreadableImage, decode_image, open_image
from vse.errors import InputError
from vse.evaluation.codes import encode_captions, encode_images
from vse.features.decoding import NO_MEMORY
from vse.features.forward import Forward
from vse.features.transforms import Transform
from vse.language.corpus import Language, table_of
from vse.language.parsing import parse_texts
from vse.language.sentence.features import SentenceFeatures
from vse.language.tokens import nfc
from vse.models.family import Encoded
from vse.pipeline import parser_of
from vse.storage import Folder
from vse.trained import Trained, device_of, load_checkpoint

SENTENCE = "sentence"  # folder of fitted sentence features in a packed checkpoint
PARSER = "parser"  # folder of a parser that is no package
WEIGHTS = "backbone"  # file of backbone weights, with the ending that says how to read it

Picture = bytes | str | os.PathLike[str]


@runtime_checkable
class Mixes(Protocol):
    """A family whose caption vector is mixed of two codes at inference (UniVSE: u_cap of u_sent and u_comp)."""

    @property
    def alpha(self) -> Tensor | float: ...

    def mix(self, sentences: Tensor, bags: Tensor, alpha: Tensor | float) -> Tensor: ...


class Embedder:
    """Embeds with a trained family, on a GPU where torch finds one; vectors come back as arrays of NumPy.

    Families that only score pairs (SCAN) give an image or a caption alone no vector; asking for one is an InputError.
    """

    def __init__(self, trained: Trained, sentences: SentenceFeatures | None = None) -> None:
        """`sentences`: the fitted features of a family that reads vectors of whole sentences."""
        self.trained, self._sentences = trained.to(device_of("auto")), sentences

    @classmethod
    def open(cls, folder: Folder) -> "Embedder":
        """From a checkpoint, or from a packed one (`served_model.pack`), which brings all it needs from outside."""
        names = folder.names()
        changes: dict[str, Any] = {}
        for name in names:
            if name.partition(".")[0] == WEIGHTS:
                changes["features.backbone.weights"] = str(folder.local(name))
        if PARSER in names:
            changes["text.parser.pipeline"] = str(folder.local(PARSER))
        sentences = SentenceFeatures.open(folder.child(SENTENCE)) if SENTENCE in names else None
        return cls(load_checkpoint(folder, changes), sentences)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.sentences([""]).shape[1]

    def images(self, pictures: Sequence[Picture]) -> Float32[np.ndarray, "pictures dim"]:
        """One vector a picture, given as the bytes of a file or as a path or address.

        Raises InputError naming the first picture that cannot be read, or where the run was trained on ready-made
        features, which no picture leads to.
        """
        forward, inputs = self._forward, self.trained.family.inputs
        backbone: Any = registry.build("backbone", self.trained.config.features.backbone)
        parts = [np.empty((0, self.dim), np.float32)] if not pictures else []
        for start in range(0, len(pictures), forward.batch):
            some = enumerate(pictures[start : start + forward.batch], start=start)
            pixels = np.stack([_squares(picture, number, backbone.transform) for number, picture in some])
            codes = encode_images(self.trained.family, forward(pixels)[inputs.image])
            parts.append(_plain(_vectors(self.trained, codes, "images")))
        return np.concatenate(parts)

    def sentences(self, texts: Sequence[str]) -> Float32[np.ndarray, "texts dim"]:
        """One vector a sentence; the score of an image and a sentence is what the family makes of theirs.

        Raises InputError where the family reads fitted sentence features and the checkpoint was not packed with them.
        """
        trained, inputs, texts = self.trained, self.trained.family.inputs, [nfc(text) for text in texts]
        if not texts:
            return np.empty((0, self.dim), np.float32)
        if inputs.sentence and self._sentences is None:
            raise InputError(f"{trained.checkpoint}: reads sentence features that lie outside it; pack it first")
        vectors = _Rounded(self._sentences) if self._sentences is not None else None
        parses = self._parsed(texts) if inputs.components else None
        encoded = encode_captions(trained.family, encode_texts(texts, trained.vocabulary, parses, vectors))
        return _plain(_caption_vectors(trained, encoded))

    def _parsed(self, texts: Iterable[str]) -> Language:
        distinct = list(dict.fromkeys(texts))
        return Language("", table_of(distinct, parse_texts(distinct, parser_of(self.trained.config))))

    @cached_property
    def _forward(self) -> Forward:
        trained = self.trained
        backbone: Any = registry.build("backbone", trained.config.features.backbone)
        if not hasattr(backbone, "transform"):
            raise InputError(f"{trained.checkpoint}: trained on ready-made features, so it cannot read pictures")
        return Forward(trained.config.features.backbone, (trained.family.inputs.image,))


class _Rounded:
    """Sentence features in the half precision in which training read them."""

    def __init__(self, features: SentenceFeatures) -> None:
        self.features = features

    def array(self, texts: Sequence[str]) -> np.ndarray:
        return self.features.encode(texts).astype(np.float16).astype(np.float32)


def _caption_vectors(trained: Trained, codes: Encoded) -> Tensor:
    """(captions, dim): the one code of a caption, or its mix at the configured or learned weight."""
    family = trained.family
    with torch.inference_mode():
        if isinstance(family, Mixes):
            return family.mix(codes["sentences"], codes["bags"], family.alpha)
    return _vectors(trained, codes, "captions")


def _vectors(trained: Trained, codes: Encoded, key: str) -> Tensor:
    if key not in codes or codes[key].ndim != 2:
        name = registry.name_of("family", trained.config.model)
        raise InputError(f"{trained.checkpoint}: {name} scores pairs; an image or a caption alone has no vector")
    return codes[key]


def _squares(picture: Picture, number: int, transform: Transform) -> UInt8[np.ndarray, "crops size size 3"]:
    try:
        return transform(decode_image(picture) if isinstance(picture, bytes) else open_image(os.fspath(picture)))
    except (UnreadableImage, MemoryError) as error:
        named = f"image {number}" if isinstance(picture, bytes) else f"image {number}, {os.fspath(picture)}"
        reason = error.reason if isinstance(error, UnreadableImage) else NO_MEMORY
        raise InputError(f"{named}: {reason}") from None


def _plain(vectors: Tensor) -> np.ndarray:
    return vectors.float().cpu().numpy()
