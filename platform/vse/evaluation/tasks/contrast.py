"""VSE-C's adversaries (section 4.1) among all candidates, as `attacks` has UniVSE's."""

from dataclasses import dataclass

from vse.adversaries.vsec.evaluation_sets import set_paradigms
from vse.adversaries.vsec.words import KINDS
from vse.config import knob
from vse.evaluation.metrics import Metric
from vse.evaluation.task import Context, Task
from vse.evaluation.tasks.attacks import attack_metrics, measure_attacks
from vse.registry import ComponentConfig, register

VSEC = "vsec"  # the kind of adversaries


@dataclass(frozen=True, kw_only=True, slots=True)
class ContrastConfig(ComponentConfig):
    """Which of VSE-C's adversaries are used."""

    words: tuple[str, ...] = knob(
        ("shared",),
        "words of adversaries: shared with training adversaries, disjoint from them (if held out), or all",
        choices=KINDS,
    )


class VSECTask(Task):
    """Base of the tasks with VSE-C's adversaries."""

    Config = ContrastConfig
    config_in_names = True
    not_empty = ("words",)
    portable = True
    sharded = True
    config: ContrastConfig

    @property
    def adversaries(self) -> tuple[tuple[str, str], ...]:
        return tuple((VSEC, words) for words in self.config.words)


@register("task", "contrast")
class ContrastTask(VSECTask):
    """VSE-C's adversaries, of every caption, among the candidates of every image."""

    records_queries = True
    revision = 2  # 2: an attack without adversaries of the captions that a protocol takes has no numbers

    def list_metrics(self) -> tuple[Metric, ...]:
        named = {name: f"VSE-C {name} attack" for name in set_paradigms()}
        return tuple(m for name, title in named.items() for m in attack_metrics(f"contrast_{name}", title, KINDS))

    def measure(self, context: Context) -> dict[str, float]:
        return measure_attacks(context, VSEC, self.config.words, "contrast_")
