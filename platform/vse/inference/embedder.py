"""Raw pictures and raw sentences to vectors of the joint space, or to their scores, from a trained run."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch import Tensor

from vse import registry
from vse.data.images import UnreadableImage, decode_image, open_image
from vse.data.places import AddressError
from vse.errors import InputError
from vse.evaluation.codes import encode_captions, encode_images
from vse.evaluation.retrieval import score_matrix, spans
from vse.features.decoding import NO_MEMORY
from vse.features.forward import Forward
from vse.features.transforms import Transform
from vse.models.family import Encoded
from vse.stages.parse import parse_texts, parser_of
from vse.stages.trained import Trained, device_of, load_checkpoint, load_run
from vse.storage.folder import Folder
from vse.text.corpus import Language, table_of
from vse.text.sentence.features import SentenceFeatures
from vse.text.tokens import as_caption, pictographs, words
from vse.training.examples import ComponentSource, SentenceVectors, Texts, encode_texts
from vse.workspace.layout import Workspace

SENTENCE = "sentence"  # folder of fitted sentence features in a packed checkpoint
PARSER = "parser"  # folder of a parser that is no package
WEIGHTS = "backbone"  # file of backbone weights, with the ending that says how to read it

IMAGES_AT_ONCE = 512  # scored together; codes of 512 maps of 49 regions and 1,024 numbers are 103 MB

Picture = bytes | str | os.PathLike[str]


@runtime_checkable
class Mixes(Protocol):
    """A family whose caption vector is mixed of two codes at inference (UniVSE: u_cap of u_sent and u_comp)."""

    @property
    def alpha(self) -> Tensor | float: ...

    def mix(self, sentences: Tensor, bags: Tensor, alpha: Tensor | float) -> Tensor: ...


class Embedder:
    """Embeds and scores with a trained family, on a GPU where torch finds one; what comes back are arrays of NumPy.

    Families that only score pairs (SCAN) give an image or a caption alone no vector; asking for one is an InputError,
    and `scores` serves every family.
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

    @classmethod
    def of_run(cls, workspace: Workspace, run: str, changes: Mapping[str, Any] | None = None) -> "Embedder":
        """From the kept checkpoint of a run in its workspace, where fitted sentence features are found too.

        changes: settings that touch inference only, as for `load_checkpoint`. Raises InputError if there is no such
        run, where it has no checkpoint, or where its sentence features are gone.
        """
        trained = load_run(workspace.existing("runs", run, "run"), dict(changes or {}))
        return cls(trained, sentence_features(trained, workspace))

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.encode_captions([""]).shape[1]

    @property
    def alpha(self) -> float | None:
        """The weight of u_sent, learned or configured, of a family that has one."""
        family = self.trained.family
        return float(torch.as_tensor(family.alpha).detach()) if isinstance(family, Mixes) else None

    def encode_images(self, pictures: Sequence[Picture]) -> Float32[np.ndarray, "pictures dim"]:
        """One vector a picture, given as the bytes of a file or as a path or address.

        Raises InputError naming the first picture that cannot be read, or where the run was trained on ready-made
        features, which no picture leads to.
        """
        parts = [np.empty((0, self.dim), np.float32)] if not pictures else []
        for features in self.features(pictures):
            parts.append(_plain(_vectors(self.trained, encode_images(self.trained.family, features), "images")))
        return np.concatenate(parts)

    def encode_captions(self, texts: Sequence[str]) -> Float32[np.ndarray, "texts dim"]:
        """One vector a sentence; the score of an image and a sentence is what the family makes of theirs.

        Raises InputError if the family reads fitted sentence features and there are none beside the checkpoint.
        """
        if not texts:
            return np.empty((0, self.dim), np.float32)
        return _plain(_caption_vectors(self.trained, encode_captions(self.trained.family, self.read(texts))))

    def scores(
        self, pictures: Sequence[Picture], texts: Sequence[str], alpha: float | None = None
    ) -> Float32[np.ndarray, "pictures texts"]:
        """How well every picture and every sentence go together: the family's own score, of any family, by which
        evaluation ranks. Scores of different families are not on one scale.

        alpha: weight of u_sent where the family has one (UniVSE); by default as configured or learned. Memory holds the
        codes of all sentences, and of so many pictures at a time. Raises InputError as `images` and `sentences` do and
        for an alpha that the family does not have, Diverged where a score is NaN.
        """
        return self.scores_of(self.features(pictures), self.read(texts), alpha)

    def scores_of(
        self, features: Iterable[np.ndarray], texts: Texts, alpha: float | None = None
    ) -> Float32[np.ndarray, "images texts"]:
        """As `scores`, of images whose features are there, in arrays (images, ...) of any length, and of sentences as
        `read` gives them."""
        family, settings = self.trained.family, self.inference_settings(alpha)
        captions = encode_captions(family, texts) if len(texts) else {}
        parts = [np.empty((0, len(texts)), np.float32)]
        for array in features:
            if not len(texts):
                parts.append(np.empty((len(array), 0), np.float32))
                continue
            for rows in spans(len(array), IMAGES_AT_ONCE):
                images = encode_images(family, array[rows])
                parts.append(_plain(score_matrix(family, images, captions, settings=settings)))
        return np.concatenate(parts)

    def features(
        self, pictures: Sequence[Picture], root: str = "", rejects: dict[int, str] | None = None
    ) -> Iterator[np.ndarray]:
        """What the run's backbone sees in pictures, as the family reads it: (pictures, ...) half floats, in batches.

        root: folder of pictures that are given by relative paths (`open_image`). rejects: takes up the numbers of
        pictures that cannot be read, with the reason, and these are left out; without it they are an InputError.
        """
        self.check_pictures()
        output, backbone, forward = self.trained.family.inputs.image, self._backbone, self._forward
        for first in range(0, len(pictures), forward.batch):
            squares = []
            for number, picture in enumerate(pictures[first : first + forward.batch], start=first):
                try:
                    squares.append(_squares(picture, root, backbone.transform))
                except UnreadableImage as error:
                    if rejects is None:
                        raise InputError(f"{_named(picture, number)}: {error.reason}") from None
                    rejects[number] = error.reason
            if squares:
                yield forward(np.stack(squares))[output]

    def read(self, texts: Sequence[str], parses: ComponentSource | None = None) -> Texts:
        """Sentences as the family reads them: their words, and what it needs beside these.

        parses: of a source that knows them all, where the family reads components; without it they are parsed here.
        """
        trained, inputs, texts = self.trained, self.trained.family.inputs, [as_caption(text) for text in texts]
        if inputs.sentence and self._sentences is None:
            raise InputError(
                f"{trained.checkpoint}: reads sentence features that lie outside it; open it with Embedder.of_run, or "
                "pack it first"
            )
        vectors = _Rounded(self._sentences) if self._sentences is not None else None
        if not inputs.components:
            parses = None
        elif parses is None and texts:
            parses = self._parsed(texts)
        return encode_texts(texts, trained.vocabulary, parses, vectors)

    def unknown_words(self, text: str) -> tuple[str, ...]:
        """The words and pictographs of a sentence that the run has never met, so that they say nothing to it."""
        caption = as_caption(text)
        found = dict.fromkeys(word for word in words(caption) if any(map(str.isalnum, word)))
        return (*(word for word in found if word not in self._known_words), *dict.fromkeys(pictographs(caption)))

    def check_pictures(self) -> None:
        """Raises InputError if the run was trained on ready-made features, which no picture leads to."""
        if not hasattr(self._backbone, "transform"):
            raise InputError(f"{self.trained.checkpoint}: trained on ready-made features, so it cannot read pictures")

    def inference_settings(self, alpha: float | None) -> dict[str, float]:
        """What the family's `combine` is told of an alpha. Raises InputError for one that it does not have."""
        if alpha is None:
            return {}
        if "alpha" not in self.trained.family.inference_parameters:
            name = registry.name_of("family", self.trained.config.model)
            raise InputError(f"alpha={alpha:g}: family {name} of {self.trained.checkpoint} has none; leave it out")
        if not 0 <= alpha <= 1:
            raise InputError(f"alpha={alpha:g}: must be between 0 and 1")
        return {"alpha": alpha}

    def _parsed(self, texts: Iterable[str]) -> Language:
        distinct = list(dict.fromkeys(texts))
        return Language("", table_of(distinct, parse_texts(distinct, parser_of(self.trained.config))))

    @cached_property
    def _known_words(self) -> Set[str]:
        """Of the vocabulary, or those with a vector where vectors of whole sentences are read."""
        return self.trained.vocabulary.ids.keys() if self._sentences is None else frozenset(self._sentences.words)

    @cached_property
    def _forward(self) -> Forward:
        return Forward(self._backbone.config, (self.trained.family.inputs.image,))

    @cached_property
    def _backbone(self) -> Any:
        return registry.build("backbone", self.trained.config.features.backbone)


