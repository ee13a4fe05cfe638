"""Fitted sentence features: one vector for any text. Stored as plain files with a manifest."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from vse.errors import InputError
from vse.storage.folder import Folder
from vse.storage.node_cache import read_committed
from vse.text.sentence.bags import Bags, bags_of, mean_vectors
from vse.text.sentence.fisher import fisher_vectors
from vse.text.sentence.mixture import Mixture
from vse.text.sentence.pca import PCA
from vse.text.word_vectors import load_array, save_array

BLOCK = 512  # captions at a time; 18,000 single floats each are 37 MB

_WORDS = "words.json"
_MIXTURE = ("weights", "location", "scale", "laplacian")
_PCA = ("mean", "components", "variance")


class SentenceFeatures(ABC):
    """One vector for any text. `fingerprint` are eight digits that name the vectors."""

    stored_as: ClassVar[str]  # `kind` in the manifest
    fingerprint: str

    @property
    @abstractmethod
    def dim(self) -> int:
        """Length of a sentence vector."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Float[np.ndarray, "texts dim"]:
        """(len(texts), dim) in single precision, in order. Attacked and unseen captions are encoded in the same way."""

    def lengths(self, texts: Sequence[str]) -> np.ndarray | None:
        """How many vectors each text has, if that is one for each word; None if each text has one.

        `encode` then returns those of all texts one after the other.
        """
        return None

    @abstractmethod
    def knows(self, word: str) -> bool:
        """Whether the word changes the vectors of its captions."""

    @abstractmethod
    def save(self, folder: Folder) -> None:
        """Write files and manifest."""

    @classmethod
    @abstractmethod
    def read(cls, folder: Folder, manifest: Mapping[str, Any]) -> "SentenceFeatures":
        """What `save` wrote. Raises FileNotFoundError if a file is missing."""

    @staticmethod
    def open(folder: Folder) -> "SentenceFeatures":
        """Read what `save` wrote. Raises InputError if the folder holds no complete sentence features."""
        manifest = folder.manifest_alone() or {}
        for features in SentenceFeatures.__subclasses__():
            if features.stored_as == manifest.get("kind"):
                try:
                    return features.read(folder, manifest)
                except FileNotFoundError:
                    break
        raise InputError(f"{folder.uri}: holds no complete sentence features")


@dataclass(frozen=True, eq=False)
class WordSentenceFeatures(SentenceFeatures):
    """Mean of word vectors, or a Fisher vector under `mixture`, followed by `pca` if there is one.

    Words without a vector are ignored. A text without any known word is the zero vector before `pca`.
    """

    stored_as = "sentence"

    words: tuple[str, ...]
    vectors: Float[np.ndarray, "words D"]
    mixture: Mixture | None
    power: float
    pca: PCA | None
    fingerprint: str  # pyrefly: ignore[bad-override]  # frozen here, and nothing sets another one's

    @property
    def dim(self) -> int:
        """Length of a sentence vector."""
        if self.pca is not None:
            return len(self.pca.components)
        return self.vectors.shape[1] if self.mixture is None else 2 * self.mixture.location.size

    @cached_property
    def _row(self) -> dict[str, int]:
        return {word: k for k, word in enumerate(self.words)}

    @cached_property
    def _responsibilities(self) -> np.ndarray:
        assert self.mixture is not None
        return self.mixture.responsibilities(self.vectors.astype(np.float64)).astype(np.float32)

    def bags(self, texts: Sequence[str]) -> Bags:
        """Known words of each text."""
        return bags_of(texts, self._row)

    def unreduced(self, bags: Bags) -> Float[np.ndarray, "captions dim"]:
        """Before `pca`."""
        if self.mixture is None:
            return mean_vectors(bags, self.vectors)
        return fisher_vectors(self.mixture, self.vectors, self._responsibilities, bags, self.power)

    def knows(self, word: str) -> bool:
        """Whether the word has a vector."""
        return word in self._row

    def encode(self, texts: Sequence[str]) -> Float[np.ndarray, "texts dim"]:
        """(len(texts), dim) in single precision, in order."""
        encoded = np.empty((len(texts), self.dim), dtype=np.float32)
        at = 0
        for block in self.blocks(self.bags(texts)):
            encoded[at : at + len(block)] = block if self.pca is None else self.pca.project(block)
            at += len(block)
        return encoded

    def blocks(self, bags: Bags) -> Iterator[np.ndarray]:
        """Unreduced vectors, block by block."""
        for low in range(0, len(bags), BLOCK):
            yield self.unreduced(bags.slice(low, min(low + BLOCK, len(bags))))

    def save(self, folder: Folder) -> None:
        """Write arrays and manifest."""
        arrays = {"vectors": self.vectors}
        if self.mixture is not None:
            arrays |= {f"mixture-{name}": getattr(self.mixture, name) for name in _MIXTURE}
        if self.pca is not None:
            arrays |= {f"pca-{name}": getattr(self.pca, name) for name in _PCA}
        entries = {f"{name}.npy": save_array(folder, f"{name}.npy", values) for name, values in arrays.items()}
        folder.write_json(_WORDS, list(self.words))
        content = {"kind": self.stored_as, "fingerprint": self.fingerprint, "dim": self.dim, "power": self.power}
        folder.commit_manifest([*entries, _WORDS], {**content, "files": entries})

    @classmethod
    def read(cls, folder: Folder, manifest: Mapping[str, Any]) -> "WordSentenceFeatures":
        """What `save` wrote."""
        arrays = {
            name.removesuffix(".npy"): load_array(folder, name, manifest, mapped=name == "pca-components.npy")
            for name in manifest["files"]
            if name.endswith(".npy")
        }
        words = tuple(json.loads(read_committed(folder, manifest, _WORDS)))
        return cls(
            words,
            arrays["vectors"],
            Mixture(*(arrays[f"mixture-{name}"] for name in _MIXTURE)) if "mixture-weights" in arrays else None,
            manifest["power"],
            PCA(*(arrays[f"pca-{name}"] for name in _PCA)) if "pca-mean" in arrays else None,
            manifest["fingerprint"],
        )
