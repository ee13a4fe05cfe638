"""Flickr30k Entities (Plummer et al., IJCV 2017): photographs, captions, and the boxes of the captions' phrases."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from vse.config import knob
from vse.data.boxes import in_fractions, numbers, size_of
from vse.data.places import Root
from vse.data.reading import SPLITS, SplitNames, decode, field, read_json
from vse.data.records import Box, Caption, Image, Records
from vse.data.source import DataLocation, RecordsBuilder, Source, SourceConfig, has_word, inside, readable_name, stem
from vse.errors import InputError
from vse.registry import register
from vse.storage.folder import Folder
from vse.storage.parallel_reads import read_each

ANNOTATIONS, SENTENCES = "Annotations", "Sentences"
_IMAGES = ("flickr30k-images", "images")
_MARK = re.compile(r"\[/EN#(\d+)/(\S+) ([^\[\]]*)\]")  # entity, its types, phrase
_NOT_VISUAL = "0"

Sides = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase of a sentence: its text, the entity that it mentions, and the types of that entity."""

    text: str
    entity: str
    types: tuple[str, ...]


def parse_sentence(line: str, where: str) -> tuple[str, list[Phrase]]:
    """The text of a line with the markup `[/EN#id/type phrase]`, and its phrases.

    Args:
        line: As in `Sentences/*.txt`. A type may list several, as `bodyparts/people`.
        where: The file and the line, for messages.

    Raises:
        InputError: A bracket is not closed, or is no such markup.
    """
    phrases = [Phrase(mark[3].strip(), mark[1], tuple(mark[2].split("/"))) for mark in _MARK.finditer(line)]
    text = _MARK.sub(r"\3", line)
    if "/EN#" in text:
        raise InputError(f"{where}: expected phrases as [/EN#id/type phrase], got {line.strip()!r:.80}")
    if empty := next((phrase for phrase in phrases if not phrase.text), None):
        raise InputError(f"{where}: the phrase of entity {empty.entity} is empty")
    return " ".join(text.split()), phrases


def parse_annotations(data: bytes, where: str) -> dict[str, tuple[Sides, ...]]:
    """The boxes of each entity of one photograph, as fractions of its width and height.

    The sides in the file count pixels from 1 and are inclusive.

    Args:
        data: Of a file `Annotations/*.xml`.
        where: The file, for messages.

    Raises:
        InputError: The file is no XML of this form, or a box is not inside the photograph.
    """
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:  # entities of XML can expand without limit
        raise InputError(f"{where}: holds a document type definition; expected plain annotations")
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise InputError(f"{where}: is not complete XML ({error}); was it cut off?") from None
    size = (_number(root, "size/width", where), _number(root, "size/height", where))
    boxes = dict[str, list[Sides]]()
    for number, item in enumerate(root.iterfind("object")):
        place = f"{where}: object {number + 1}"
        names = [name.text.strip() for name in item.iterfind("name") if name.text and name.text.strip()]
        if not names:
            raise InputError(f"{place}: lacks a <name> with the id of its entity")
        if item.find("bndbox") is None:
            continue  # a scene, or an entity without a box
        left, top, right, bottom = (_number(item, f"bndbox/{side}", place) for side in ("xmin", "ymin", "xmax", "ymax"))
        if box := in_fractions("", (left - 1, top - 1, right, bottom), size, place):
            for name in names:
                boxes.setdefault(name, []).append(_sides(box))
    return {name: tuple(each) for name, each in boxes.items()}


def _number(item: ElementTree.Element, path: str, where: str) -> float:
    text = (item.findtext(path) or "").strip()
    if not re.fullmatch(r"-?\d{1,9}", text):
        raise InputError(f"{where}: <{path}> must be a whole number of pixels, got {text!r:.40}")
    return float(text)


def _sides(box: Box) -> Sides:
    return box.left, box.top, box.right, box.bottom


