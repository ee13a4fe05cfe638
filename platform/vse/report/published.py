"""Numbers printed in the papers, of their own and of cited systems, from `published.csv`.

The file has one line for each number, in the order of the papers' tables: paper and table, system and its authors, the
preset that implements it, data and protocol, encoders if the paper names them, and the number as printed.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from vse.adversaries.attacks import of_paper
from vse.errors import InputError, did_you_mean
from vse.evaluation.metrics import RECALLS, WAYS, rank_metrics
from vse.report.tables import Column

FILE = "published.csv"


@dataclass(frozen=True, kw_only=True, slots=True)
class Paper:
    """A paper with tables in the file."""

    name: str
    citation: str
    tables: tuple[str, ...]


PAPERS = {
    "vse_c": Paper(name="VSE-C", citation="Shi et al., COLING 2018", tables=("2", "3", "4", "6", "7")),
    "univse": Paper(name="UniVSE", citation="Wu et al., CVPR 2019", tables=("1", "2", "3", "4")),
    "univse_supplement": Paper(name="UniVSE, supplement", citation="Wu et al., CVPR 2019", tables=("1", "2", "3", "4")),
    "relational": Paper(name="Relational VSE", citation="Yan, UC San Diego 2019", tables=("3.1",)),
    "jwae": Paper(name="jWAE", citation="Mahajan et al., ICCV 2019", tables=("3", "4", "5", "6", "7")),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalSet:
    """The data of a number. Values of `measure.protocol` in `protocols` give comparable numbers on that split."""

    about: str
    protocols: tuple[str, ...] = ()
    split: str = "test"


SETTINGS = {
    "coco_1k": EvalSet(about="1,000 test images of COCO", protocols=("coco_1k_folds", "coco_1k_first")),
    "coco_5k": EvalSet(about="5,000 test images of COCO", protocols=("coco_5k",)),
    "coco2017_1k": EvalSet(about="1,000 validation images of COCO 2017", protocols=("coco_1k_first",), split="val"),
    "coco_plural": EvalSet(about="205 test images of COCO with captions in the plural"),
    "coco_words": EvalSet(about="words for images of COCO"),
    "coco_blanks": EvalSet(about="blanks in captions of COCO"),
    "flickr_1k": EvalSet(about="1,000 test images of Flickr30k", protocols=("flickr_1k",)),
    "flickr_entities": EvalSet(about="phrases of Flickr30k Entities to boxes, IoU of 0.5"),
}


_RECALLS = tuple(f"r{k}" for k in RECALLS)


def own_pools(kind: str) -> str:
    """The heading of retrieval among an image's own adversaries of VSE-C."""
    return f"own adversaries: {kind}"


def _columns() -> Iterator[Column]:
    yield Column("rsum", "rsum", "plain")
    for way, sign in WAYS.items():
        yield from map(Column.of, rank_metrics(way, sign))
    for attack in of_paper():
        yield from map(Column.of, rank_metrics(f"attack_{attack}", f"{attack} attack", _RECALLS))
        yield Column(f"attack_{attack}/rsum3", "rsum3", f"{attack} attack")
    yield Column("attack_total/rsum3", "sum of rsum3", "all three attacks")
    for kind in ("all", "noun", "numeral", "relation"):
        yield from map(Column.of, rank_metrics(f"own_pool_{kind}", own_pools(kind)))
    yield from map(Column.of, rank_metrics("plural_split/own_pool_plural", own_pools("plural")))
    yield Column("image_to_word/own/map", "mAP", "image → word")
    for kind in ("noun", "preposition", "all"):
        yield from map(Column.of, rank_metrics(f"fill_in_blank/own/{kind}", f"fill in: {kind}", _RECALLS))
    for query, title in (("obj", "object"), ("attr", "attribute"), ("rel", "relation"), ("obj_det", "detected")):
        yield Column(f"unified_{query}/map", "mAP", f"text → image: {title}")
    yield Column("unified_sum", "sum", "text → image: total")
    for kind in ("attribute", "relation"):
        yield Column(f"parsing_{kind}/accuracy", "accuracy", f"dependencies: {kind}")
    yield from map(Column.of, rank_metrics("phrase_localisation", "phrase → box", _RECALLS))


