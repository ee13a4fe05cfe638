"""Sentence features from a pretrained encoder, stored with the encoder's files so that they outlive its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Float32

from vse.config import fingerprint
from vse.registry import component, name_of
from vse.storage.files import entry_of
from vse.storage.folder import Folder
from vse.storage.node_cache import committed_path
from vse.text.encoder import TextEncoder
from vse.text.sentence.features import SentenceFeatures
from vse.text.tokens import words
from vse.text.word_states import lengths_of

STATES = 1  # raise it whenever the same states of tokens give other states of words


class EncoderSentenceFeatures(SentenceFeatures):
    """The pooled vector of an encoder."""

    stored_as = "encoded_sentence"

    def __init__(self, encoder: TextEncoder) -> None:
        self.encoder, self.fingerprint = encoder, encoder.fingerprint

    @property
    def dim(self) -> int:
        """Length of a sentence vector."""
        return self.encoder.dim

    def encode(self, texts: Sequence[str]) -> Float32[np.ndarray, "vectors dim"]:
        """(len(texts), dim) in single precision, in order."""
        return self.encoder.encode(texts)

    def knows(self, word: str) -> bool:
        """True: an encoder reads every word, in parts if need be."""
        return True

    def save(self, folder: Folder) -> None:
        """Write the encoder's files, one in memory at a time, and the manifest."""
        entries: dict[str, Any] = {}
        for name, path in self.encoder.files.items():
            data = path.read_bytes()
            folder.write_bytes(name, data)
            entries[name] = entry_of(data)
        encoder = {"name": name_of("encoder", self.encoder.config), "settings": asdict(self.encoder.config)}
        content = {"kind": self.stored_as, "fingerprint": self.fingerprint, "encoder": encoder}
        folder.commit_manifest(list(entries), {**content, "files": entries})

    @classmethod
    def read(cls, folder: Folder, manifest: Mapping[str, Any]) -> "EncoderSentenceFeatures":
        """What `save` wrote; files on S3 are copied to this node."""
        files = {name: committed_path(folder, manifest, name) for name in manifest["files"]}
        encoder = component("encoder", manifest["encoder"]["name"])
        config = encoder.Config(**manifest["encoder"]["settings"])
        features = cls(encoder(config, files, contents=manifest["fingerprint"]))
        features.fingerprint = manifest["fingerprint"]
        return features


class EncoderWordStates(EncoderSentenceFeatures, SentenceFeatures):
    """The states of an encoder at the words of a caption, its beginning and its end."""

    stored_as = "encoded_words"

    def __init__(self, encoder: TextEncoder) -> None:
        super().__init__(encoder)
        self.fingerprint = states_fingerprint(encoder)

    def encode(self, texts: Sequence[str]) -> Float32[np.ndarray, "vectors dim"]:
        """States of all texts, one text after the other, in single precision."""
        return self.encoder.encode_words([words(text) for text in texts])

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """States of each text."""
        return lengths_of([words(text) for text in texts])


def states_fingerprint(encoder: TextEncoder) -> str:
    """Eight digits that name an encoder's states of words."""
    return fingerprint(["states of words", STATES, encoder.fingerprint])
