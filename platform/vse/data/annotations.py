"""Ground truth beyond captions: objects with boxes and attributes, and relations; one format for every source."""

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from vse.errors import InputError

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class AnnotatedObject:
    """An object of an image; `box` is left, top, right, bottom in pixels, right and bottom outside."""

    name: str
    box: Box
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnnotatedRelation:
    """A relation between two objects of the same image, given by their positions."""

    subject: int
    name: str
    object: int


@dataclass(frozen=True, slots=True)
class Annotation:
    """What is known about one image."""

    objects: tuple[AnnotatedObject, ...] = ()
    relations: tuple[AnnotatedRelation, ...] = ()


@dataclass(frozen=True, eq=True)
class Annotations:
    """Annotations by image id. As a file: one JSON object a line, in the order of the mapping."""

    images: Mapping[str, Annotation]

    def __getitem__(self, image: str) -> Annotation:
        return self.images[image]

    def __len__(self) -> int:
        return len(self.images)

    def to_bytes(self) -> bytes:
        """The file's content: UTF-8 JSON lines with the keys image, objects, relations."""
        lines = (
            json.dumps({"image": image, **asdict(annotation)}, ensure_ascii=False, separators=(",", ":"))
            for image, annotation in self.images.items()
        )
        return "".join(f"{line}\n" for line in lines).encode()

    @classmethod
    def from_bytes(cls, data: bytes, where: str = "annotations") -> "Annotations":
        """Read what `to_bytes` wrote; raises InputError naming `where` and the line for anything else."""
        images: dict[str, Annotation] = {}
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InputError(f"{where}: line {line} is not UTF-8 text; make the annotations again") from None
        for number, line in enumerate(io.StringIO(text), start=1):
            try:
                row = json.loads(line)
                annotation = _annotation(row)
                image = row["image"]
                if not isinstance(image, str) or image in images:
                    raise ValueError(f"image {image!r} is not text or appears twice")
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{where}: line {number} is not an annotation: {error!r}") from None
            images[image] = annotation
        return cls(images)

    def save(self, path: Path) -> None:
        path.write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: Path) -> "Annotations":
        """Raises InputError for a missing or damaged file."""
        try:
            return cls.from_bytes(path.read_bytes(), str(path))
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _annotation(row: dict) -> Annotation:
    objects = tuple(
        AnnotatedObject(o["name"], _box(o["box"]), tuple(map(str, o["attributes"]))) for o in row["objects"]
    )
    relations = tuple(AnnotatedRelation(int(r["subject"]), str(r["name"]), int(r["object"])) for r in row["relations"])
    for r in relations:
        if not (0 <= r.subject < len(objects) and 0 <= r.object < len(objects)):
            raise ValueError(f"relation {r.name!r} points outside the {len(objects)} objects")
    return Annotation(objects, relations)


def _box(values: list[float]) -> Box:
    left, top, right, bottom = map(float, values)
    return left, top, right, bottom
