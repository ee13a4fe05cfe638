"""What to measure, on which splits and by which protocol."""

from dataclasses import dataclass, replace

from vse.adversaries.univse.attacks import PRINTED, WORDS
from vse.adversaries.vsec.words import KINDS
from vse.config import below, knob
from vse.data.records import Split
from vse.errors import InputError
from vse.evaluation.protocol import PUBLISHED, Protocol
from vse.stages.trained import DEVICES


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasureOptions:
    """What to measure."""

    splits: tuple[str, ...] = knob(("test",), "splits of the data set")
    attacks: tuple[str, ...] = knob(
        WORDS,
        "words of adversaries: shared with training negatives, disjoint from them (if held out); published: shared, "
        "and put in as the supplement prints it, true or not; empty: no attacks",
        choices=(*WORDS, PRINTED),
    )
    protocol: str = knob("", "published way of measuring; empty: the whole split", choices=("", *PUBLISHED))
    folds: int = knob(1, "retrieval within this many equal parts of the split, averaged", low=1)
    alpha: float | None = knob(None, "weight of u_sent where the family has it; default: as configured", low=0, high=1)
    components: tuple[str, ...] = knob((), "component types in u_comp at inference; default: as configured")
    drop_components: float = knob(
        0.0, "share of parsed attributes and relations dropped at test (A.2, Table 1, Test Drop)", low=0, high=1
    )
    drop_seed: int = knob(0, "which of them are dropped: the same for all runs", low=0)
    true_pairs: bool = knob(False, "retrieval with all true pairs as positives too, where the source knows the truth")
    gaussian: bool = knob(
        False, "how far codes are from N(0, I), before and after training, in families that keep such codes"
    )
    contrast: tuple[str, ...] = knob((), "kinds of words of VSE-C's contrastive captions", choices=KINDS)
    pairs: tuple[str, ...] = knob(
        (), "files of (image, caption, negative caption), such as SugarCrepe's JSON", reads="file"
    )
    on: tuple[str, ...] = below(
        "path",
        "other data than the run's, by their folder or file (jWAE, Tables 5 and 6); measure.on.source=NAME where that "
        "cannot be told, measure.on.root and other keys of the source; without a path, changes of the run's own data",
        later=True,
    )
    device: str = knob("cpu", "where to compute; auto: on a GPU if there is one", choices=DEVICES)


@dataclass(frozen=True, slots=True)
class Size:
    """How much numbers are over: images and captions of a split as far as a protocol takes them, in all its folds."""

    images: int
    captions: int
    folds: int = 1


def protocol_of(split: str, options: MeasureOptions) -> Protocol:
    """How a split is measured.

    Raises InputError where a published protocol and folds of the user's own are asked for.
    """
    if not options.protocol:
        return Protocol(name=split, split=split, folds=options.folds)
    if options.folds > 1:
        raise InputError(f"measure.protocol={options.protocol} has its own folds; leave measure.folds alone")
    return replace(PUBLISHED[options.protocol], split=f"{split}/{options.protocol}")


def size_of(part: Split, options: MeasureOptions) -> tuple[str, Size]:
    """The name of what is measured of a split, and its size. Raises TooFewImagesError where the split is too small."""
    protocol = protocol_of(part.name, options)
    folds = list(protocol.select(part.caption_to_image, len(part.images)))
    counts = (sum(len(getattr(fold, side)) for fold in folds) for side in ("images", "captions"))
    return protocol.split, Size(*counts, folds=len(folds))
