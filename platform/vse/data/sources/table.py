"""A table of captions that anybody can write: text between separators, or JSON, with the columns image and caption."""

import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from vse.config import knob
from vse.data.image_files import is_image_file
from vse.data.reading import WITHOUT_SPLITS, SplitNames, decode, drawn_split, notice
from vse.data.records import Caption, Image, Records
from vse.data.source import (
    DataLocation,
    RecordsBuilder,
    Source,
    SourceConfig,
    inside,
    readable_name,
    stem,
)
from vse.data.table_files import delimited, json_table
from vse.data.table_rows import Chooser, Row, rows_of
from vse.errors import InputError
from vse.registry import register
from vse.storage import user_files
from vse.storage.folder import Folder

_ENDINGS = ("csv", "tsv", "json", "jsonl")


@register("source", "table")
class Table(Source):
    """A table with one line for each caption, in any order.

    The id of an image is its path in normal form: `./a.jpg` and `b/../a.jpg` are `a.jpg`. If accented letters are
    composed in one line and decomposed in another, the first line decides.

    Without a column `split`, a hash of the path of an image decides its split. Added images do not move others.
    """

    title = "the images"
    layout = "one file .csv, .tsv, .json or .jsonl"
    precedence = -1  # any other text or JSON file is read as a table
    image_keys = ("data.root", "data.file")

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SourceConfig):
        file: str = knob(
            "", "CSV, TSV or JSON with image and caption, optionally id and split; below root, or any path or address"
        )
        encoding: str = knob("", "encoding of the file, such as latin-1; default: by its byte order mark, or UTF-8")
        image_column: str = knob("", "column of the images; default: image, else one of a well-known name")
        caption_column: str = knob(
            "", "column of the captions, or several between commas; default: caption, else by well-known names"
        )
        root: str = knob("", "folder of the images, a path or an s3:// address; default: the folder of the file")
        val: float = knob(
            0.1, "share of the images for validation, if the file has no column split", low=0, high=1, only="folds=0"
        )
        test: float = knob(
            0.1, "share of the images for the test, if the file has no column split", low=0, high=1, only="folds=0"
        )
        seed: int = knob(0, "which images go to these splits", low=0)

    config: Config

    @property
    def image_root(self) -> str:
        """Folder of the images."""
        folder = self.folder() if self.config.root else Folder.of_file(self._file())[0]
        return self.root_of_images(folder.uri)

    def read(self) -> Records:
        """Records of the file. Raises InputError naming the line that is damaged or contradictory."""
        path = self._file()
        builder, first, number = RecordsBuilder(path), dict[str, Row](), Counter[str]()
        splits, ids, contents, repeated = SplitNames(path, column="split"), dict[str, str](), set[tuple[str, str]](), 0
        for row in self._rows(path, splits):
            where = f"{path}: {row.place}"
            before = first.setdefault(unicodedata.normalize("NFC", row.image), row)
            if row is before:
                self._agree(row, next(iter(first.values())), where)
                builder.image(Image(row.image, row.image, row.split or self._drawn(row.image)), where)
            elif row.split != before.split:
                raise InputError(
                    f"{where}: image {row.image!r} has split {row.split!r} here and {before.split!r} in "
                    f"{before.place}; all captions of an image must have the same split"
                )
            image = before.image
            if row.id and row.id in ids:
                raise InputError(
                    f"{path}: column 'id' ({row.place}): {row.id!r} is also the id of {ids[row.id]}; this column holds "
                    "caption ids, so rename it if it holds image ids"
                )
            ids |= {row.id: row.place} if row.id else {}
            if row.caption:
                repeated += (image, row.caption) in contents
                contents.add((image, row.caption))
            caption = row.id or f"{image}#{number[image]}"
            number[image] += 1
            builder.caption(Caption(caption, image, row.caption), where)
        splits.log()
        if repeated:
            what = "row repeats" if repeated == 1 else "rows repeat"
            kept = "it is kept" if repeated == 1 else "they are kept"
            notice(f"{path}: {repeated} {what} the image and caption of another row; {kept}")
        return builder.records(readable_name(stem(path), "table"), {"source": "table"})

    @classmethod
    def recognises(cls, location: DataLocation) -> bool:
        """Recognises any file, and a folder by the endings of its files."""
        return bool(location.file or _tables(location))

    @classmethod
    def keys_for(cls, location: DataLocation) -> dict[str, str]:
        """The file, or the only table in a folder. Raises InputError if the folder holds none or several."""
        names = [location.file] if location.file else _tables(location)
        if len(names) != 1:
            several = f"holds several tables, {', '.join(names)}; name one of them"
            raise InputError(f"{location}: {several if names else f'expected {cls.layout}'}")
        return {"file": location.folder.address(names[0])}

    def _file(self) -> str:
        config = self.config
        if not config.file:
            raise InputError("data.file: name the table of captions, with the columns image and caption")
        below = inside(self.folder(), config.file) if config.root else config.file
        path = below if user_files.is_file(below) else config.file
        if not user_files.is_file(path):
            also = f" in {config.root} or" if config.root else ""
            where = "" if user_files.is_remote(path) else f"{also} in {Path.cwd()}"
            raise InputError(f"data.file={config.file}: no such file{where}")
        return path

    def _rows(self, path: str, splits: SplitNames) -> Iterator[Row]:
        """The captions of a file; the content decides its form. Splits are train, val, test or empty."""
        config = self.config
        text, encoding = decode(user_files.read(path), path, config.encoding)
        chooser = Chooser(config.image_column, config.caption_column)
        listing = (json_table if text.lstrip()[:1] in ("[", "{") else delimited)(text, path, chooser)
        if not listing.columns:
            return
        columns = chooser.choose(listing.columns, path)
        notice(f"{path}: {len(listing.rows)} rows, {listing.form}, {encoding.upper()}; {columns}")
        for place, cells in listing.rows:
            for row in rows_of(place, cells, columns, path, lambda name: is_image_file(self.image_root, name)):
                split = splits.split(row.split, f"{path}: {place}") if row.split else ""
                yield replace(row, split=split)

    def _agree(self, row: Row, first: Row, where: str) -> None:
        """Raise InputError if only some lines have a split, or if none has and the shares leave no training images."""
        if bool(row.split) != bool(first.split):
            empty, filled = (first.place, row.place) if row.split else (row.place, first.place)
            raise InputError(
                f"{where}: column 'split' is empty in {empty} but not in {filled}; fill it in every line, or "
                f"{WITHOUT_SPLITS}"
            )
        if not row.split and self.config.val + self.config.test >= 1:
            raise InputError(
                f"data.val={self.config.val:g}, data.test={self.config.test:g}: must leave images to train on"
            )

    def _drawn(self, image: str) -> str:
        return drawn_split(image, self.config.seed, self.config.val, self.config.test)


def _tables(location: DataLocation) -> list[str]:
    return [name for name in location.named("*") if name.lower().rpartition(".")[2] in _ENDINGS]
