"""What a table needs at a scale: its blocks of rows on the same data, their trainings, and how each row is measured."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vse import presets
from vse.config import fingerprint, flatten, override, spelled_out, typed
from vse.errors import InputError, did_you_mean
from vse.evaluation.tasks.component_subsets import SUBSETS, Subset, head
from vse.presets import names
from vse.report.published import SETTINGS, PrintedNumber, PublishedRow
from vse.reproduction.catalogue import PaperTable
from vse.reproduction.options import FLICKR8K, PUBLISHED, SCENES, ReproduceOptions
from vse.stages.measuring.options import MeasureOptions
from vse.training.config import RunConfig

_SUFFIXES = {PUBLISHED: ("",), SCENES: ("_scenes", "_small"), FLICKR8K: ("_flickr8k", "_photographs")}
_SECOND = {"drawing": "second", "wording": "second"}  # scenes in place of Flickr30k, if COCO is there too
_PLAIN = {"drawing": "plain", "wording": "plain"}
# Trainings on the second data have the presets of the first: their names contain this setting.
_SECOND_KEY = {SCENES: "data.drawing", FLICKR8K: "data.root"}
# By scale, keys that a data set of regions needs, and what they name. Without proposals, its regions would be copies of
# the annotated boxes, one of which is always right.
_PROPOSALS = {"data.proposals": "file of regions from jobs/propose_regions.py"}
_OF_REGIONS: Mapping[str, Mapping[str, str]] = {
    PUBLISHED: _PROPOSALS,
    SCENES: {},
    FLICKR8K: {
        "data.of.file": "JSON file of phrases and boxes",
        "data.of.captions": "Karpathy file with the sentences of the photographs",
        **_PROPOSALS,
        "text.encoder.model": "folder or name of a text encoder",
    },
}
# One published way of measuring for all rows of a block. No paper says which 1,000 images it takes.
_PROTOCOLS = {
    "coco_1k": "coco_1k_first",
    "coco_5k": "coco_5k",
    "coco2017_1k": "coco_1k_first",
    "coco_plural": "coco_1k_first",
    "flickr_1k": "flickr_1k",
}
_LARGE, _FOLDS = (
    "coco_5k",
    5,
)  # on small data, the block of 1,000 images is a fifth of the split, and of 5,000 all of it


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """A request to the stage that measures: tasks, and keys below `measure`."""

    tasks: tuple[str, ...]
    keys: Mapping[str, Any]

    @property
    def options(self) -> MeasureOptions:
        """All keys. Raises InputError for a wrong one."""
        return override(MeasureOptions(), spelled_out(MeasureOptions(), self.keys))

    @property
    def digits(self) -> str:
        """What identifies it."""
        return fingerprint([self.tasks, self.options])

    @property
    def arguments(self) -> list[str]:
        """As `jobs/evaluate.py` takes it."""
        items = [f"tasks={','.join(self.tasks)}"]
        for key, value in self.keys.items():
            if key == "on":
                items += [f"measure.on={v}" if k == "path" else f"measure.on.{k}={v}" for k, _, v in _split(value)]
            else:
                items.append(f"measure.{key}={typed(value)}")
        return items


def _split(items: Iterable[str]) -> list[tuple[str, str, str]]:
    return [item.partition("=") for item in items]


@dataclass(frozen=True, kw_only=True, eq=False)
class TableRow:
    """A printed row: its training and how it is measured, or why it has none.

    Args:
        label: The system as printed.
        about: Its authors, preset and settings.
        printed: By metric.
        arm: The name of its training; empty for a row of printed numbers alone.
        config: Of this training.
        measurement: How it is measured.
        reason: Why it is printed only.
        derived: As `PaperTable.derived`: a row that takes numbers of another one.
        head: Begins the names of its metrics, if it is a subset of components.
    """

    label: str
    about: str
    printed: Mapping[str, PrintedNumber]
    arm: str = ""
    config: RunConfig | None = None
    measurement: Measurement | None = None
    reason: str = ""
    derived: tuple[str, str] | None = None
    head: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Rows of a table that are measured on the same data, by the same protocol."""

    table: PaperTable
    about: str
    words: str
    rows: tuple[TableRow, ...]
    metrics: tuple[str, ...] = field(default=())


