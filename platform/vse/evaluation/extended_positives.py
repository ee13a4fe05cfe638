"""Positives beyond the captions of an image, as JSON objects of a query's id and the ids of its positives.

ECCV Caption (Chun et al., ECCV 2022) and CxC (Parekh et al., EACL 2021) are published in this form.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse.data.reading import read_json
from vse.errors import InputError
from vse.evaluation.average_precision import map_at_r
from vse.evaluation.metrics import RECALLS, Ties, ranks_among, refuse_nan


def read_positives(path: str) -> dict[str, tuple[str, ...]]:
    """Positives by query, ids as text. Raises InputError naming file and query."""
    data = read_json(path)
    if not isinstance(data, dict) or not data:
        raise InputError(f'{path}: expected a JSON object of ids and lists of ids, such as {{"42": [7, 8]}}')
    for query, ids in data.items():
        valid = isinstance(ids, list) and all(isinstance(i, int | str) and not isinstance(i, bool) for i in ids)
        if not valid or not ids:
            raise InputError(f"{path}: {query!r}: expected a list of one or more ids, got {ids!r:.40}")
    return {query: tuple(dict.fromkeys(map(str, ids))) for query, ids in data.items()}


def check_positives(
    positives: Mapping[str, Sequence[str]], where: str, queries: Collection[str], candidates: Collection[str]
) -> None:
    """Hold the ids of a file against a data set.

    Args:
        positives: By query.
        where: The key and its file, for messages.
        queries: The ids that queries may have.
        candidates: The ids that positives may have.

    Raises:
        InputError: No query is in the data set, or none of the queries there has a positive there.
    """
    inside = [query for query in positives if query in queries]
    if not inside:
        swapped = any(query in candidates for query in positives)
        hint = "they are ids of the other direction's queries" if swapped else f"such as {next(iter(positives))!r}"
        raise InputError(f"{where}: none of its {len(positives)} queries is in the data set; {hint}")
    if not any(each in candidates for query in inside for each in positives[query]):
        first = positives[inside[0]][0]
        raise InputError(f"{where}: no positive of its {len(inside)} queries is in the data set, such as {first!r}")


def located(
    positives: Mapping[str, Sequence[str]], queries: Sequence[str], candidates: Sequence[str]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Positions, among the ids of a split, of the queries that have positives there and of these positives.

    Args:
        positives: Ids of the positives by id of their query; ids of other splits are ignored.
        queries: Ids of the split's queries in its order.
        candidates: Ids of the split's candidates in its order.

    Returns:
        Positions of the queries, and for each of these the positions of its positives, ascending.
    """
    place = {id_: k for k, id_ in enumerate(candidates)}
    rows, relevant = [], []
    for row, query in enumerate(queries):
        if inside := sorted(place[each] for each in positives.get(query, ()) if each in place):
            rows.append(row)
            relevant.append(np.array(inside))
    return np.array(rows, dtype=np.int64), relevant


def r_precision(
    scores: Float[Tensor, "queries candidates"], relevant: Bool[Tensor, "queries candidates"]
) -> Float[Tensor, " queries"]:
    """Share of the first R candidates that are relevant, for R relevant ones; expected over random order of the
    candidates that tie with the R-th. NaN for queries without a relevant candidate. Raises Diverged at a NaN.
    """
    refuse_nan(scores)
    total = relevant.sum(1)
    last = scores.sort(dim=1, descending=True).values.gather(1, (total - 1).clamp_min(0)[:, None])
    low, high = Ties().limits(last)
    above, level = scores > high, (scores >= low) & (scores <= high)
    share = (total - above.sum(1)).double() * (level & relevant).sum(1) / level.sum(1)
    return ((above & relevant).sum(1) + share) / torch.where(total > 0, total.double(), torch.nan)


def precisions(
    scores: Float[Tensor, "queries candidates"], relevant: Bool[Tensor, "queries candidates"]
) -> dict[str, Float[Tensor, " queries"]]:
    """mAP@R, R-Precision and R@k of queries that each have a relevant candidate; R@k asks for any one of them."""
    ranks = ranks_among(scores, relevant)
    values = {"map_at_r": map_at_r(scores, relevant), "r_precision": r_precision(scores, relevant)}
    return values | {f"r{k}": ranks.hits(k) for k in RECALLS}
