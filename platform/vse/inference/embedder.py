"""Vectors and scores of raw pictures and sentences, from a trained run."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from vse import registry
from vse.data.images import UnreadableImage
from vse.errors import InputError
from vse.evaluation.codes import encode_captions, encode_images
from vse.evaluation.item_vectors import Mixes, alpha_of, scores_by_product
from vse.evaluation.jacobians import occurrence_texts
from vse.evaluation.relevance_maps import Grid, Rectangle
from vse.evaluation.retrieval import score_matrix, spans
from vse.evaluation.saliency import SaliencyReader
from vse.features.decoding import read_squares
from vse.features.forward import Forward
from vse.inference.items import caption_of, captions_of, listed, source_of
from vse.inference.picture_maps import Picture, PictureSaliency, RelevanceMap, picture_of
from vse.models.family import Encoded
from vse.stages.parse import parse_texts, parser_of
from vse.stages.trained import Trained, device_of, load_checkpoint, load_run, read_config
from vse.storage.folder import Folder
from vse.text.corpus import Language, table_of
from vse.text.sentence.features import SentenceFeatures
from vse.text.tokens import as_caption, bare_words, pictographs
from vse.training.config import regions_from_maps
from vse.training.examples import ComponentSource, SentenceVectors, Texts, encode_texts
from vse.workspace.layout import Workspace

SENTENCE = "sentence"  # folder of fitted sentence features in a packed checkpoint
PARSER = "parser"  # folder of a parser that is not an installed package
ARCHITECTURE = "architecture"  # folder of a pretrained backbone that is not on a hub
LOCAL = "local-dir:"  # how timm and open_clip mark a folder
WEIGHTS = "backbone"  # file of backbone weights; its suffix names the format

IMAGES_AT_ONCE = 512  # in one block of scores; codes of 512 maps of 49 regions and 1,024 numbers are 103 MB


class Embedder:
    """Embeds and scores with a trained family, on a GPU if torch finds one, otherwise on the CPU.

    Families that only score pairs (SCAN) have no vector of a single image or caption; `encode_images` and
    `encode_captions` raise InputError for them. `scores` works for every family.
    """

    def __init__(self, trained: Trained, sentences: SentenceFeatures | None = None) -> None:
        """`sentences`: the fitted features of a family that reads vectors of whole sentences."""
        self.trained, self._sentences = trained.to(device_of("auto")), sentences

    @classmethod
    def open(cls, folder: Folder) -> "Embedder":
        """From a checkpoint, or from a packed model (`served_model.pack`), which contains all external files."""
        names = folder.names()
        changes: dict[str, Any] = {}
        for name in names:
            if name.partition(".")[0] == WEIGHTS:
                changes["features.backbone.weights"] = str(folder.local(name))
        if PARSER in names:
            changes["text.parser.pipeline"] = str(folder.local(PARSER))
        if ARCHITECTURE in names:
            mark = LOCAL if getattr(read_config(folder).features.backbone, "arch", "").startswith(LOCAL) else ""
            changes["features.backbone.arch"] = f"{mark}{folder.local(ARCHITECTURE)}"
        sentences = SentenceFeatures.open(folder.child(SENTENCE)) if SENTENCE in names else None
        return cls(load_checkpoint(folder, changes), sentences)

    @classmethod
    def of_run(cls, workspace: Workspace, run: str, changes: Mapping[str, Any] | None = None) -> "Embedder":
        """From the kept checkpoint of a run, with its fitted sentence features from the workspace.

        Args:
            workspace: workspace of the run.
            run: name of the run.
            changes: settings that affect inference only, as for `load_checkpoint`.

        Raises:
            InputError: if there is no such run, no checkpoint of it, or its sentence features are gone.
        """
        trained = load_run(workspace.existing("runs", run, "run"), dict(changes or {}))
        return cls(trained, sentence_features(trained, workspace))

    @property
    def dim(self) -> int:
        """Number of dimensions of a vector."""
        return self.encode_captions([""]).shape[1]

    @property
    def alpha(self) -> float | None:
        """The learned or configured weight of u_sent; None if the family has none."""
        return alpha_of(self.trained.family)

    def encode_images(self, pictures: Iterable[Picture]) -> Float32[np.ndarray, "pictures dim"]:
        """One vector per image, of unit length for most families.

        Args:
            pictures: images, as Pillow images, bytes of files, paths or addresses.

        Returns:
            float32 array (images, dim). For families with one vector an item, `scores` is the inner product of these
            vectors and those of `encode_captions`. Order-embeddings, CITE and the Similarity Network score otherwise.

        Raises:
            InputError: an image cannot be read; the run was trained on ready-made features; the family only scores
                pairs.
        """
        pictures = listed(pictures, "pictures")
        parts = [np.empty((0, self.dim), np.float32)] if not pictures else []
        for features in self.features(pictures):
            parts.append(self.vectors_of_images(features))
        return np.concatenate(parts)

    def encode_captions(self, texts: Iterable[str]) -> Float32[np.ndarray, "texts dim"]:
        """One vector per sentence, of unit length for most families.

        Args:
            texts: sentences.

        Returns:
            float32 array (sentences, dim). Vectors of UniVSE are u_cap, mixed at `alpha`.

        Raises:
            InputError: the family only scores pairs, or it reads fitted sentence features and the checkpoint has none.
        """
        texts = listed(texts, "texts")
        if not texts:
            return np.empty((0, self.dim), np.float32)
        return self.vectors_of_captions(self.read(texts))

    def vectors_of_images(self, features: np.ndarray) -> Float32[np.ndarray, "images dim"]:
        """Like `encode_images`, for features in an array (images, ...)."""
        return _to_numpy(_vectors(self.trained, encode_images(self.trained.family, features), "images"))

    def vectors_of_captions(self, texts: Texts) -> Float32[np.ndarray, "texts dim"]:
        """Like `encode_captions`, for sentences from `read`."""
        return _to_numpy(_caption_vectors(self.trained, encode_captions(self.trained.family, texts)))

    def check_one_vector(self) -> None:
        """Raises InputError if the family's score is not the inner product of one vector of an image and one of a
        caption, so that no index of vectors and no pair of exported towers ranks as it does."""
        if not scores_by_product(self.trained.family):
            name = registry.name_of("family", self.trained.config.model)
            raise InputError(
                f"{self.trained.checkpoint}: the score of family {name} is not the inner product of one vector of an "
                "image and one of a caption, so vectors alone would rank differently"
            )

    def scores(
        self, pictures: Iterable[Picture], texts: Iterable[str], alpha: float | None = None
    ) -> Float32[np.ndarray, "pictures texts"]:
        """The family's score of every image and every sentence, by which evaluation ranks.

        Scores of different families are not on one scale. Memory holds the codes of all sentences, and of
        `IMAGES_AT_ONCE` images.

        Args:
            pictures: images, as Pillow images, bytes of files, paths or addresses.
            texts: sentences.
            alpha: weight of u_sent for a family that has one (UniVSE); by default as configured or learned.

        Returns:
            float32 array (images, sentences).

        Raises:
            InputError: as for `encode_images` and `encode_captions`, and for an alpha that the family does not have.
            Diverged: if a score is NaN.
        """
        pictures, texts = listed(pictures, "pictures"), listed(texts, "texts")
        return self.scores_of(self.features(pictures), self.read(texts), alpha)

    def scores_of(
        self, features: Iterable[np.ndarray], texts: Texts, alpha: float | None = None
    ) -> Float32[np.ndarray, "images texts"]:
        """Like `scores`, for images and sentences that have been read before.

        Args:
            features: arrays (images, ...) of any length; their scores follow one another.
            texts: sentences from `read`.
            alpha: as of `scores`.
        """
        family, settings = self.trained.family, self.inference_settings(alpha)
        captions = encode_captions(family, texts) if len(texts) else {}
        parts = [np.empty((0, len(texts)), np.float32)]
        for array in features:
            if not len(texts):
                parts.append(np.empty((len(array), 0), np.float32))
                continue
            for rows in spans(len(array), IMAGES_AT_ONCE):
                images = encode_images(family, array[rows])
                parts.append(_to_numpy(score_matrix(family, images, captions, settings=settings)))
        return np.concatenate(parts)

    def relevance_map(
        self, picture: Picture, phrase: str, temperature: float = 0.1, *, attention: bool = False
    ) -> RelevanceMap:
        """Which cells of an image a phrase is about (UniVSE, eq. 2 and Fig. 6), as the task `grounding` measures it.

        Args:
            picture: an image, the bytes of a file, a path or an address.
            phrase: a word, a pair, a triple or any other text, which is parsed (the task states nouns of boxes).
            temperature: temperature of the softmax over cells.
            attention: whether to map the attention of the family's own score instead (SCAN).

        Returns:
            The map, its place in the image, and `draw()`.

        Raises:
            InputError: the family has no vectors of regions, or the backbone sees several parts of an image; no word
                of the phrase is in the vocabulary; the image cannot be read.
        """
        trained, family = self.trained, self.trained.family
        self.check_pictures()
        if not temperature > 0:
            raise InputError(f"temperature={temperature:g}: must be above 0")
        unknown, image = self.unknown_words(phrase), picture_of(picture)
        if not any(map(self._knows, bare_words(as_caption(phrase)))):
            raise InputError(f"phrase {phrase!r}: {trained.checkpoint} knows none of its words")
        (features,) = self.features([image])
        try:
            window = self.trained.backbone.transform.window(*image.size)
            regions = encode_images(family, features, family.encode_regions)
            queries = encode_captions(family, self.read([phrase]), family.encode_queries)
            with torch.inference_mode():
                map_ = family.attention_map if attention else partial(family.relevance, temperature=temperature)
                values = map_(regions, queries)[0, 0].double().cpu().numpy()
            grid = Grid.square(len(values), Rectangle(*window))
        except (TypeError, ValueError) as error:
            raise InputError(f"{trained.checkpoint}: {error}") from None
        return RelevanceMap(phrase, values.reshape(grid.rows, grid.columns), window, image, unknown)

    def saliency(self, picture: Picture, captions: str | Sequence[str]) -> PictureSaliency:
        """On which pixels and words the score of an image depends: the Jacobian of VSE-C, section 4.2.

        Args:
            picture: an image, the bytes of a file, a path or an address.
            captions: a sentence, or several, such as a caption and what is changed in it.

        Returns:
            Saliency of pixels and words for each caption, scores, and `draw()`.

        Raises:
            InputError: the run was trained on ready-made features; the image cannot be read; no caption is given.
        """
        self.check_pictures()
        family, texts = self.trained.family, [captions] if isinstance(captions, str) else listed(captions, "captions")
        if not texts:
            raise InputError("captions: name at least one sentence")
        captions = captions_of(texts)
        parsed = self._parsed(captions) if family.inputs.components else None
        vectors = _Rounded(self._sentences) if self._sentences is not None else None
        read = occurrence_texts(captions, self.trained.vocabulary, parsed, vectors)
        image, reader = picture_of(picture), SaliencyReader(family, {})
        try:
            every = range(len(texts))
            results = reader.of_picture(image, read, self._forward, self.trained.backbone.transform, every)
        except (ValueError, UnreadableImage) as error:
            raise InputError(f"{self.trained.checkpoint}: {error}") from None
        return PictureSaliency.of(texts, results, image)

    def features(
        self, pictures: Sequence[Picture], root: str = "", rejects: dict[int, str] | None = None
    ) -> Iterator[np.ndarray]:
        """The backbone's features of pictures, for the family: batches (pictures, ...) of half floats.

        Args:
            pictures: images, bytes of files, paths or addresses.
            root: folder of relative paths.
            rejects: filled with the number and the reason of every picture that cannot be read, which is left out.

        Raises:
            InputError: without `rejects`, for the first picture that cannot be read.
        """
        self.check_pictures()
        output, backbone, forward = self.trained.family.inputs.image, self.trained.backbone, self._forward
        for first in range(0, len(pictures), forward.batch):
            squares = []
            for number, picture in enumerate(pictures[first : first + forward.batch], start=first):
                try:
                    squares.append(read_squares(source_of(picture), root, backbone.transform))
                except UnreadableImage as error:
                    if rejects is None:
                        name = f"image {number}" + (f", {picture}" if isinstance(picture, str | os.PathLike) else "")
                        raise InputError(f"{name}: {error.reason}") from None
                    rejects[number] = error.reason
            if squares:
                yield forward(np.stack(squares))[output]

    def read(self, texts: Sequence[str], parses: ComponentSource | None = None) -> Texts:
        """Sentences as the family reads them: words, and components or sentence features if it needs them.

        parses: components of all these sentences, for a family that reads them; by default they are parsed here.
        """
        trained, inputs, texts = self.trained, self.trained.family.inputs, captions_of(texts)
        if inputs.sentence and self._sentences is None:
            raise InputError(
                f"{trained.checkpoint}: reads sentence features from its workspace; open it with Embedder.of_run, or "
                "pack it first"
            )
        vectors = _Rounded(self._sentences) if self._sentences is not None else None
        if not inputs.components:
            parses = None
        elif parses is None and texts:
            parses = self._parsed(texts)
        return encode_texts(texts, trained.vocabulary, parses, vectors)

    def unknown_words(self, text: str) -> tuple[str, ...]:
        """The words and emoji of a sentence that are not in the run's vocabulary."""
        caption = caption_of(text, "text")
        unknown = (word for word in dict.fromkeys(bare_words(caption)) if not self._knows(word))
        return (*unknown, *dict.fromkeys(pictographs(caption)))

    def check_pictures(self) -> None:
        """Raises InputError if the run was trained on ready-made features, which have no backbone."""
        if not hasattr(self.trained.backbone, "transform"):
            raise InputError(f"{self.trained.checkpoint}: trained on ready-made features, so it cannot read pictures")
        if regions_from_maps(self.trained.config):
            raise InputError(f"{self.trained.checkpoint}: reads regions pooled from maps, not pictures")
        if getattr(self.trained.config.data, "geometry", False):
            raise InputError(f"{self.trained.checkpoint}: reads regions with their positions, not whole pictures")

    def inference_settings(self, alpha: float | None) -> dict[str, float]:
        """The arguments of the family's `combine` for an alpha. Raises InputError if the family has none."""
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

    def _knows(self, word: str) -> bool:
        """Whether the run's vocabulary has the word, or its fitted sentence features."""
        return word in self.trained.vocabulary.ids if self._sentences is None else self._sentences.knows(word)

    @cached_property
    def _forward(self) -> Forward:
        precision = self.trained.config.features.precision
        return Forward(self.trained.backbone.config, (self.trained.family.inputs.image,), precision=precision)