def about_scale(options: ReproduceOptions) -> str:
    """The data and networks of a scale, for the page."""
    if options.scale == PUBLISHED:
        return "the papers' data and sizes"
    order = "compare the order of rows, not values"
    if options.scale == SCENES:
        return (
            "rendered scenes in place of COCO and Flickr30k, the shipped small backbone in place of pretrained "
            f"networks: {order}"
        )
    return f"{_photographs(options)} in place of COCO and Flickr30k, small networks in place of ResNet and VGG: {order}"


def _photographs(options: ReproduceOptions) -> str:
    """The photographs at scale=flickr8k, by the name of their folder."""
    root = options.data.root
    return f"photographs of {os.path.basename(os.path.abspath(root))}" if root else "photographs"


def blocks_of(table: PaperTable, options: ReproduceOptions) -> list[Block]:
    """The blocks of a table at a scale. Raises InputError for settings that do not fit."""
    rows, benchmarks = table.rows, {each for row in table.rows for each in (row.train, row.test)}
    groups: dict[tuple[str, ...], list[PublishedRow]] = {}
    for row in rows:
        protocol = row.protocol if options.scale == PUBLISHED else row.protocol.replace("coco2017", "coco")
        groups.setdefault((row.train, row.test, protocol), []).append(row)
    protocols = {protocol for _, _, protocol in groups}
    blocks = []
    for (train, test, protocol), members in groups.items():
        keys = _measure_keys(table, options, train, test, protocol, whole=_LARGE not in protocols)
        where = _where(options, train, test, protocol, two=len(benchmarks) > 1)
        words = "published" if options.scale == PUBLISHED and "attacks" in table.tasks else "shared"
        arranged = [each for row in members for each in _rows_of(table, row, keys, options, len(benchmarks) > 1)]
        printed = dict.fromkeys(metric for row in members for metric in row.numbers)
        blocks.append(Block(table=table, about=where, words=words, rows=tuple(arranged), metrics=tuple(printed)))
    return blocks


def _measure_keys(
    table: PaperTable, options: ReproduceOptions, train: str, test: str, protocol: str, *, whole: bool
) -> dict[str, Any]:
    """The keys below `measure` that all rows of a block have."""
    keys: dict[str, Any] = {"splits": ("test",)}
    if options.scale == PUBLISHED:
        keys["splits"] = (SETTINGS[protocol].split,)
        keys |= {"protocol": _PROTOCOLS[protocol]} if protocol in _PROTOCOLS else {}
    elif not whole and protocol != _LARGE:
        keys["folds"] = _FOLDS
    if train != test:
        keys["on"] = _other_data(options, test)
    if "attacks" in table.tasks:
        keys["attacks.words"] = ("shared",)
    for task in {"own_pools", "plural_split"} & set(table.tasks):
        keys[f"{task}.words"] = ("shared",)
    if table.protocol is not None and options.scale == PUBLISHED:
        keys |= table.protocol.keys
    uses_glove = options.glove and any("{glove}" in instead for _, instead in table.derived.values())
    for task in table.tasks if uses_glove else ():
        keys[f"{task}.words"] = ("own", options.glove)
    return keys | {
        key.removeprefix("measure."): value for key, _, value in _split(options.set) if key.startswith("measure.")
    }


def _other_data(options: ReproduceOptions, test: str) -> tuple[str, ...]:
    if options.scale == SCENES:
        return tuple(f"{key}={value}" for key, value in (_PLAIN if test == "COCO" else _SECOND).items())
    root = _root(options, test, two=True)
    file = _file(options, root)
    return (f"path={os.path.join(root, file) if file else root}",)


