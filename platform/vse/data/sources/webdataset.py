"""Shards of WebDataset: tar archives whose files of one base name are a sample, such as `7.jpg` and `7.txt`."""

import json
import posixpath
import re
import tarfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from vse.config import knob
from vse.data.containers import bytes_uri
from vse.data.image_files import ENDINGS, files_below
from vse.data.reading import decode, notice, texts_in
from vse.data.records import Image, Records
from vse.data.shard_splits import ShardsConfig, splits_of_shards
from vse.data.source import DataLocation, GivenCaption, RecordsBuilder, Source, readable_name
from vse.errors import InputError
from vse.registry import register
from vse.storage import user_files
from vse.storage.parallel_reads import read_each

_LINE_ENDS = re.compile("\r\n|\r|\n")
_CAPTION_KEYS = ("caption", "captions", "text", "texts", "sentences")


@register("source", "webdataset")
class WebDataset(Source):
    """Images and captions of tar archives without compression, on a disk or on S3.

    Every line of the files `.txt` of a sample is a caption. Samples without one have captions in their `.json`, as
    text or a list of texts. Reading the records fetches the headers of an archive, texts and JSON. Extraction reads
    each image from its place in the archive.
    """

    title = "the shards"
    layout = "*.tar of WebDataset"
    image_keys = ("data.root",)

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ShardsConfig):
        root: str = knob("", "folder of the shards, a path or an s3:// address")
        image: str = knob("", "ending of the images, if samples have several, such as left.jpg; default: jpg, png, ...")
        encoding: str = knob("", "encoding of .txt, such as latin-1; default: by its byte order mark, or UTF-8")
        caption_key: str = knob(
            "", "key of .json with the captions, preferred to .txt; default: .txt, else caption, text or sentences"
        )

    config: Config

    @property
    def image_root(self) -> str:
        """The folder `data.root`."""
        return self.root_of_images(self.folder().uri)

    def read(self) -> Records:
        """Records of all shards. Raises InputError naming the shard that is damaged or incomplete."""
        folder = self.folder()
        splits = self._splits(folder.uri)
        shards = read_each(folder, lambda file: samples(folder.address(file)), splits)
        counts = Counter(sample.key for shard in shards for sample in shard)
        by_shard = any(count > 1 for count in counts.values())
        if by_shard:
            notice(f"{folder}: keys of samples occur in several shards; images are named SHARD/KEY")
        builder, captions = RecordsBuilder(str(folder)), list[GivenCaption]()
        without_captions = dict[str, Sample]()
        for (file, split), shard in zip(splits.items(), shards, strict=True):
            for sample in shard:
                where = f"{folder.address(file)}: sample {sample.key!r}"
                image = f"{file.removesuffix('.tar')}/{sample.key}" if by_shard else sample.key
                ending = self._image_of(sample, where)
                if not ending:
                    builder.reject(image, "sample without an image")
                    continue
                uri = bytes_uri(file, *sample.places[ending])
                builder.image(Image(image, uri, split or self.config.dealt(image)), where)
                texts = self._captions(sample, where)
                if texts is None:
                    without_captions[where] = sample
                captions += [GivenCaption(image, None, text, where) for text in texts or ()]
        if without_captions and not captions:
            raise InputError(_no_captions(without_captions, self.config.caption_key))
        builder.given_captions(captions)
        return builder.records(readable_name(folder.name, "webdataset"), {"source": "webdataset"})

    @classmethod
    def recognises(cls, location: DataLocation) -> bool:
        """Recognises a folder with tar archives, or one archive."""
        return bool(location.named("*.tar"))

    @classmethod
    def keys_for(cls, location: DataLocation) -> dict[str, str]:
        """A folder by the names of its shards. A shard alone is a test split."""
        return {"root": location.folder.uri, **({"test": location.file} if location.file else {})}

    def _splits(self, root: str) -> dict[str, str]:
        """The split of each shard; empty for all if neither keys nor names say one."""
        shards = files_below(root, (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz"))
        packed = [file for file in shards if not file.lower().endswith(".tar")]
        if packed:
            raise InputError(
                f"data.root={root}: {packed[0]} is compressed, but images are read from their place in an archive; "
                "unpack it to .tar"
            )
        if not shards:
            raise InputError(f"data.root={root}: holds no .tar file; expected the shards of a WebDataset")
        return splits_of_shards(root, shards, self.config)

    def _image_of(self, sample: "Sample", where: str) -> str:
        """The ending of a sample's image; empty if it has none."""
        if wanted := self.config.image.lstrip("."):
            return wanted if wanted in sample.places else ""
        images = [ending for ending in sample.places if f".{ending}".endswith(ENDINGS)]
        if len(images) > 1:
            several = len({ending.rpartition(".")[0] for ending in images}) > 1
            rename = "; or, if they are of different samples, rename them, for a key ends at the first dot of a name"
            raise InputError(
                f"{where}: has the images {', '.join(images)}; choose with data.image={images[0]}"
                + (rename if several else "")
            )
        return images[0] if images else ""

    def _captions(self, sample: "Sample", where: str) -> list[str | None] | None:
        """The captions of a sample; None if it has no file or key of captions."""
        texts = {ending: data for ending, data in sample.texts.items() if not _is_json(ending)}
        if texts and not self.config.caption_key:
            encoding = self.config.encoding
            content = (decode(texts[ending], f"{where}: .{ending}", encoding)[0] for ending in sorted(texts))
            # not splitlines, which also splits at separators within a caption, such as U+2028
            return [line for each in content for line in _LINE_ENDS.split(each) if line.strip()]
        keys = (self.config.caption_key,) if self.config.caption_key else _CAPTION_KEYS
        for ending in sorted(sample.texts.keys() - texts.keys()):
            entry = _object(sample.texts[ending], f"{where}: .{ending}")
            for key in keys:
                if key in entry:
                    return texts_in(entry[key], f"{where}: .{ending}: {key!r}")
        return None


@dataclass(slots=True)
class Sample:
    """One sample of a shard: places of its files in the archive, and the content of texts and JSON, by ending."""

    key: str
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)


def samples(address: str) -> tuple[Sample, ...]:
    """The samples of a shard in its order. Raises InputError if the archive is damaged or has a file twice."""
    return _samples(address, *user_files.version(address))


@lru_cache(maxsize=1024)
def _samples(address: str, size: int, version: str) -> tuple[Sample, ...]:
    """`samples`, once per process while the file stays the same: a job asks its source several times."""
    by_key, end = dict[str, Sample](), 0
    if not size:
        raise InputError(f"{address}: {user_files.EMPTY}")
    with user_files.open_file(address) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                for member in archive:
                    end = member.offset_data + -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
                    key, _, ending = _parts(member.name)
                    if not member.isfile() or not ending:
                        continue
                    start, stop = member.offset_data, member.offset_data + member.size
                    if stop > size:
                        raise InputError(f"{address}: is cut off within {member.name}; copy or download it again")
                    sample = by_key.setdefault(key, Sample(key))
                    if ending in sample.places:
                        raise InputError(f"{address}: has the file {member.name} twice; keys of samples must be unique")
                    sample.places[ending] = (start, stop)
                    if ending.rpartition(".")[2] == "txt" or _is_json(ending):
                        stream.seek(start)
                        sample.texts[ending] = stream.read(member.size)
            stream.seek(end)  # tarfile stops silently at a damaged header
            if stream.read(tarfile.BLOCKSIZE).strip(b"\0"):
                raise InputError(f"{address}: is damaged at byte {end:,}; copy or download it again")
        except tarfile.TarError as error:
            reason = user_files.placeholder(user_files.ends(address, user_files.SPAN)[1]) or str(error)
            raise InputError(f"{address}: is not a complete tar archive ({reason})") from None
    return tuple(by_key.values())


def _parts(name: str) -> tuple[str, str, str]:
    """(key, ".", ending): the base name of WebDataset ends at the first dot. Hidden files have no ending."""
    folder, base = posixpath.split(name.removeprefix("./"))
    stem, dot, ending = base.partition(".")
    hidden = not stem or (stem.startswith("__") and stem.endswith("__"))
    return (posixpath.join(folder, stem), dot, "" if hidden else ending.lower())


def _is_json(ending: str) -> bool:
    return ending.rpartition(".")[2] == "json"


def _object(data: bytes, where: str) -> Mapping[str, Any]:
    try:
        entry = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: is not complete JSON ({error})") from None
    if not isinstance(entry, dict):
        raise InputError(f"{where}: expected an object, got {type(entry).__name__}")
    return entry


def _no_captions(without: Mapping[str, Sample], key: str) -> str:
    """What is wrong if no sample has captions: its first lacks a file or a key."""
    where, sample = next(iter(without.items()))
    files = ", ".join(f".{ending}" for ending in sample.places)
    for ending in sorted(sample.texts):
        if _is_json(ending):
            listed = ", ".join(_object(sample.texts[ending], where))[:200] or "none"
            wanted = key or "caption"
            return f"{where}: .{ending} lacks the key {wanted!r}; its keys are {listed}; data.caption_key names one"
    return f"{where}: has no captions; expected a file .txt or .json next to {files}"
