"""Search with a trained run: images of a data set or folder by sentences, captions of a data set by a picture."""

import logging
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float32

from vse import registry
from vse.config import knob
from vse.data.containers import file_of
from vse.data.image_files import picture_files
from vse.data.places import below
from vse.data.records import Image, Records
from vse.data.source import has_word
from vse.display.counts import count
from vse.errors import Diverged, InputError
from vse.inference.embedder import Embedder
from vse.inference.inputs import FolderPictures, SplitData, expanded
from vse.inference.search_shards import split_scores
from vse.storage import user_files as named_files
from vse.text.tokens import as_caption, bare_words, pictographs, words
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOptions:
    """Keys of the job."""

    run: str = knob("", "name of a folder below runs/, or a path that a job printed")
    text: tuple[str, ...] = knob((), "sentence to find images for", repeated=True)
    texts: str = knob("", "file of sentences, one per line", reads="file")
    image: str = knob("", "picture file, or id of an image of the data set, to find captions for instead")
    split: str = knob("test", "split of the run's data set to search")
    images: str = knob("", "folder of pictures, at any depth, to search instead of a split", reads="folder")
    top: int = knob(10, "results shown for each search", low=1)
    alpha: float | None = knob(None, "weight of u_sent if the family has one; default: as configured", low=0, high=1)