def _root(options: ReproduceOptions, benchmark: str, *, two: bool) -> str:
    """The folder that stands for a benchmark; `two`: of the two of its table."""
    first, second = options.data.root, options.data.other
    if options.scale == PUBLISHED:
        return second or first if benchmark == "Flickr30k" else first
    return second if two and benchmark == "Flickr30k" else first


def _file(options: ReproduceOptions, root: str) -> str:
    """The file of a folder that `data.file` names; empty for another folder than `data.root`."""
    return options.data.file if root == options.data.root else ""


def _where(options: ReproduceOptions, train: str, test: str, protocol: str, *, two: bool) -> str:
    """What the rows of a block are measured on, printed and here."""
    printed = SETTINGS[protocol].about + (f", trained on {train}" if train != test else "")
    if options.scale == PUBLISHED:
        return printed

    def here(benchmark: str) -> str:
        second = two and benchmark == "Flickr30k"
        if options.scale == SCENES:
            return "scenes, second drawing and wording" if second else "scenes"
        return "the second photographs" if second else _photographs(options)

    return f"{printed}; here {here(test)}" + (f", trained on {here(train)}" if train != test else "")


def _rows_of(
    table: PaperTable, row: PublishedRow, keys: Mapping[str, Any], options: ReproduceOptions, two: bool
) -> Iterable[TableRow]:
    about = [row.citation] if row.citation else []
    if row.system in table.derived:
        part, instead = table.derived[row.system]
        if "{glove}" in instead and not options.glove:
            yield TableRow(label=row.system, about=row.citation, printed=row.numbers, reason="glove=FILE is not given")
            return
        derived = (part, instead)
        yield TableRow(label=row.system, about=row.citation, printed=row.numbers, derived=derived)
        return
    if not row.presets:
        yield TableRow(label=row.system, about=row.citation, printed=row.numbers, reason="cited, not built here")
    for published in row.presets:
        name = preset_at(published, options.scale)
        if not name:
            reason = f"{published} has no preset at scale={options.scale}"
            yield TableRow(label=row.system, about=", ".join(about), printed=row.numbers, reason=reason)
            continue
        own = {key: value for key, value in row.settings.items() if not key.startswith("measure.")}
        measuring: dict[str, Any] = {
            key.removeprefix("measure."): v for key, v in row.settings.items() if key not in own
        }
        measurement, begins = Measurement(tasks=table.tasks, keys={**keys, **measuring}), ""
        if table.subsets and not row.citation:
            measurement, begins = _of_subset(keys, measuring)
        changes, lacking = _changes(options, row, two)
        config = _configured(name, {**changes, **own}, options)
        if reason := lacking or _lacking_of_regions(config, options):
            yield TableRow(label=row.system, about=", ".join(about), printed=row.numbers, reason=reason)
            continue
        settings = [f"{key}={value}" for key, value in row.settings.items()]
        second = _SECOND_KEY.get(options.scale) if two and row.train == "Flickr30k" else None
        yield TableRow(
            label=row.system,
            about=" · ".join([*about, name, *settings]),
            printed=row.numbers,
            arm=arm_of(name, {**{k: v for k, v in changes.items() if k == second}, **own}),
            config=config,
            measurement=measurement,
            head=begins,
        )


def _of_subset(keys: Mapping[str, Any], measuring: Mapping[str, Any]) -> tuple[Measurement, str]:
    """The measurement of all subsets of components, and what begins the metrics of one: α = 1 is the empty one."""
    (words,) = keys["attacks.words"]
    shared = {key: value for key, value in keys.items() if key != "attacks.words"}
    empty: Subset = () if "alpha" in measuring else SUBSETS[0]
    subset = (measuring["components"],) if "components" in measuring else empty
    return Measurement(tasks=("component_subsets",), keys={**shared, "component_subsets.words": words}), head(subset)


