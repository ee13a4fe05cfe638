"""How to measure: splits, protocol, changes at inference, and the keys of every task."""

from dataclasses import dataclass, field, fields, make_dataclass, replace
from typing import TYPE_CHECKING, Any

from vse.adversaries.attacks import CONTRAST_ATTACKS
from vse.adversaries.pools import PoolConfig
from vse.adversaries.vsec.candidates import NAMED, Rules
from vse.adversaries.vsec.evaluation_sets import PER_CLASS
from vse.adversaries.vsec.words import KINDS
from vse.config import below, group, knob
from vse.data.records import Split
from vse.errors import InputError
from vse.evaluation import tasks
from vse.evaluation.protocol import PUBLISHED, Protocol
from vse.evaluation.task import Scope, Task
from vse.stages.trained import DEVICES
from vse.training.config import TextConfig

TASKS = knob(tasks.DEFAULT, tasks.help_text())
"""The key `tasks` of a job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdversaryWords:
    """Which words adversarial captions take. They are the measurement's, so that all runs of a table are attacked alike
    whatever they were trained against."""

    pools: PoolConfig = field(default_factory=PoolConfig)
    contrast: Rules = group(Rules(), NAMED, "rules for VSE-C's adversaries, of which all kinds are made")
    min_count: float = knob(
        2, "VSE-C's adversaries: rarer words are not used; below 1: a share of the captions", above=0
    )

    @property
    def rules(self) -> Rules:
        """How VSE-C's adversaries are made: of every kind."""
        return replace(self.contrast, paradigms=tuple(CONTRAST_ATTACKS))

    def held_out_of(self, text: TextConfig) -> tuple[bool, bool]:
        """Whether training never took the words of disjoint attacks, UniVSE's and VSE-C's."""
        rules = replace(text.contrast, paradigms=self.rules.paradigms)
        pools_apart = self.pools.held_out and text.pools == self.pools
        return pools_apart, self.contrast.held_out and rules == self.rules


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Images of a larger split whose captions all have enough of VSE-C's adversaries (VSE-C, section 4.1: 1,000 images
    of the 5,000, each caption with at least 20 noun, numeral and relation adversaries)."""

    images: int = knob(
        0,
        "measure the first so many images of a split whose captions all have enough adversaries; 0: all images",
        low=0,
    )
    least: int = knob(PER_CLASS, "adversaries of each class that a caption needs", low=1, high=PER_CLASS)
    words: str = knob("all", "words of these adversaries, as measure.contrast.words", choices=KINDS)

    def name(self, split: str) -> str:
        """A split of which images are selected, in the names of metrics."""
        return f"{split}/selected_{self.images}_with_{self.least}_{self.words}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedOptions:
    """How to measure, whatever the task."""

    splits: tuple[str, ...] = knob(("test",), "splits of the data set")
    protocol: str = knob("", "published protocol; empty: the whole split", choices=("", *PUBLISHED))
    folds: int = knob(1, "retrieval within this many equal parts of the split, averaged", low=1)
    alpha: float | None = knob(None, "weight of u_sent if the family has it; default: as configured", low=0, high=1)
    components: tuple[str, ...] = knob((), "component types in u_comp at inference; default: as configured")
    drop_components: float = knob(
        0.0, "share of parsed attributes and relations dropped at test (A.2, Table 1, Test Drop)", low=0, high=1
    )
    drop_seed: int = knob(0, "seed of the choice of dropped components, the same for all runs", low=0)
    on: tuple[str, ...] = below(
        "path",
        "other data than the run's, by folder or file (jWAE, Tables 5 and 6), with measure.on.source=NAME if the "
        "source is ambiguous and other keys of the source; without a folder or file, these keys change the run's own "
        "data",
    )
    adversaries: AdversaryWords = field(default_factory=AdversaryWords)
    selection: Selection = field(default_factory=Selection)
    device: str = knob("cpu", "where to compute; auto: on a GPU if there is one", choices=DEVICES)

    def task(self, name: str) -> Task:
        """A task with its keys."""
        return tasks.task(name)(getattr(self, name, None))


if TYPE_CHECKING:

    class MeasureOptions(SharedOptions):
        """How to measure, with the keys of every task below its name."""

        def __init__(self, **values: Any) -> None: ...

else:
    MeasureOptions = make_dataclass(
        "MeasureOptions",
        [
            (name, tasks.task(name).Config, field(default_factory=tasks.task(name).Config))
            for name in tasks.names()
            if fields(tasks.task(name).Config)
        ],
        bases=(SharedOptions,),
        namespace={"__doc__": "How to measure, with the keys of every task below its name.", "__module__": __name__},
        frozen=True,
        kw_only=True,
        slots=True,
    )


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers of images and captions that a protocol takes from a split, over all its folds."""

    images: int
    captions: int
    folds: int = 1


def protocol_of(split: str, options: SharedOptions) -> Protocol:
    """The protocol that measures a split.

    The images of `options.selection` are chosen later, by their adversaries. Raises InputError if the options combine
    a published protocol with `folds`, or a selection with several folds.
    """
    if not options.protocol:
        protocol = Protocol(name=split, split=split, folds=options.folds)
    elif options.folds > 1:
        raise InputError(f"measure.protocol={options.protocol} has its own folds; leave measure.folds out")
    else:
        protocol = replace(PUBLISHED[options.protocol], split=f"{split}/{options.protocol}")
    if not options.selection.images:
        return protocol
    if protocol.folds > 1:
        setting = f"measure.selection.images={options.selection.images}"
        raise InputError(f"{setting}: needs a protocol with one fold, but {protocol.name} has {protocol.folds}")
    return replace(protocol, split=options.selection.name(protocol.split))


def label_of(task: Task, split: str, options: SharedOptions) -> str:
    """The prefix of a task's metric names: the split, with the published protocol if there is one.

    Args:
        task: A task of the data set has a label of its own. A task of whole splits ignores the protocol.
        split: Name of the split.
        options: How it is measured.
    """
    return {Scope.PROTOCOL: protocol_of(split, options).split, Scope.SPLIT: split, Scope.DATA: task.label}[task.scope]


def size_of(part: Split, protocol: Protocol) -> tuple[str, Size]:
    """(name of the measured part of a split, its size). Raises TooFewImagesError if the split is too small."""
    folds = list(protocol.select(part.caption_to_image, len(part.images)))
    counts = (sum(len(getattr(fold, side)) for fold in folds) for side in ("images", "captions"))
    return protocol.split, Size(*counts, folds=len(folds))
