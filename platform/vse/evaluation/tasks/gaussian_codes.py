"""How far codes are from the prior that training pulls them to, before and after training (jWAE, section 4.2)."""

from collections import Counter
from collections.abc import Iterator

from vse.evaluation.gaussianity import KeepsCodes, gaussian_numbers
from vse.evaluation.metrics import Metric
from vse.evaluation.task import ONE_RUN, Capability, Context, Scope, Subject, Task
from vse.registry import register

CODES = Capability(
    "codes that are not unit vectors, as jWAE has", lambda subject: isinstance(subject.families[0], KeepsCodes)
)
OWN_DATA = Capability("the run's own data", lambda subject: subject.own_data)
FEWEST = 4  # images
SIDES = ("images", "captions")
BEFORE = "before/"
# number -> heading, unit, decimals
NUMBERS = {
    "mean": ("mean", "", 2),
    "std": ("deviation", "", 2),
    "std_spread": ("spread of deviations", "", 2),
    "skewness": ("skewness", "", 2),
    "kurtosis": ("kurtosis", "", 2),
    "ks_median": ("KS", "", 3),
    "ks_rejected": ("rejected", "share", 2),
    "ks_shape": ("KS of shape", "", 3),
    "norm": ("norm", "", 2),
    "correlation": ("correlation", "", 3),
    "fresh_accuracy": ("fresh judge", "share", 2),
    "own_accuracy": ("own judge", "share", 2),
}


@register("task", "gaussian_codes")
class GaussianCodesTask(Task):
    """How far codes are from N(0, I), before and after training: moments, distances, discriminators.

    Runs with a fine-tuned backbone have no numbers before training.
    """

    needs = (ONE_RUN, OWN_DATA, CODES)
    scope = Scope.SPLIT
    portable = True

    def list_metrics(self) -> Iterator[Metric]:
        for side in SIDES:
            for when, title in (("", f"codes of {side}"), (BEFORE, f"codes of {side} before training")):
                for name, (heading, unit, decimals) in NUMBERS.items():
                    yield Metric(
                        name=f"gaussian_{side}/{when}{name}",
                        heading=heading,
                        group=title,
                        unit=unit,
                        higher_is_better=None,
                        decimals=decimals,
                    )

    def missing(self, subject: Subject) -> str:
        """Also four images in each measured split."""
        images = Counter(image.split for image in subject.records.images)
        few = [f"split {split} has {images[split]}" for split in subject.splits if images[split] < FEWEST]
        return super().missing(subject) or (f"{FEWEST} images, but {few[0]}" if few else "")

    def measure(self, context: Context) -> dict[str, float]:
        """Un-normalised codes against N(0, I), and how well discriminators tell them apart, one half where they cannot
        (`vse.evaluation.gaussianity`). Before training the family's own discriminator is untrained too."""
        examples = context.runs.examples(context.split)
        return {
            f"gaussian_{side}/{when}{name}": value
            for when, family in (("", context.runs.families[0]), (BEFORE, context.runs.initial_family()))
            if family is not None
            for side, numbers in gaussian_numbers(family, examples).items()
            for name, value in numbers.items()
        }