class _Rounded:
    """Sentence features in the half precision in which training read them."""

    def __init__(self, features: SentenceFeatures) -> None:
        self.features = features

    def vectors(self, texts: Sequence[str]) -> SentenceVectors:
        return SentenceVectors(self.features.encode(texts).astype(np.float16), np.arange(len(texts)))


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


def sentence_features(trained: Trained, workspace: Workspace) -> SentenceFeatures | None:
    """The fitted features of sentences that a run's family reads, from the workspace of the run; None if it reads
    none. Raises InputError if they are gone."""
    if not trained.family.inputs.sentence:
        return None
    digits = trained.checkpoint.read_json("context.json")["fingerprints"]["sentences"]
    language = workspace.root.child("language")
    for dataset in language.names():
        fit = language.child(dataset, digits, "fit")
        if fit.read_manifest(checksums=False) is not None:
            return SentenceFeatures.open(fit)
    raise InputError(f"{language}: the fitted sentence features {digits} of this run are gone; run its training again")


def _squares(picture: Picture, root: str, transform: Transform) -> UInt8[np.ndarray, "crops size size 3"]:
    """Raises UnreadableImage for all that is wrong with one picture."""
    try:
        return transform(decode_image(picture) if isinstance(picture, bytes) else open_image(os.fspath(picture), root))
    except MemoryError:
        raise UnreadableImage(NO_MEMORY) from None
    except AddressError as error:  # its path leaves the root
        raise UnreadableImage(str(error)) from None


def _named(picture: Picture, number: int) -> str:
    return f"image {number}" if isinstance(picture, bytes) else f"image {number}, {os.fspath(picture)}"


def _plain(vectors: Tensor) -> np.ndarray:
    return vectors.float().cpu().numpy()
