"""What evaluation tasks ask of trained runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import PIL.Image
from torch import Tensor

from vse.data.records import Records, Split
from vse.data.source import SceneGraphs, Truth
from vse.evaluation.codes import Codes
from vse.evaluation.item_vectors import Side
from vse.evaluation.retrieval import Encoded, ScoresParts
from vse.evaluation.saliency import Saliency
from vse.evaluation.work import Arrays, Job
from vse.models.family import Family
from vse.text.components import Components
from vse.text.parse import Parse
from vse.text.word_vectors import WordVectors
from vse.training.examples import Examples


@dataclass(frozen=True, eq=False)
class SaliencyQuery:
    """An image by its id, texts, and the positions of the texts for which the image is differentiated too."""

    image: str
    texts: tuple[str, ...]
    of_image: tuple[int, ...] = ()


class Runs(Protocol):
    """One trained run, or several whose scores are averaged, as tasks see them. What they encode, `model` scores."""

    @property
    def model(self) -> ScoresParts: ...
    @property
    def families(self) -> tuple[Family, ...]: ...
    @property
    def records(self) -> Records: ...
    @property
    def names(self) -> str:
        """As the user named them."""
        ...

    def encode(self, part: Split) -> Codes:
        """Every image and caption of a split or of a part of it."""
        ...

    def encode_images(self, ids: tuple[str, ...]) -> Encoded:
        """Images of the data set by their ids."""
        ...

    def encode_texts(self, texts: list[str]) -> Encoded:
        """Captions that are no part of the data set, parsed if a family reads components."""
        ...

    def encode_phrases(self, texts: list[str], components: list[Components]) -> Encoded:
        """Short texts as captions. A family with an encoder of components encodes a text with one component by it."""
        ...

    def vectors(self, codes: Encoded, side: Side) -> Tensor:
        """One vector (items, dim) for each image or caption; products are the mean of the runs' cosines."""
        ...

    def encode_regions(self, ids: Sequence[str]) -> Encoded:
        """Regions of images of the data set by their ids, of a single run."""
        ...

    def encode_queries(self, texts: Sequence[str], components: Mapping[str, Components]) -> Encoded:
        """Texts to look for in regions, of a single run; `components` of a text, if given, are not parsed."""
        ...

    def saliencies(self, queries: Sequence[SaliencyQuery], level: str) -> Iterator[list[Saliency]]:
        """Saliency of every text of each query, of a single run; `level`: `pixels`, or `features` of the image.

        It is of features too if no backbone of the run computed them. Raises InputError for a picture that cannot be
        read and a family whose words cannot be differentiated.
        """
        ...

    def window(self, id_: str) -> tuple[float, float, float, float]:
        """The part of an image that the backbone sees: left, top, right and bottom as fractions."""
        ...

    def parsed(self, texts: Sequence[str]) -> list[tuple[Parse, Components]]:
        """Parses and components of texts, of which `measure.drop_components` drops nothing."""
        ...

    @property
    def judge(self) -> Truth | None:
        """Whether a text is true of an image, by the image's id; None if the source does not know."""
        ...

    @property
    def scene_graphs(self) -> SceneGraphs | None:
        """What is in an image, by its id; None if the source does not know."""
        ...

    def unknown_words(self, texts: Iterable[str]) -> float:
        """Share of tokens, in percent, that the vocabulary does not hold."""
        ...

    def truth(self, split: str) -> np.ndarray:
        """(images, captions) of a split, bool: which captions are true of which images."""
        ...

    def examples(self, part: Split) -> Examples:
        """The arrays that the family reads of a split."""
        ...

    def word_vectors(self, source: str, words: Sequence[str]) -> WordVectors:
        """Vectors of words from the first run (`own`), another run or a file; zeros for a word that it lacks."""
        ...

    def probes(self, jobs: Sequence[Job]) -> list[Arrays]:
        """Trained probes in the order of the jobs: those trained before are read, others are trained and kept."""
        ...

    def image(self, id_: str) -> PIL.Image.Image:
        """The picture of an image of the data set, RGB. Raises InputError if it cannot be read."""
        ...

    def initial_family(self) -> Family | None:
        """The family with the weights that training began with, in eval mode; None if its inputs changed since."""
        ...
