"""Two and three processes against one: losses, gradients and, after two epochs, the weights of every family."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.levels import selected, slow_but
from tests.parity import distributed_worker
from tests.synthetic import make_family, synthetic, vse  # registers the families
from tests.unit.training.test_loop import Run
from vse import registry

pytestmark = pytest.mark.process

assert vse.models
SEVERAL = (2, pytest.param(3, marks=pytest.mark.slow))
CASES = {workers: tuple(distributed_worker.cases(registry.names("family"), workers)) for workers in (1, 2, 3)}
# One each of codes that are gathered whole and over time, of several phases, and of a fit in closed form.
EVERY_PUSH = ("vsepp", "vsepp infonce", "univse", "jwae", "jwae known pairs", "scan", "scan both", "cca")


def _start(arguments: list[str], module: str = "tests.parity.distributed_worker") -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", module, *arguments],
        cwd=Path(__file__).parents[2],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _ended(processes: list[subprocess.Popen[str]], seconds: float = 120) -> list[str]:
    """What each of the workers printed; all of them end well."""
    try:
        outputs = [process.communicate(timeout=seconds)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for rank, (process, output) in enumerate(zip(processes, outputs, strict=True)):
        assert process.returncode == 0, f"worker {rank} of {len(processes)}:\n{output}"
    return [output.strip() for output in outputs]


class Numbers(dict[tuple[int, int], Any]):
    """(workers, rank) -> case -> name -> tensor, of processes that run these cases once for all tests that ask."""

    def __init__(self, folder: Path, cases: set[str]) -> None:
        self.folder, self.cases = folder, sorted(cases)

    def __missing__(self, asked: tuple[int, int]) -> Any:
        workers, store = asked[0], self.folder / f"store-{asked[0]}"
        common = [str(workers), str(store), str(self.folder), *self.cases]
        _ended([_start([str(rank), *common]) for rank in range(workers)])
        for rank in range(workers):
            self[workers, rank] = torch.load(self.folder / f"{workers}-{rank}.pt", weights_only=True)
        return self[asked]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory, request):
    cases = selected(request, "case")
    return Numbers(tmp_path_factory.mktemp("distributed"), cases | {case.split()[0] for case in cases})


@pytest.mark.slow  # in test_nccl.py two workers go on from one checkpoint as well
@pytest.mark.parametrize("stale", [False, True])
def test_workers_go_on_from_one_checkpoint(tmp_path, stale):
    """Where a node reads a stale copy of a shared folder, both end in one line: each would find another epoch."""
    run = Run(tmp_path / "0", train__epochs=3, scores=[1, 9, 2])
    run.loop().run()
    shutil.copytree(tmp_path / "0", tmp_path / "1")
    if stale:
        shutil.rmtree(tmp_path / "1" / "epoch-0003")
    module, store = "tests.parity.restore_worker", str(tmp_path / "store")
    outputs = _ended([_start([str(rank), store, str(tmp_path / str(rank))], module) for rank in range(2)])
    if stale:
        assert set(outputs) == {
            f"{tmp_path}/1/epoch-0003: worker 0 sees another checkpoint here; use the same folder on every node"
        }
    else:
        assert outputs == ["epoch 3"] * 2


@pytest.mark.parametrize(
    ("workers", "case"),
    slow_but([(number, case) for number in (2, 3) for case in CASES[number]], *((2, case) for case in EVERY_PUSH)),
)
def test_workers_equal_one_process(numbers, case, workers):
    alone = numbers[1, 0][case]
    assert any(name.startswith("weight") for name in alone)
    for rank in range(workers):
        found = numbers[workers, rank][case]
        assert found.keys() == alone.keys()
        for name, value in alone.items():
            torch.testing.assert_close(
                found[name], value, rtol=1e-8, atol=1e-10, msg=lambda m, who=f"worker {rank}, {name}": f"{who}: {m}"
            )


@pytest.mark.parametrize("case", slow_but(CASES[1], *EVERY_PUSH))
def test_the_comparison_is_not_empty(numbers, case):
    alone = numbers[1, 0][case]
    if not make_family(case.split()[0], synthetic().context).phases():  # fitted before the first step
        assert all(v.any() for n, v in alone.items() if n.startswith("weight"))
        return
    assert any(float(v) > 0 for n, v in alone.items() if " loss " in n)
    assert any(v.any() for n, v in alone.items() if " gradient " in n)
    if case == "vsec batch":  # adversaries of other captions are harder than a caption's own
        assert float(alone["0 loss contrast"]) > float(numbers[1, 0]["vsec"]["0 loss contrast"]) > 0
    if case.startswith("univse"):
        assert float(alone["0 loss rel_batch"]) > 0
        assert float(alone["1 loss rel_word"]) == 0


@pytest.mark.parametrize("workers", SEVERAL)
@pytest.mark.parametrize("case", distributed_worker.VALIDATED)
def test_validation_is_shared_and_gives_the_numbers_of_one_process(numbers, workers, case):
    whole = dict(numbers[1, 0][f"validation {case}"])
    found = [dict(numbers[workers, rank][f"validation {case}"]) for rank in range(workers)]
    blocks, shares = int(whole.pop("b")), [int(each.pop("b")) for each in found]
    assert blocks > 10
    assert sum(shares) == blocks
    assert max(shares) - min(shares) <= 1
    assert {"val/rsum", "val/i2t/r1", "val/t2i/meanr"} <= whole.keys()
    assert all(each == whole for each in found)


@pytest.mark.parametrize("workers", SEVERAL)
def test_gather_of_unequal_shares(numbers, workers):
    total = workers * (workers + 1) / 2
    for rank in range(workers):
        found = numbers[workers, rank]["gather"]
        assert found["image_group"].tolist() == [100 * w + k for w in range(workers) for k in range(w)]
        assert found["flag"].tolist() == [k % 2 == 0 for w in range(workers) for k in range(w)]
        assert found["flag"].dtype == torch.bool
        rows = [torch.arange(2 * w, dtype=torch.float64).reshape(w, 2) + 10 * w for w in range(workers)]
        assert torch.equal(found["codes"], torch.cat(rows))
        assert torch.equal(found["own"], torch.full((rank, 2), total, dtype=torch.float64))
        assert "absent" not in found