COLUMNS = tuple(_columns())  # metrics that exist here are named as by `vse.stages.measuring`, without the split
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "paper": tuple(PAPERS),
    "protocol": tuple(SETTINGS),
    "finetuned": ("yes", "no", ""),
    "metric": tuple(column.metric for column in COLUMNS),
    "train": ("COCO", "Flickr30k"),
    "test": ("COCO", "Flickr30k"),
}


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A number as printed, and a remark on it, for instance on a contradiction within its paper."""

    printed: str
    note: str

    @property
    def value(self) -> float:
        return float(self.printed)


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedRow:
    """The numbers of one system on one data set in one table of a paper.

    `citation` names the system's authors and is empty for the paper's own. `presets` implement it, with `settings`
    (dotted keys of the run, or of `measure`) on top; they are empty if it is not implemented here. Encoders and
    `finetuned` (of the image encoder) are empty if the paper does not say.
    """

    paper: str
    table: str
    system: str
    citation: str
    presets: tuple[str, ...]
    settings: Mapping[str, str]
    train: str
    test: str
    protocol: str
    image_encoder: str
    finetuned: str
    text_encoder: str
    numbers: Mapping[str, PrintedNumber]

    @property
    def source(self) -> str:
        return f"{PAPERS[self.paper].name}, Table {self.table}"


_SHARED: tuple[str, ...] = ("paper", "table", "system", "citation", "preset", "settings", "train", "test", "protocol")
_SHARED += ("image_encoder", "finetuned", "text_encoder")
_HEAD: tuple[str, ...] = (*_SHARED, "metric", "value", "note")


@cache
def read_published() -> tuple[PublishedRow, ...]:
    """All rows of the package's file, in its order."""
    return parse(resources.files("vse.report").joinpath(FILE).read_text(encoding="utf-8"))


def parse(text: str, where: str = FILE) -> tuple[PublishedRow, ...]:
    """The rows of a text in the form of the file. Raises InputError with the line and the field that are wrong."""
    rows = list(csv.reader(text.splitlines()))
    if not rows or tuple(rows[0]) != _HEAD:
        raise InputError(f"{where}: line 1: expected the columns {','.join(_HEAD)}")
    systems: dict[tuple[str, ...], dict[str, PrintedNumber]] = {}
    for number, cells in enumerate(rows[1:], start=2):
        here = f"{where}: line {number}"
        if len(cells) != len(_HEAD):
            raise InputError(f"{here}: has {len(cells)} fields, expected {len(_HEAD)}")
        row = dict(zip(_HEAD, cells, strict=True))
        _check(row, here)
        numbers = systems.setdefault(tuple(row[name] for name in _SHARED), {})
        if row["metric"] in numbers:
            raise InputError(f"{here}: metric {row['metric']!r} of {row['system']!r} is listed already")
        numbers[row["metric"]] = PrintedNumber(row["value"], row["note"])
    published = []
    for key, numbers in systems.items():
        row = dict(zip(_SHARED, key, strict=True))
        presets, settings = row.pop("preset").split(), row.pop("settings").split()
        pairs = dict(setting.split("=", 1) for setting in settings)
        published.append(PublishedRow(presets=tuple(presets), settings=pairs, numbers=numbers, **row))
    return tuple(published)


def _check(row: Mapping[str, str], here: str) -> None:
    for name, choices in _CHOICES.items():
        if row[name] not in choices:
            hint = did_you_mean(row[name], choices) or f"expected one of {', '.join(filter(None, choices))}"
            raise InputError(f"{here}: {name} {row[name]!r}: unknown; {hint}")
    tables = PAPERS[row["paper"]].tables
    if row["table"] not in tables:
        raise InputError(f"{here}: table {row['table']!r}: of {row['paper']} there are {', '.join(tables)}")
    if not row["system"]:
        raise InputError(f"{here}: system: must not be empty")
    if not re.fullmatch(r"\d+(\.\d+)?", row["value"]):
        raise InputError(f"{here}: value {row['value']!r}: expected a number as printed")
    for setting in row["settings"].split():
        if not re.fullmatch(r"[\w.]+=.+", setting):
            raise InputError(f"{here}: settings {setting!r}: expected key=value")