@register("source", "flickr30k_entities")
class Flickr30kEntities(Source):
    """Photographs with captions whose phrases have boxes: Flickr30k Entities in its own files, or one JSON file.

    The own files are `Annotations/ID.xml`, `Sentences/ID.txt` and lists of ids in `train.txt`, `val.txt` and
    `test.txt`. Boxes have the id of the entity and its types as attributes. A JSON file has, for each photograph,
    `split`, `width`, `height`, `caption` (the number of the sentence that holds the phrases, or null) and `phrases`,
    each a `phrase` and its `boxes`; a Karpathy file brings the sentences.
    """

    title = "Flickr30k Entities"
    layout = "Annotations and Sentences"
    image_keys = ("data.root", "data.images")

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SourceConfig):
        root: str = knob("", "folder of the data set, a path or an s3:// address")
        images: str = knob(
            "",
            "folder of the photographs, below root or elsewhere; default: flickr30k-images or images if there, or root",
        )
        file: str = knob(
            "", "JSON file of phrases and boxes, below root or elsewhere; empty: Annotations and Sentences"
        )
        captions: str = knob("", "Karpathy file with the sentences of the photographs of a JSON file")

    config: Config

    @property
    def image_root(self) -> Root:
        """Folder of the photographs."""
        root = self.folder()
        below = self.config.images or next((name for name in _IMAGES if _has(root, name)), "")
        return self.root_of_images(inside(root, below) if below else root.uri)

    def read(self) -> Records:
        """Records of all splits. Raises InputError naming the file and entry that is damaged or incomplete."""
        root = self.folder()
        if self.config.file:
            return self._from_json(inside(root, self.config.file))
        if self.config.captions:
            raise InputError("data.captions: goes with data.file, a JSON file of phrases; Sentences hold their own")
        if missing := next((name for name in (ANNOTATIONS, SENTENCES) if not _has(root, name)), None):
            raise InputError(f"data.root={root}: lacks the folder {missing} of Flickr30k Entities; or name data.file")
        lists = [name for name in SPLITS if root.exists(f"{name}.txt")]
        if not lists:
            raise InputError(f"data.root={root}: lacks the lists of ids train.txt, val.txt and test.txt")
        builder = RecordsBuilder(str(root))
        for split in lists:
            ids = decode(root.read_bytes(f"{split}.txt"), root.address(f"{split}.txt"))[0].split()
            for id_, (captions, boxes) in zip(ids, read_each(root, partial(_of_photograph, root), ids), strict=True):
                where = f"{root.address(f'{split}.txt')}: {id_}"
                builder.image(Image(id_, f"{id_}.jpg", split), where, (boxes, None))
                for caption in captions:
                    builder.caption(caption, where)
        return builder.records("flickr30k_entities", {"source": "flickr30k_entities"})

    @classmethod
    def recognises(cls, location: DataLocation) -> bool:
        """Recognises a folder with `Annotations` and `Sentences`."""
        return not location.file and _has(location.folder, ANNOTATIONS) and _has(location.folder, SENTENCES)

    def _from_json(self, path: str) -> Records:
        if not self.config.captions:
            raise InputError(f"data.captions: name the Karpathy file with the sentences of the photographs in {path}")
        sentences = _sentences(inside(self.folder(), self.config.captions))
        builder, splits, content = RecordsBuilder(path), SplitNames(path), read_json(path)
        if not isinstance(content, dict):
            raise InputError(f"{path}: expected an object with one entry for each photograph")
        for name, entry in content.items():
            where = f"{path}: {name}"
            split = splits.split(field(entry, "split", str, where), where)
            if name not in sentences:
                raise InputError(f"{where}: data.captions={self.config.captions} has no such photograph")
            captions = [Caption(f"{name}#{k}", name, text) for k, text in enumerate(sentences[name])]
            annotated = _boxes(entry, captions, where), size_of(entry, where)
            builder.image(Image(name, name, split), where, annotated)
            for caption in captions:
                builder.caption(caption, where)
        splits.log()
        name = readable_name(stem(path), "phrases")
        return builder.records(name, {"source": "flickr30k_entities", "file": True})


def _has(folder: Folder, name: str) -> bool:
    """Whether there is a folder below another; folders of S3 exist by their files alone."""
    return folder.exists(name) or folder.child(name).exists()


def _of_photograph(root: Folder, id_: str) -> tuple[list[Caption], tuple[Box, ...]]:
    """Captions of one photograph of the data set's own files, and the boxes of their phrases."""
    if "/" in id_:
        raise InputError(f"{root}: {id_!r} is not the id of a photograph")
    text, xml = f"{SENTENCES}/{id_}.txt", f"{ANNOTATIONS}/{id_}.xml"
    lines = decode(_content(root, text), root.address(text))[0].splitlines()
    entities = parse_annotations(_content(root, xml), root.address(xml))
    captions, boxes = list[Caption](), dict[Box, None]()
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        sentence, phrases = parse_sentence(line, f"{root.address(text)}: line {number + 1}")
        caption = Caption(f"{id_}#{number}", id_, sentence)
        captions.append(caption)
        for phrase in phrases if has_word(sentence) else ():
            if phrase.entity != _NOT_VISUAL and has_word(phrase.text):
                about = (phrase.entity, *phrase.types)
                for sides in entities.get(phrase.entity, ()):
                    boxes[Box(phrase.text, *sides, caption=caption.id, attributes=about)] = None
    return captions, tuple(boxes)


def _content(root: Folder, file: str) -> bytes:
    try:
        return root.read_bytes(file)
    except FileNotFoundError:
        raise InputError(f"{root.address(file)}: no such file; a list of ids names it") from None


def _sentences(path: str) -> dict[str, list[str]]:
    """Sentences of each photograph of a Karpathy file, by file name."""
    by_file = dict[str, list[str]]()
    for number, item in enumerate(field(read_json(path), "images", list, path)):
        where = f"{path}: images[{number}]"
        sentences = field(item, "sentences", list, where)
        by_file[field(item, "filename", str, where)] = [
            field(sentence, "raw", str, f"{where}.sentences[{k}]") for k, sentence in enumerate(sentences)
        ]
    return by_file


def _boxes(entry: Mapping[str, Any], captions: list[Caption], where: str) -> tuple[Box, ...]:
    """Boxes of the phrases of one photograph of a JSON file."""
    size = size_of(entry, where)
    if "caption" not in entry:
        raise InputError(f"{where}: lacks the key 'caption' (int or null)")
    caption = ""
    if entry["caption"] is not None:
        number = field(entry, "caption", int, where)
        if not 0 <= number < len(captions):
            raise InputError(
                f"{where}: 'caption' is {number}, but there are {len(captions)} sentences, numbered from 0"
            )
        caption = captions[number].id if has_word(captions[number].text) else ""
    boxes = dict[Box, None]()
    for number, phrase in enumerate(field(entry, "phrases", list, where)):
        place = f"{where}.phrases[{number}]"
        text, corners = field(phrase, "phrase", str, place), field(phrase, "boxes", list, place)
        if not has_word(text) or not corners:
            raise InputError(f"{place}: a phrase needs a word and at least one box")
        for each in corners:
            if not isinstance(each, list):
                raise InputError(f"{place}: 'boxes' must be lists of four numbers, got {each!r:.40}")
            left, top, right, bottom = numbers(each, f"{place}: a box")
            if box := in_fractions(text, (left - 1, top - 1, right, bottom), size, place, caption):
                boxes[box] = None
    return tuple(boxes)