def arm_of(preset: str, settings: Mapping[str, Any]) -> str:
    """The name of a training: its preset, and what differs from it."""
    return " ".join([preset, *(f"{key}={value}" for key, value in settings.items())])


def preset_at(published: str, scale: str) -> str:
    """The preset of a published one at a scale; empty if there is none."""
    system = published if scale == PUBLISHED else re.sub("_(coco|flickr30k)$", "", published)
    return next((name for suffix in _SUFFIXES[scale] if (name := system + suffix) in names()), "")


def _changes(options: ReproduceOptions, row: PublishedRow, two: bool) -> tuple[dict[str, Any], str]:
    """Settings of the data and inputs of a row's training, and the inputs that are missing."""
    if options.scale == SCENES:
        return ({f"data.{key}": v for key, v in _SECOND.items()} if two and row.train == "Flickr30k" else {}), ""
    roots = {benchmark: _root(options, benchmark, two=two) for benchmark in (row.train, row.test)}
    absent = [benchmark for benchmark, root in roots.items() if not root]
    if absent:
        second = two and options.scale == FLICKR8K and "Flickr30k" in absent
        first = "photographs" if options.scale == FLICKR8K else " and ".join(dict.fromkeys(absent))
        shown, key = ("the second photographs", "data.other") if second else (first, "data.root")
        return {}, f"{shown}: no folder is given; {key}=DIR names it"
    changes: dict[str, Any] = {"data.root": roots[row.train]}
    file = _file(options, roots[row.train])
    if file or options.scale == FLICKR8K:
        changes["data.file"] = file
    if options.weights:
        changes["features.backbone.weights"] = options.weights
        changes |= {f"features.backbone.{key}": v for key in ("mean", "std") if (v := getattr(options, key))}
    pretrained = re.search("GloVe|word2vec|HGLMM|fastText|mean vector", row.text_encoder)
    if options.vectors and (pretrained or options.scale == FLICKR8K):
        changes["text.word_vectors"] = options.vectors
    return changes, ""


def _configured(name: str, changes: Mapping[str, Any], options: ReproduceOptions) -> RunConfig:
    config = presets.preset(name)
    there = flatten(config)
    if "data.of.root" in there:  # a data set of regions
        changes = {key.replace("data.root", "data.of.root"): value for key, value in changes.items()}
    requested = {key: value for key, _, value in _split(options.set) if not key.startswith("measure.")}
    shared = {key: value for key, value in requested.items() if key in there or key.split(".")[0] not in ("data",)}
    config = override(config, {key: v for key, v in changes.items() if key != "data.file" or key in there})
    return override(config, {key: value for key, value in shared.items() if key in flatten(config)})


def _lacking_of_regions(config: RunConfig, options: ReproduceOptions) -> str:
    """What a data set of regions lacks; empty for other data. Raises InputError if other such keys are set."""
    there = flatten(config)
    needed = _OF_REGIONS[options.scale] if "data.of.root" in there else {}
    missing = next((key for key in needed if not there[key]), "")
    reason = f"{missing}: no {needed[missing]} is given; set={missing}=FILE names it" if missing else ""
    if reason and any(key in needed for key, _, _ in _split(options.set)):
        raise InputError(reason)
    return reason


def check_set(options: ReproduceOptions, configs: Iterable[RunConfig]) -> None:
    """Raises InputError for a setting that is no KEY=VALUE, or whose key no training has."""
    valid_keys = {key for config in configs for key in flatten(config)}
    for key, equals, _ in _split(options.set):
        if not equals or not key:
            raise InputError(f"set={key}: expected KEY=VALUE, as set=train.epochs=4")
        if key.startswith("measure.") or not valid_keys:
            continue
        if key == "seed":
            raise InputError("set=seed: trainings take their seeds from seeds=N")
        if key not in valid_keys:
            near = did_you_mean(key, sorted(valid_keys)) or "jobs/train.py --help lists the keys"
            raise InputError(f"set={key}: no training of the table has this key; {near}")
