"""Metrics in words, as figures and pages say them."""

from vse.adversaries.univse.attacks import PRINTED

WAYS = {"i2t": "image → sentence", "t2i": "sentence → image"}
RECALLS = {"r1": "R@1", "r5": "R@5", "r10": "R@10"}
_ADVERSARIES = {PRINTED: "as printed"}
_METRICS = {**RECALLS, "medr": "median rank", "meanr": "mean rank", "pair_accuracy": "pairs"}


def name_of(metric: str) -> str:
    """A metric without its split: `attack_object/disjoint/r1` is the object attack, disjoint words, R@1."""
    *task, name = metric.split("/")
    said = [WAYS.get(part, part).replace("_", " ") for part in task]
    if task and task[0].startswith("attack_"):
        said = [
            f"{said[0].removeprefix('attack ')} attack",
            *(_ADVERSARIES.get(kind, f"{kind} words") for kind in said[1:]),
        ]
    return ", ".join([*said, _METRICS.get(name, name.replace("_", " "))])
