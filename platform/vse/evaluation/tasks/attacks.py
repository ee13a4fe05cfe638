"""Retrieval under attack (UniVSE, section 4.2): adversarial captions join the candidates of every image."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from vse.adversaries.attacks import ATTACKS
from vse.adversaries.univse.generate import PRINTED, WORDS
from vse.config import knob
from vse.evaluation.metrics import RECALLS, Metric, mean_over_folds, rank_metrics
from vse.evaluation.task import Context, Task
from vse.registry import ComponentConfig, register

UNIVSE = "univse"  # the kind of adversaries
_WORDS = {"shared": "", "disjoint": ", disjoint words", PRINTED: ", as printed", "all": ", all words"}


def behind(words: str) -> str:
    """What the kind of words adds to the name of an attack: nothing for words that training negatives use."""
    return "" if words == "shared" else f"/{words}"


def in_words(words: str) -> str:
    """What the kind of words adds to a heading."""
    return _WORDS[words]


def attack_metrics(name: str, title: str, words: Iterable[str]) -> Iterator[Metric]:
    """The metrics of an attack, such as `attack_<name>/r1`.

    Args:
        name: Name of the attack.
        title: Its row in a table, to which the kind of words is added.
        words: Kinds of words that the adversaries are made with, such as `shared`; each has metrics of its own.
    """
    for each in words:
        head, group = f"attack_{name}{behind(each)}", f"{title}{in_words(each)}"
        yield from (
            replace(metric, main=metric.heading == "R@1") for metric in rank_metrics(head, group, ("r1", "r5", "r10"))
        )
        terms = tuple(f"{head}/r{k}" for k in RECALLS)
        yield Metric(name=f"{head}/rsum3", heading="rsum3", group=group, terms=terms, main=False)
        yield Metric(name=f"{head}/pair_accuracy", heading="pairs", group=group)
        yield Metric(
            name=f"{head}/unknown_words", heading="unknown words", group=group, higher_is_better=None, main=False
        )


def measure_attacks(context: Context, kind: str, words: Iterable[str], prefix: str = "") -> dict[str, float]:
    """Retrieval and pair accuracy under every attack of a kind.

    Args:
        context: The split that is measured.
        kind: `UNIVSE` or `VSEC`.
        words: Kinds of words; those without adversaries are left out.
        prefix: Comes before the attack in names of metrics, such as `contrast_`.
    """
    values = {}
    for each, adversaries in context.adversaries(kind, words):
        folds = context.attacked(kind, each)
        for name in adversaries.sets:
            head = f"attack_{prefix}{name}{behind(each)}"
            means = mean_over_folds(fold[name].metrics() for fold in folds)
            values |= {f"{head}/{metric}": value for metric, value in means.items()}
            for number, fold in enumerate(folds):
                context.record(head, number, fold[name].i2t, fold[name].pairs(len(context.folds[number].images)))
            values[f"{head}/unknown_words"] = context.runs.unknown_words(adversaries.texts[name])
    return values


@register("task", "attacks")
class AttacksTask(Task):
    """UniVSE's attacks: images rank all captions and, by attack, the adversaries of all captions."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        words: tuple[str, ...] = knob(
            WORDS,
            "words of adversaries: shared with training negatives, disjoint from them (if held out); published: "
            "shared, inserted as in the supplement, even if the result is true",
            choices=(*WORDS, PRINTED),
        )

    config: Config
    not_empty = ("words",)
    records_queries = True
    config_in_names = True
    portable = True
    sharded = True
    revision = 2  # 2: an attack without adversaries of the captions that a protocol takes has no numbers

    def list_metrics(self) -> tuple[Metric, ...]:
        return tuple(m for name in ATTACKS for m in attack_metrics(name, f"{name} attack", (*WORDS, PRINTED)))

    @property
    def adversaries(self) -> tuple[tuple[str, str], ...]:
        return tuple((UNIVSE, words) for words in self.config.words)

    def measure(self, context: Context) -> dict[str, float]:
        return measure_attacks(context, UNIVSE, self.config.words)
