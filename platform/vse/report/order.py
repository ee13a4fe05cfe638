"""The order in which people read the numbers of a run, and the headings these stand under."""

import re
from collections.abc import Iterable

from vse.adversaries.univse.attacks import ATTACKS

RETRIEVAL = ("rsum", *(f"{way}/{metric}" for way in ("i2t", "t2i") for metric in ("r1", "r5", "r10", "medr", "meanr")))
_KINDS = ("retrieval", "attacks", "pairs", "others")
_METRICS = ("rsum", "rsum3", "r1", "r5", "r10", "medr", "meanr", "pair_accuracy", "mean", "found")
# where the name of a split ends, which may have a protocol or what was altered about it
_TASK = re.compile(r"(?:^|(?<=/))(rsum$|i2t/|t2i/|unknown_words$|attack_|own_pool_|true_pairs/|gaussian_|pairs/)")


def parts(name: str) -> tuple[str, str]:
    """The split of a metric, with its protocol and what was altered, and what was measured on it: `test/coco_5k/i2t/r1`
    gives (test/coco_5k, i2t/r1). Of pairs, which have no split, the first part is empty or what was altered."""
    found = _TASK.search(name)
    head, _, tail = (name[: found.start()].rstrip("/"), "", name[found.start() :]) if found else name.partition("/")
    return (head, tail) if tail else ("", head)


def grouped(names: Iterable[str]) -> dict[str, list[str]]:
    """Metrics under headings: retrieval of every split as it is most often read (rsum, then image to sentence, then
    sentence to image, each R@1 to mean rank), then attacks, pairs and all else. Validation, which decides nothing that
    is told of a model, stands behind other splits; these keep the order they have."""
    listed = list(dict.fromkeys(names))
    heads = list(dict.fromkeys(parts(name)[0] for name in listed))
    heads.sort(key=lambda head: (not head, head.partition("/")[0] == "val"))
    found: dict[str, list[str]] = {}
    for name in sorted(listed, key=lambda name: _place(name, heads)):
        head, tail = parts(name)
        found.setdefault(": ".join(filter(None, (_kind(tail), head))), []).append(name)
    return found


def _kind(tail: str) -> str:
    if tail in RETRIEVAL:
        return "retrieval"
    kind = tail.partition("_")[0] + "s" if "/" in tail else ""
    if tail.startswith("pairs/"):
        return "pairs"
    return "attacks" if kind == "attacks" and not tail.endswith("/unknown_words") else "others"


def _place(name: str, heads: list[str]) -> tuple[int, int, int, tuple[int, str], int, str]:
    head, tail = parts(name)
    kind = _kind(tail)
    plain = RETRIEVAL.index(tail) if kind == "retrieval" else 0
    task, _, metric = tail.rpartition("/")
    attack = task.removeprefix("attack_").partition("/")[0]
    attacks = list(ATTACKS)
    first = attacks.index(attack) if attack in attacks else len(attacks) if task else -1
    rank = _METRICS.index(metric) if metric in _METRICS else len(_METRICS)
    return _KINDS.index(kind), heads.index(head), plain, (first, task), rank, metric
