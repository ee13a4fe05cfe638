"""Data sets of the library `datasets`: its folders on a disk, Parquet files, and names of the Hugging Face hub."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from vse.config import knob
from vse.data.containers import TableFile, open_table, row_uri
from vse.data.image_files import files_below
from vse.data.reading import WITHOUT_SPLITS, SplitNames, field, notice, optional_id, read_json, texts_in
from vse.data.records import Image, Records
from vse.data.shard_splits import ShardsConfig, splits_of_shards
from vse.data.source import DataLocation, GivenCaption, RecordsBuilder, Source, readable_name
from vse.data.table_rows import Chooser, Columns, plain
from vse.errors import InputError, first_line
from vse.registry import register
from vse.storage.folder import Folder
from vse.storage.hub import optional_package
from vse.storage.user_files import refuse_placeholder

_CELLS = 4096  # rows whose text is in memory at once
ROW = "row"  # data.id_column for one image per row
_IDS = ("imageid", "imgid", "cocoid", "filename", "imagepath")  # columns that tell which rows are of one image


@register("source", "hf")
class HuggingFace(Source):
    """Images and captions in columns of Parquet or Arrow files, on a disk or on S3.

    Rows with the same id are one image with the captions of all of them. Reading the records reads the columns of
    text and the paths of the images. Extraction reads each image from its cell.
    """

    title = "the data set"
    layout = "*.parquet or what save_to_disk writes"
    precedence = 10  # before Karpathy's dataset_*.json, which the names of the library's own files match
    image_keys = ("data.root", "data.hub")

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ShardsConfig):
        root: str = knob("", "folder that save_to_disk wrote, or one of Parquet files; a path or an s3:// address")
        hub: str = knob("", "data set of the Hugging Face hub in place of a folder, OWNER/NAME or OWNER/NAME@REVISION")
        subset: str = knob("", "configuration of a data set of the hub that has several")
        image_column: str = knob("", "column of the images; default: the only column of images")
        caption_column: str = knob("", "column of captions, a text or a list, or several between commas")
        split_column: str = knob("", "column of the splits; default: split, or the names of files")
        id_column: str = knob(
            "", "column of the images' ids; the column of the images: their paths; row (default): file and row"
        )

    config: Config

    @property
    def image_root(self) -> str:
        """The folder of the files: `data.root`, or the cache of the library for a data set of the hub."""
        return self.root_of_images(self._files()[0].uri)

    def read(self) -> Records:
        """Records of all files. Raises InputError naming the file that is damaged, or the column that is missing."""
        folder, splits = self._files()
        name = self.config.hub or str(folder)
        builder, captions, seen = RecordsBuilder(name), list[GivenCaption](), dict[str, str]()
        first, lacking, having = dict[tuple[str, str], str](), "", ""
        names = SplitNames(name)
        for file, split in splits.items():
            address = folder.address(file)
            for row, cells in _rows(address, self._choose):
                where = f"{address}: row {row}"
                image = cells.id if cells.id is not None else f"{file.rpartition('.')[0]}/{row}"
                for named in () if self.config.id_column else cells.named:
                    self._refuse_repeated(*named, where, first.setdefault(named, where))
                own = split
                if cells.split is not None:
                    own, having = names.split(str(cells.split), where), where
                    self._refuse_other_split(own, split, where)
                elif not split:
                    own, lacking = self.config.dealt(image), where
                if lacking and having:
                    raise InputError(
                        f"{where}: the split is empty in {lacking} but not in {having}; fill the column in every row, "
                        f"or {WITHOUT_SPLITS}"
                    )
                if image not in seen:
                    builder.image(Image(image, row_uri(file, row, cells.column), own), where)
                elif seen[image] != own:
                    raise InputError(f"{where}: image {image!r} is in {own}, and was in {seen[image]} before")
                seen[image] = own
                captions += [GivenCaption(image, None, text, where) for text in cells.captions]
        names.log()
        builder.given_captions(captions)
        return builder.records(readable_name(name.rpartition("/")[2], "hf"), {"source": "hf"})

    @classmethod
    def recognises(cls, location: DataLocation) -> bool:
        """Recognises what `save_to_disk` writes, and Parquet files with nothing else that may be a data set."""
        if any(map(location.named, ("dataset_dict.json", "dataset_info.json"))):
            return True
        return bool(location.named("*.parquet")) and not any(
            map(location.named, ("*.csv", "*.tsv", "*.json*", "*.tar"))
        )

    @classmethod
    def keys_for(cls, location: DataLocation) -> dict[str, str]:
        """A folder by the names of its files. A file alone is a test split."""
        return {"root": location.folder.uri, **({"test": location.file} if location.file else {})}

    def _files(self) -> tuple[Folder, dict[str, str]]:
        """The folder, and the split of each file below it, empty if only its rows can say it."""
        config = self.config
        if config.hub:
            if config.root:
                raise InputError("data.root, data.hub: name a folder or a data set of the hub; leave one of them out")
            root, files = _downloaded(config.hub, config.subset)
            return Folder.open(root), splits_of_shards(root, files, config)
        if config.subset:
            raise InputError(
                f"data.subset={config.subset}: only with data.hub; name the folder of the subset as data.root"
            )
        folder = self.folder()
        files = _data_files(folder)
        if not files:
            raise InputError(f"data.root={folder}: holds no .parquet or .arrow file; expected what `datasets` writes")
        return folder, splits_of_shards(folder.uri, files, config)

    @staticmethod
    def _refuse_repeated(column: str, name: str, where: str, first: str) -> None:
        """Raises InputError for the name of an earlier row: copies of an image would be in several splits."""
        if first != where:
            raise InputError(
                f"{where}: names the image {name!r}, as {first} does; data.id_column={column} makes rows with the same "
                f"{column} one image with several captions, data.id_column=row keeps them apart"
            )

    def _refuse_other_split(self, own: str, split: str, where: str) -> None:
        """Raises InputError for a row whose split differs from the key that names its file."""
        if own != split and (pattern := getattr(self.config, split, "")):
            raise InputError(
                f"data.{split}={pattern}: {where} has the split {own}; leave data.train, data.val and data.test out to "
                "go by the column of splits, or rename or delete that column to go by these keys"
            )

    def _choose(self, schema: pa.Schema, where: str) -> "_Chosen":
        config, own = self.config, self.config.image_column
        if not own and len(images := _image_features(schema)) == 1:
            own = images[0]
        columns = Chooser(own, config.caption_column).choose(schema.names, where)
        for key in ("split_column", "id_column"):
            if (value := getattr(config, key)) and value not in schema.names and (key, value) != ("id_column", ROW):
                raise InputError(
                    f"data.{key}={value}: {where} has no such column; it has {', '.join(schema.names)[:200]}"
                )
        kind = schema.field(columns.image).type
        if not (
            pa.types.is_struct(kind) or _is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        ):
            raise InputError(
                f"{where}: column {columns.image!r} holds {kind}; expected images, as bytes or as datasets.Image"
            )
        id_column = "" if config.id_column == ROW and ROW not in schema.names else config.id_column
        has_path = _is_text(kind) or (pa.types.is_struct(kind) and "path" in kind.names)
        if id_column == columns.image and not has_path:
            raise InputError(f"data.id_column={id_column}: {where} has no paths in this column; name another one")
        path = columns.image if has_path else ""
        names = [each.name for each in schema if plain(each.name) in _IDS and _is_id(each.type)]
        names = [] if config.id_column else [name for name in names if name != path]
        return _Chosen(columns, config.split_column or columns.split, id_column, path, names)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Columns to read; `split`, `id` and `path` are empty if there are none. `path` is the column of images, and
    `names` are others whose cells say which rows are of one image."""

    columns: Columns
    split: str
    id: str
    path: str
    names: list[str]