@dataclass(frozen=True, slots=True)
class Item:
    """An image with its first caption, if any, or a caption, with an empty `uri`."""

    id: str
    uri: str
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """An item with its rank, from 1, and its score; `true` if image and sentence are a pair in the data set."""

    rank: int
    score: float
    item: Item
    true: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one query.

    `missed` are true items below the shown ones, `median` and `highest` are of the scores of all items, and `unknown`
    are words of the sentence outside the run's vocabulary.
    """

    query: str
    hits: tuple[Hit, ...]
    missed: tuple[Hit, ...]
    median: float
    highest: float
    unknown: tuple[str, ...] = ()

    @property
    def true_ranks(self) -> tuple[int, ...]:
        """Ranks of all true items."""
        return tuple(hit.rank for hit in (*self.hits, *self.missed) if hit.true)


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchResult:
    """Answers from `number` items of a kind `what` (images, pictures or captions) of a split or folder (`among`).

    Images lie below `root`. `picture` is the URI of the query picture, `rejects` are unreadable pictures with their
    reasons, `facts` describe the run, and `fingerprints` identify all inputs of the scores.
    """

    config: RunConfig
    facts: Mapping[str, str]
    fingerprints: Mapping[str, str]
    what: str
    among: str
    number: int
    root: str
    answers: tuple[Answer, ...]
    picture: str = ""
    rejects: Mapping[str, str] = field(default_factory=dict)


def place_of(uri: str, root: str) -> str:
    """The path or address of an image; its URI if it has none, like a rendered scene."""
    try:
        file, fragment = file_of(uri)
        return uri if uri.startswith("scene:") else below(root, file) + fragment
    except InputError:
        return uri


def sentences_of(options: SearchOptions) -> list[str]:
    """The distinct query sentences, normalised like captions; empty if the query is a picture.

    Raises InputError if there are no queries or both kinds, if keys exclude each other, and for a sentence without a
    word.
    """
    if bool(options.text or options.texts) == bool(options.image):
        both = ", not both" if options.image else ""
        raise InputError(f'text, image: give sentences ("text=a red ball", texts=FILE) or image=FILE{both}')
    if options.image and options.images:
        raise InputError("images: a folder has no captions to find by image; leave one of the two out")
    texts = [("text", as_caption(text)) for text in options.text]
    if options.texts:
        texts += [(f"texts={options.texts}: line {n}", text) for n, text in _lines(options.texts)]
    for where, text in texts:
        if not has_word(text):
            signs = ", ".join(pictographs(text))
            hint = f"; {signs}: not in the vocabulary, pictographs are no words" if signs else ""
            raise InputError(f"{where}: {text!r} has no word to search by{hint}")
    return list(dict.fromkeys(text for _, text in texts))


def _lines(file: str) -> list[tuple[int, str]]:
    """(number, sentence) of every line that is not empty."""
    if not named_files.is_file(file):
        raise InputError(f"texts={file}: no such file")
    try:
        text = named_files.read(file).decode("utf-8-sig")  # editors may begin a file with a byte order mark
    except UnicodeDecodeError:
        raise InputError(f"texts={file}: is not UTF-8 text; expected one sentence per line") from None
    lines = [(number, as_caption(line)) for number, line in enumerate(text.splitlines(), 1)]
    if not any(line for _, line in lines):
        raise InputError(f"texts={file}: holds no sentence")
    return [(number, line) for number, line in lines if line]


def check_search(workspace: Workspace, options: SearchOptions) -> Iterator[str]:
    """The lines of a dry run; nothing is written. Raises InputError as `search` does before it scores."""
    sentences, embedder = sentences_of(options), _embedder(workspace, options)
    queries = count(len(sentences), "sentence") if sentences else f"image={options.image}"
    if options.images:
        files, others = picture_files(expanded(options.images), "images")
        if others:
            yield others
        yield f"search {count(len(files), 'picture')} in {options.images} by {queries}"
    else:
        source = registry.build("source", embedder.trained.config.data)
        records = source.describe()
        part = records.split(options.split)
        number = count(len(part.images), "image") if sentences else count(len(part.captions), "caption")
        yield f"search {number} of split {part.name} of {records.name} by {queries}"
        if options.image and query_image(records, source.image_root, options.image) is None:
            embedder.check_pictures()
    yield "not checked: contents of picture and weights files, features in the workspace"


def search(workspace: Workspace, options: SearchOptions) -> SearchResult:
    """The best images for each sentence, or the best captions for the picture.

    Features of a split come from the workspace, and are extracted if it has none. Raises InputError for a request that
    cannot be answered, Diverged if a score is NaN or infinite.
    """
    sentences, embedder = sentences_of(options), _embedder(workspace, options)
    try:
        if options.images:
            return _in_folder(embedder, sentences, options)
        look = (lambda records, root: query_image(records, root, options.image)) if options.image else None
        data = SplitData.of(embedder, workspace, options.split, look)
        return _in_split(embedder, data, sentences, options) if sentences else _captions(embedder, data, options)
    except Diverged as error:
        raise Diverged(f"run={options.run}: {error}") from None


def _embedder(workspace: Workspace, options: SearchOptions) -> Embedder:
    embedder = Embedder.of_run(workspace, options.run)
    embedder.inference_settings(options.alpha)  # refuses an alpha that the family does not have
    if options.images:
        embedder.check_pictures()
    return embedder


def _in_split(embedder: Embedder, data: SplitData, sentences: Sequence[str], options: SearchOptions) -> SearchResult:
    part = data.part
    captions, images_by_text = defaultdict[int, list[str]](list), defaultdict[str, set[int]](set)
    for caption, image in zip(part.captions, part.caption_to_image.tolist(), strict=True):
        captions[image].append(caption.text)
        images_by_text[_normalised(caption.text)].add(image)
    items = [Item(image.id, image.uri, next(iter(captions[k]), "")) for k, image in enumerate(part.images)]
    scores = split_scores(embedder, data, options.run, tuple(sentences), options.alpha)
    true = [images_by_text.get(_normalised(text), ()) for text in sentences]
    answers = _image_answers(embedder, sentences, scores, items, true, options.top)
    where = {"what": "images", "among": data.name, "number": len(items), "root": data.root}
    return _result(embedder, options, data.fingerprints, **where, answers=answers)


def _in_folder(embedder: Embedder, sentences: Sequence[str], options: SearchOptions) -> SearchResult:
    pictures = FolderPictures(embedder, options.images)
    scores = embedder.scores_of(pictures.features("search"), embedder.read(sentences), options.alpha)
    pictures.report_rejects()
    items = [Item(file, file, "") for file in pictures.readable]
    answers = _image_answers(embedder, sentences, scores, items, [()] * len(sentences), options.top)
    where = {"what": "pictures", "among": f"folder {options.images}", "number": len(items), "root": pictures.root}
    return _result(embedder, options, {}, **where, answers=answers, rejects=pictures.rejects)


def _captions(embedder: Embedder, data: SplitData, options: SearchOptions) -> SearchResult:
    image = query_image(data.records, data.root, options.image)
    if image is not None:
        features, uri, root = [data.features.array(data.output, (image.id,), mapped=False)], image.uri, data.root
    else:
        uri, root, rejects = expanded(options.image), "", dict[int, str]()
        features = list(embedder.features([uri], rejects=rejects))
        for reason in rejects.values():
            raise InputError(f"image={options.image}: {reason}")
    captions = data.part.captions
    texts = embedder.read([caption.text for caption in captions], data.parses())
    scores = embedder.scores_of(features, texts, options.alpha)[0]
    true = {k for k, caption in enumerate(captions) if image is not None and caption.image == image.id}
    items = [Item(caption.id, "", caption.text) for caption in captions]
    query = image.id if image is not None else options.image
    answers = (_answer(query, scores, items, true, options.top),)
    where = {"what": "captions", "among": data.name, "number": len(items), "root": root}
    return _result(embedder, options, data.fingerprints, **where, answers=answers, picture=uri)


def query_image(records: Records, root: str, given: str) -> Image | None:
    """The image of the data set with this id or file; None for any other file.

    Args:
        records: the data set.
        root: folder or address that the URIs of its images are relative to.
        given: id, URI or path, as the user gave it.

    Raises:
        InputError: there is no such file either.
    """
    file = expanded(given)
    for image in records.images:
        if given in (image.id, image.uri):
            return image
    if not named_files.is_file(file):
        raise InputError(f"image={given}: no such file, and no image of {records.name} has this id")
    name = os.path.basename(file.partition("?")[0])
    for image in records.images:
        if os.path.basename(image.uri) == name and _same(place_of(image.uri, root), file):
            return image
    return None


def _same(one: str, other: str) -> bool:
    if named_files.is_remote(one) or named_files.is_remote(other):
        return one.partition("?")[0] == other.partition("?")[0]
    return os.path.realpath(one) == os.path.realpath(other)


def _normalised(text: str) -> str:
    """A sentence without capitals and punctuation."""
    return " ".join(bare_words(text) or words(text))


def _image_answers(
    embedder: Embedder,
    sentences: Sequence[str],
    scores: Float32[np.ndarray, "items sentences"],
    items: Sequence[Item],
    true: Sequence[Collection[int]],
    top: int,
) -> tuple[Answer, ...]:
    return tuple(
        _answer(text, column, items, numbers, top, embedder.unknown_words(text))
        for text, column, numbers in zip(sentences, scores.T, true, strict=True)
    )


def _answer(
    query: str,
    scores: Float32[np.ndarray, " items"],
    items: Sequence[Item],
    true: Collection[int],
    top: int,
    unknown: tuple[str, ...] = (),
) -> Answer:
    """The best items; items of equal score keep their order."""
    order = np.argsort(-scores, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(1, len(order) + 1)

    def hits(chosen: Iterable[int]) -> tuple[Hit, ...]:
        return tuple(Hit(int(rank[k]), float(scores[k]), items[k], k in true) for k in chosen)

    missed = sorted((k for k in true if rank[k] > top), key=lambda k: rank[k])
    middle, highest = float(np.median(scores)), float(scores.max())
    return Answer(query, hits(order[:top].tolist()), hits(missed), middle, highest, unknown)


def _result(
    embedder: Embedder, options: SearchOptions, fingerprints: Mapping[str, str], **content: Any
) -> SearchResult:
    """The result with facts on the run; `content` are the other fields of `SearchResult`."""
    trained = embedder.trained
    facts = {"run": options.run, "family": registry.name_of("family", trained.config.model)}
    if embedder.alpha is not None:
        facts["α"] = f"{embedder.alpha if options.alpha is None else options.alpha:g}"
    return SearchResult(
        config=trained.config,
        facts={**facts, "checkpoint": trained.checkpoint.name},
        fingerprints={"weights": trained.weights, **fingerprints},
        **content,
    )
