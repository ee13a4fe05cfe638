"""Sentence features from a pretrained encoder, stored with the encoder's files so that they outlive its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Float32

from vse.registry import component, name_of
from vse.storage.files import entry_of
from vse.storage.folder import Folder
from vse.storage.node_cache import committed_path
from vse.text.encoder import TextEncoder
from vse.text.sentence.features import SentenceFeatures


class EncoderSentenceFeatures(SentenceFeatures):
    """The pooled vector of an encoder."""

    stored_as = "encoded_sentence"

    def __init__(self, encoder: TextEncoder) -> None:
        self.encoder, self.fingerprint = encoder, encoder.fingerprint

    @property
    def dim(self) -> int:
        """Length of a sentence vector."""
        return self.encoder.dim

    def encode(self, texts: Sequence[str]) -> Float32[np.ndarray, "texts dim"]:
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
        return cls(encoder(config, files, contents=manifest["fingerprint"]))