@dataclass(frozen=True, slots=True)
class _Cells:
    """A row: the column of its image, its captions, its id and split if it has them, and what it calls its image, by
    column."""

    column: str
    captions: list[str | None]
    id: str | None
    split: Any
    named: list[tuple[str, str]]


def _data_files(folder: Folder) -> list[str]:
    """The files of rows below a folder, without the library's caches.

    A folder that `save_to_disk` wrote lists its files; shards of an earlier, larger data set may still lie there.
    """
    listed = dict[str, set[str]]()
    for state in files_below(folder.uri, ("state.json",)):
        parent, _, name = state.rpartition("/")
        if name == "state.json":
            content = read_json(folder.address(state))
            files = field(content, "_data_files", list, folder.address(state))
            listed[parent] = {field(each, "filename", str, f"{folder.address(state)}: _data_files") for each in files}
    found = []
    for file in files_below(folder.uri, (".parquet", ".arrow")):
        parent, _, name = file.rpartition("/")
        if name in listed[parent] if parent in listed else not fnmatch(name, "cache-*.arrow"):
            found.append(file)
    return found


def _image_features(schema: pa.Schema) -> list[str]:
    """The columns that the library marked as images."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return [name for name, each in features.items() if isinstance(each, Mapping) and each.get("_type") == "Image"]
    except (KeyError, ValueError, TypeError, AttributeError):
        return []


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_id(kind: pa.DataType) -> bool:
    return _is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _rows(address: str, choose: Any) -> Iterator[tuple[int, _Cells]]:
    """Number and text of every row of a file, without its images."""
    try:
        table = open_table(address)
        schema = table.schema_arrow if isinstance(table, pq.ParquetFile) else table.schema
    except (pa.ArrowInvalid, OSError) as error:
        refuse_placeholder(address)
        raise _damaged(address, error) from None
    chosen: _Chosen = choose(schema, address)
    texts = chosen.columns.captions
    by_path = bool(chosen.id) and chosen.id == chosen.path
    others = [name for name in (chosen.split, "" if by_path else chosen.id, *chosen.names) if name]
    row = 0
    for batch in _intact(_batches(table, [*texts, *others], chosen.path), address):
        try:
            values = {name: batch.column(name).to_pylist() for name in batch.schema.names if name != chosen.path}
            paths = _paths(batch, chosen.path)
        except UnicodeDecodeError:
            raise InputError(f"{address}: rows from {row} on hold text that is not UTF-8") from None
        for k in range(batch.num_rows):
            where = f"{address}: row {row}"
            captions = [text for name in texts for text in texts_in(values[name][k], f"{where}: {name!r}")]
            split = values[chosen.split][k] if chosen.split else None
            id_ = None
            if chosen.id:
                id_ = paths[k] if by_path else optional_id({chosen.id: values[chosen.id][k]}, chosen.id, where)
                if id_ is None:
                    raise InputError(f"{where}: {chosen.id!r} is null; every image needs an id")
            named = [(chosen.path, paths[k]), *((name, values[name][k]) for name in chosen.names)]
            named = [(name, str(each)) for name, each in named if each not in (None, "") and each == each]  # no NaN
            yield row, _Cells(chosen.columns.image, captions, id_, split, named)
            row += 1


def _damaged(address: str, error: Exception) -> InputError:
    return InputError(f"{address}: is damaged ({first_line(error)}); copy or download it again")


def _intact(batches: Iterator[pa.RecordBatch], address: str) -> Iterator[pa.RecordBatch]:
    """The batches of a file, whose pages are read only now."""
    try:
        yield from batches
    except (pa.ArrowException, OSError) as error:
        raise _damaged(address, error) from None


def _batches(table: TableFile, names: list[str], image: str) -> Iterator[pa.RecordBatch]:
    """Columns of a file, and of the column of images their paths alone, if `image` names it."""
    names = list(dict.fromkeys(names))
    if isinstance(table, pq.ParquetFile):
        path = image if not image or _is_text(table.schema_arrow.field(image).type) else f"{image}.path"
        return table.iter_batches(_CELLS, columns=[*names, *([path] if path else [])])
    return iter(table.select([*names, *([image] if image else [])]).to_batches(_CELLS))


def _paths(batch: pa.RecordBatch, image: str) -> list[str | None]:
    if not image:
        return [None] * batch.num_rows
    cells: Any = batch.column(image)
    return (cells if _is_text(cells.type) else cells.field("path")).to_pylist()


@lru_cache(maxsize=8)
def _downloaded(name: str, subset: str) -> tuple[str, list[str]]:
    """The folder in the library's cache, and the files below it, of a data set of the hub."""
    datasets = optional_package("datasets", "data.hub", "hf")
    repository, _, revision = name.partition("@")
    try:
        loaded = datasets.load_dataset(repository, subset or None, revision=revision or None)
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = first_line(error)
        raise InputError(
            f"data.hub={name}: cannot be loaded ({reason}); HF_HUB_OFFLINE=1 reads the cache alone"
        ) from None
    files = [each["filename"] for split in loaded.values() for each in split.cache_files]
    root = os.path.commonpath([os.path.dirname(file) for file in files])
    notice(f"data.hub={name}: reading {len(files)} files of {root}")
    return root, [os.path.relpath(file, root) for file in files]
