"""How many kernels a block of scores starts, and how often the host waits for a GPU, counted on its double."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.gpu import a_gpu
from tests.levels import slow
from tests.unit.evaluation.models import Cosine, Mixed
from tests.unit.evaluation.test_alpha import ALPHAS, planted
from vse.errors import Diverged
from vse.evaluation import alpha
from vse.evaluation.alpha import evaluate_alphas
from vse.evaluation.attacks import AttackSet, attack
from vse.evaluation.retrieval import Blocks, blocks_within, count_retrieval

_LISTS = ("nonzero", "masked_select", "_unique2", "unique_dim", "bincount", "repeat_interleave", "is_nonzero")
_VIEWS = ("slice", "select", "view", "unsqueeze", "t", "transpose", "expand", "alias", "detach", "split", "unbind")


class Launches(TorchDispatchMode):
    """Counts operators by name; `waits` are those whose result the host reads or whose size it must know."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels, self.waits = Counter[str](), Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func.overloadpacket.__name__
        there = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.is_cuda]
        if there:
            by_flags = name in ("index", "index_put_") and any(
                each is not None and each.dtype == torch.bool for each in tree_leaves(args[1])
            )
            back = name == "_to_copy" and torch.device(kwargs.get("device") or "cuda").type == "cpu"
            if name in (*_LISTS, "_local_scalar_dense") or by_flags or back:
                self.waits[name] += 1
            elif name not in _VIEWS:
                self.kernels[name] += 1
        return func(*args, **kwargs)


def counted(measure: Callable[[Blocks], object], blocks: Blocks) -> tuple[int, int]:
    """(kernels, waits) of a measurement."""
    with Launches() as launches:
        measure(blocks)
    return launches.kernels.total(), launches.waits.total()


def of_a_block(measure: Callable[[Blocks], object]) -> tuple[float, float, int]:
    """(kernels of a block, waits of a block, waits besides) of 40 images and 120 captions."""
    few, many = Blocks(images=40, captions=60), Blocks(images=20, captions=20)
    with a_gpu():
        (some_kernels, some_waits), (kernels, waits) = counted(measure, few), counted(measure, many)
    blocks = 12 - 2
    each = (waits - some_waits) / blocks
    return (kernels - some_kernels) / blocks, each, round(some_waits - 2 * each)


def there(codes: dict[str, torch.Tensor], device: torch.device) -> dict[str, torch.Tensor]:
    return {name: value.to(device) for name, value in codes.items()}


@pytest.mark.seconds
def test_a_block_of_retrieval_is_not_waited_for() -> None:
    images, captions, caption_to_image, _ = planted(0.3)
    with a_gpu() as gpu:
        codes = there(images, gpu), there(captions, gpu)
    kernels, waits, besides = of_a_block(
        lambda blocks: count_retrieval(Mixed(), *codes, caption_to_image, blocks=blocks, settings={"alpha": 0.5})
    )
    assert (waits, besides) == (0, 5)  # own images to plan pairs, true pairs that are no number, the check at the end
    assert kernels <= 60


def test_a_block_of_adversaries_is_not_waited_for() -> None:
    images, captions, caption_to_image, adversaries = planted(0.3)
    with a_gpu() as gpu:
        codes = there(images, gpu), {"u": captions["sent"].to(gpu)}
        counter = count_retrieval(Cosine(), *codes, caption_to_image)
    encoded = {"u": adversaries.encoded["sent"]}

    def attacked(blocks: Blocks) -> object:
        there_set = AttackSet(encoded=there(encoded, codes[1]["u"].device), caption=adversaries.caption)
        return attack(Cosine(), codes[0], counter, there_set, blocks=Blocks(images=blocks.images, captions=1000))

    kernels, waits, besides = of_a_block(attacked)
    assert waits == 0
    assert besides < 12
    assert kernels < 20


@pytest.mark.seconds
@pytest.mark.parametrize(("dense_above", "expected"), [(2.0, 2), *slow([(-1.0, 1)])])
def test_a_block_of_all_alphas_is_waited_for_by_the_lengths_of_its_lists(
    dense_above: float, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Candidates of images and of captions, whose lengths are read at once, and then those close to a tie."""
    monkeypatch.setattr(alpha, "DENSE_ABOVE", dense_above)
    images, captions, caption_to_image, _ = planted(0.15)
    with a_gpu() as gpu:
        codes = there(images, gpu), there(captions, gpu)
    kernels, waits, _ = of_a_block(
        lambda blocks: evaluate_alphas(Mixed(), *codes, caption_to_image, {}, ALPHAS, blocks=blocks)
    )
    assert waits == expected
    assert kernels < len(ALPHAS) * (27 if expected == 2 else 60)


@pytest.mark.seconds
@pytest.mark.parametrize("dense_above", [-1.0, 2.0])
def test_a_nan_is_refused_at_the_end(dense_above: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alpha, "DENSE_ABOVE", dense_above)
    images, captions, caption_to_image, _ = planted(0.3)
    images["v"][-1] = torch.nan
    caption_to_image = np.minimum(caption_to_image, 38)  # no true pair is NaN
    with a_gpu() as gpu:
        codes = there(images, gpu), there(captions, gpu)
        with pytest.raises(Diverged, match=r"^scores are NaN, so the training has diverged$"):
            count_retrieval(Mixed(), *codes, caption_to_image)
        with pytest.raises(Diverged, match=r"^scores are NaN, so the training has diverged$"):
            evaluate_alphas(Mixed(), *codes, caption_to_image, {}, ALPHAS)


def test_infinite_scores_are_no_nan_on_a_gpu() -> None:
    images, captions, caption_to_image, _ = planted(0.3)
    images["v"][-1] = 3e38
    caption_to_image = np.minimum(caption_to_image, 38)
    expected = count_retrieval(Cosine(), images, {"u": captions["sent"] * 100}, caption_to_image)
    with a_gpu() as gpu:
        codes = there(images, gpu), {"u": (captions["sent"] * 100).to(gpu)}
        found = count_retrieval(Cosine(), *codes, caption_to_image)
    for one, other in zip(found.counts(), expected.counts(), strict=True):
        assert one.cpu().equal(other)


def test_blocks_fill_at_most_half_of_the_free_memory() -> None:
    gib = 2**30
    assert blocks_within(75 * gib, 5000, 25000) == Blocks(images=5000, captions=13312)  # two blocks of 2^26 scores
    assert blocks_within(75 * gib, 1000, 5000) == Blocks(images=1000, captions=5000)  # one
    assert blocks_within(gib, 5000, 25000) == Blocks(images=5000, captions=2048)
    assert blocks_within(0, 5000, 25000) == blocks_within(75 * gib, 10, 20) == Blocks()
    for free in (gib // 8, gib, 3 * gib, 24 * gib):
        for images, captions in ((1, 10), (700, 3000), (5000, 25000), (31783, 158915), (10**6, 5 * 10**6)):
            blocks = blocks_within(free, images, captions)
            assert blocks.captions <= 2**14
            scores = blocks.images * blocks.captions
            assert scores <= max(512 * 2048, min(2**26, free // 96))
            if images * captions > 2**26 and free > 24 * gib - 1:
                assert scores > 2**25  # no tiny ones
