"""Subsets of the components of u_comp at inference (UniVSE, section 4.2 and Table 2)."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Protocol, runtime_checkable

import torch

from vse.adversaries.attacks import ATTACKS
from vse.adversaries.univse.generate import PRINTED, WORDS
from vse.config import knob
from vse.evaluation.attacks import AnySet, AttackCount, Attacked, restrict
from vse.evaluation.codes import Codes
from vse.evaluation.metrics import RECALLS, WAYS, Metric, RetrievalCounter, mean_over_folds, rank_metrics
from vse.evaluation.protocol import Fold
from vse.evaluation.retrieval import Blocks, Encoded, count_retrieval
from vse.evaluation.task import Capability, Context, Task
from vse.evaluation.tasks.attacks import UNIVSE, attack_metrics
from vse.registry import ComponentConfig, register

Subset = tuple[str, ...]

OBJECT, ATTRIBUTE = "object", "attribute"
SHORT = {OBJECT: "obj", ATTRIBUTE: "attr", "relation": "rel"}
SUBSETS: tuple[Subset, ...] = (
    tuple(SHORT),
    (),
    *((name,) for name in SHORT),
    *combinations(SHORT, 2),
)
"""All subsets of the types of components: those of Table 2 in its order, then the pairs."""


@runtime_checkable
class AggregatesComponents(Protocol):
    """A family whose caption vector aggregates components, and which can return that of other component types too."""

    component_types: tuple[str, ...]
    further_bags: Mapping[str, tuple[str, ...]]


COMPONENTS = Capability(
    "families that aggregate components of captions, such as UniVSE",
    lambda subject: all(isinstance(family, AggregatesComponents) for family in subject.families),
)


def label(subset: Subset) -> str:
    """As in Table 2: `u_sent + u_obj`."""
    if subset == SUBSETS[0]:
        return "u_sent + u_comp"
    return " + ".join(("u_sent", *(f"u_{SHORT[name]}" for name in subset)))


def head(subset: Subset) -> str:
    """Begins the names of a subset's metrics."""
    names = ("all",) if subset == SUBSETS[0] else subset or ("none",)
    return "_".join(("components", *names))


@contextmanager
def returning(families: Iterable[AggregatesComponents], subsets: Iterable[Subset]) -> Generator[None]:
    """Let families return a u_comp of each subset, next to their own, from one pass over captions."""
    listed, bags = list(families), {head(subset): subset for subset in subsets if subset}
    for family in listed:
        family.further_bags = bags
    try:
        yield
    finally:
        for family in listed:
            family.further_bags = {}


def with_subset(captions: Encoded, subset: Subset) -> dict[str, torch.Tensor]:
    """Codes in which u_comp is of a subset, or u_sent for none, whatever other codes there are."""
    bag = head(subset) if subset else "sentences"
    own = {name: code for name, code in captions.items() if not name.rpartition("/")[2].startswith("components_")}
    return {name: captions[name[: -len("bags")] + bag] if name.endswith("bags") else own[name] for name in own}


