"""VSE-C's plural split (section 4.1): images with a plural whose number the adversaries alter."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int

from vse.adversaries.vsec.evaluation_sets import PLURAL
from vse.evaluation.metrics import Metric
from vse.evaluation.task import Context
from vse.evaluation.tasks.contrast import VSEC, VSECTask
from vse.evaluation.tasks.own_pools import ALL, NONE, chosen_images, chosen_pools, own_pool_list
from vse.registry import register


def plural_images(
    caption_to_image: Int[np.ndarray, " captions"], attacked: Mapping[str, np.ndarray]
) -> Int[np.ndarray, " plurals"]:
    """The images with a plural whose number is altered."""
    return np.unique(caption_to_image[attacked[PLURAL]]) if PLURAL in attacked else np.empty(0, dtype=np.int64)


@register("task", "plural_split")
class PluralSplitTask(VSECTask):
    """As own_pools, on images with a plural and its altered numbers (VSE-C's plural split)."""

    records_queries = True
    revision = 2  # 2: what each image met is kept

    def list_metrics(self) -> tuple[Metric, ...]:
        title = "plural split"
        return (
            *chosen_images("plural_split", title),
            *own_pool_list("plural_split/", f"{title}, ", (NONE, PLURAL, ALL)),
        )

    def measure(self, context: Context) -> dict[str, float]:
        values = {}
        for words, _ in context.adversaries(VSEC, self.config.words):
            values |= chosen_pools(context, "plural_split", plural_images, (PLURAL,), words)
        return values