class _Rounded:
    """Sentence features in half precision, as in training."""

    def __init__(self, features: SentenceFeatures) -> None:
        self.features = features

    def vectors(self, texts: Sequence[str]) -> SentenceVectors:
        values, lengths = self.features.encode(texts).astype(np.float16), self.features.lengths(texts)
        first = np.arange(len(texts)) if lengths is None else np.cumsum(lengths) - lengths
        return SentenceVectors(values, first, lengths)


def _caption_vectors(trained: Trained, codes: Encoded) -> Tensor:
    """(captions, dim): the code of each caption, or the mix of its codes at the configured or learned weight."""
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
    """The fitted sentence features of a run, from its workspace; None if its family reads none.

    Raises InputError if they are gone.
    """
    if not trained.family.inputs.sentence:
        return None
    digits = trained.checkpoint.read_json("context.json")["fingerprints"]["sentences"]
    language = workspace.root.child("language")
    for dataset in language.names():
        fit = language.child(dataset, digits, "fit")
        if fit.read_manifest(checksums=False) is not None:
            return SentenceFeatures.open(fit)
    raise InputError(f"{language}: the fitted sentence features {digits} of this run are gone; run its training again")


def _to_numpy(vectors: Tensor) -> np.ndarray:
    return vectors.float().cpu().numpy()