@register("task", "component_subsets")
class ComponentSubsetsTask(Task):
    """UniVSE's Table 2: attacks and retrieval with each subset of objects, attributes and relations in u_comp."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        words: str = knob("shared", "words of adversaries, as measure.attacks.words", choices=(*WORDS, PRINTED))
        attribute_with_objects: bool = knob(
            True, "under the attribute attack, u_attr alone is combined with u_obj (UniVSE, supplement B.2)"
        )

    config: Config
    needs = (COMPONENTS,)
    records_queries = True
    portable = True

    def list_metrics(self) -> tuple[Metric, ...]:
        return tuple(metric for subset in SUBSETS for metric in _metrics(subset))

    @property
    def adversaries(self) -> tuple[tuple[str, str], ...]:
        return ((UNIVSE, self.config.words),)

    def used(self, subset: Subset, attack: str) -> Subset:
        """The subset that stands in u_comp under an attack."""
        joined = self.config.attribute_with_objects and subset == (ATTRIBUTE,) and attack == ATTRIBUTE
        return (OBJECT, ATTRIBUTE) if joined else subset

    def measure(self, context: Context) -> dict[str, float]:
        with returning(context.runs.families, SUBSETS):  # pyrefly: ignore[bad-argument-type]  # COMPONENTS has looked
            codes = context.encode()
            return mean_over_folds(
                self._fold(context, codes, number, fold) for number, fold in enumerate(context.folds)
            )

    def _fold(self, context: Context, codes: Codes, number: int, fold: Fold) -> dict[str, float]:
        images, captions = context.encoded(fold, codes)
        counters = {
            subset: count_retrieval(context.model, images, with_subset(captions, subset), fold.caption_to_image)
            for subset in SUBSETS
        }
        values, totals = dict[str, float](), dict.fromkeys(SUBSETS, 0.0)
        for subset, counter in counters.items():
            result = counter.result()
            values |= {f"{head(subset)}/{name}": value for name, value in result.metrics().items()}
            context.record(f"{head(subset)}/i2t", number, result.i2t)
            context.record(f"{head(subset)}/t2i", number, result.t2i, captions=True)
        sets = {
            name: restrict(each, fold)
            for _, adversaries in context.adversaries(UNIVSE, (self.config.words,))
            for name, each in adversaries.sets.items()
        }
        for name, each in sets.items():
            attacked = attack_subsets(context, images, counters, each)
            for subset in SUBSETS:
                result, start = attacked[self.used(subset, name)], f"{head(subset)}/attack_{name}"
                metrics = result.metrics()
                totals[subset] += metrics["rsum3"]
                values |= {f"{start}/{metric}": value for metric, value in metrics.items()}
                context.record(start, number, result.i2t, result.pairs(len(fold.images)))
        if all(name in sets for name in ATTACKS):
            values |= {f"{head(subset)}/total": total for subset, total in totals.items()}
        wanted = {metric.name for metric in self.metrics}
        return {name: value for name, value in values.items() if name in wanted}


@torch.inference_mode()
def attack_subsets(
    context: Context, images: Encoded, counters: Mapping[Subset, RetrievalCounter], adversaries: AnySet
) -> dict[Subset, Attacked]:
    """One attack with each subset. Adversaries are encoded once, block by block, and only u_comp differs.

    Args:
        context: Of a task whose families return every subset (`returning`).
        images: Codes of the images of a fold.
        counters: By subset, of the true captions.
        adversaries: Of the captions of the fold.
    """
    counts = {s: AttackCount(context.model, images, counter, adversaries) for s, counter in counters.items()}
    for positions, encoded in adversaries.blocks(Blocks().captions):
        for subset, count in counts.items():
            count.add(positions, with_subset(encoded, subset))
    return {subset: count.result()[0] for subset, count in counts.items()}


def _metrics(subset: Subset) -> Iterator[Metric]:
    start, title = head(subset), label(subset)
    recalls = tuple(f"{start}/attack_{name}/r{k}" for name in ATTACKS for k in RECALLS)
    yield Metric(name=f"{start}/total", heading="total", group=title, terms=recalls)
    plain = tuple(f"{start}/{way}/r{k}" for way in WAYS for k in RECALLS)
    yield Metric(name=f"{start}/rsum", heading="rsum", group=title, terms=plain)
    for name in ATTACKS:
        for metric in attack_metrics(name, f"{title}: {name} attack", ("shared",)):
            if not metric.name.endswith("unknown_words"):
                terms = tuple(f"{start}/{term}" for term in metric.terms)
                yield replace(metric, name=f"{start}/{metric.name}", terms=terms)
    for way, sign in WAYS.items():
        for metric in rank_metrics(f"{start}/{way}", f"{title}: {sign}", ("r1", "r5", "r10")):
            yield replace(metric, main=False)
