"""Two workers on GPUs that meet by the rules of NCCL give the numbers of one process on a CPU; and the rules refuse."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._C._distributed_c10d import HashStore

from tests import nccl
from tests.gpu import TRUE, a_gpu
from tests.parity import nccl_worker
from tests.parity.distributed_worker import cases
from tests.parity.test_distributed import _ended, _start
from vse import registry

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(TRUE, reason="NCCL takes no two workers on one GPU, and a double needs that there is none"),
]

KNOWN = cases(registry.names("family"), 2)
SOME = ("vsepp", "scan i2t", "jwae known pairs")  # codes that are gathered whole, over time, and of several phases


@pytest.fixture
def meet(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """What each of two workers found for the named cases."""

    def met(*chosen: str) -> list[dict[str, Any]]:
        common = [str(tmp_path / "store"), str(tmp_path), *chosen]
        _ended([_start([str(rank), *common], "tests.parity.nccl_worker") for rank in range(2)], seconds=900)
        return [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]

    return met


def check(meet: Callable[..., list[dict[str, Any]]], chosen: tuple[str, ...], folder: Path) -> None:
    """Steps of these cases, and a training of those that are trained: it validates by retrieval, saves within its
    epochs and goes on from a checkpoint."""
    workers = meet(*chosen)
    for case in chosen:
        alone = nccl_worker.stepped(case, KNOWN[case], 0, 1, nccl_worker.CPU)
        for found in workers:
            torch.testing.assert_close(found[case], alone, rtol=1e-8, atol=1e-10, msg=lambda m, c=case: f"{c}: {m}")
    for name in set(chosen) & set(nccl_worker.TRAINED):
        expected = nccl_worker.trained(name, folder / "alone" / name, nccl_worker.CPU)
        assert ["val/rsum" in row for row in expected] == [True, True]
        for found in workers:
            for row, wanted in zip(found[f"training of {name}"], expected, strict=True):
                assert row == pytest.approx(wanted, rel=1e-8), name


@pytest.mark.slow
def test_workers_on_gpus_equal_one_process(meet: Callable[..., list[dict[str, Any]]], tmp_path: Path) -> None:
    check(meet, SOME, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workers_of_every_family_do(meet: Callable[..., list[dict[str, Any]]], tmp_path: Path) -> None:
    check(meet, tuple(KNOWN), tmp_path)


@pytest.mark.parametrize(
    ("send", "words"),
    [
        (lambda group, gpu: group.allreduce([torch.ones(2)]), "of the CPU given to NCCL"),
        (lambda group, gpu: group.broadcast([torch.ones(2, dtype=torch.int16).to(gpu)]), "NCCL does not know"),
        (lambda group, gpu: group.allreduce([torch.ones(2, 3).to(gpu).T]), "must be contiguous"),
        (lambda group, gpu: group.allgather([[torch.ones(3).to(gpu)]], [torch.ones(2).to(gpu)]), "all_gather of"),
    ],
)
def test_what_nccl_refuses_is_refused(send: Callable[[Any, torch.device], Any], words: str) -> None:
    group = nccl.Rules(HashStore(), 0, 1, datetime.timedelta(seconds=5))
    with a_gpu() as gpu, pytest.raises(RuntimeError, match=words):
        send(group, gpu)


def test_what_it_takes_is_sent() -> None:
    group = nccl.Rules(HashStore(), 0, 1, datetime.timedelta(seconds=5))
    with a_gpu() as gpu:
        for kind in (torch.uint8, torch.int64, torch.float16, torch.float64):
            mine, part = torch.ones(2, dtype=kind).to(gpu), torch.zeros(2, dtype=kind).to(gpu)
            group.allgather([[part]], [mine]).wait()
            assert part.tolist() == [1, 1]
