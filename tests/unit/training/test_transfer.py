"""Batches on their way to a device and numbers on their way back. What a GPU is asked for is watched."""

import contextlib
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from vse.training.batches import Transfer
from vse.training.loop import PendingNumbers

BATCH = {"tokens": torch.arange(6).view(2, 3), "pooled": torch.rand(2, 5)}


def test_on_a_cpu_a_batch_stays_what_and_where_it_is() -> None:
    transfer = Transfer(torch.device("cpu"))
    assert transfer.pinned(BATCH) is BATCH
    assert all(there is BATCH[name] for name, there in transfer.sent(BATCH).items())


def test_a_gpu_copies_from_pinned_memory_beside_the_step_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    device = torch.device("cuda")

    class Stream:
        def __init__(self, name: str) -> None:
            self.name = name

        def wait_stream(self, other: "Stream") -> None:
            done.append(f"{self.name} waits for {other.name}")

    @contextlib.contextmanager
    def within(stream: Stream):
        done.append(f"in {stream.name}")
        yield
        done.append(f"out of {stream.name}")

    def to(value: Tensor, where: torch.device, non_blocking: bool = False) -> Tensor:
        assert where == device
        done.append(f"copy, non_blocking={non_blocking}, pinned={hasattr(value, 'pinned')}")
        return value

    def pin(value: Tensor) -> Tensor:
        pinned: Any = value.clone()
        pinned.pinned = True  # a mark
        return pinned

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("side"))
    monkeypatch.setattr(torch.cuda, "stream", within)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream("main"))
    monkeypatch.setattr(Tensor, "pin_memory", pin)
    monkeypatch.setattr(Tensor, "to", to)
    monkeypatch.setattr(Tensor, "record_stream", lambda value, stream: done.append(f"kept for {stream.name}"))
    transfer = Transfer(device)
    there = transfer.sent(transfer.pinned(BATCH))
    copy = "copy, non_blocking=True, pinned=True"
    assert done == ["in side", copy, copy, "out of side", "main waits for side", "kept for main", "kept for main"]
    assert all(torch.equal(there[name], value) for name, value in BATCH.items())


@pytest.mark.parametrize(
    ("free", "whole", "part", "kept"),
    [
        (3 * 80, 10**9, 1.0, True),
        (3 * 80 - 1, 10**9, 1.0, False),
        (10**9, 8 * 3 * 80, 0.125, True),  # an eighth of the GPU, however empty the rest of it is yet
        (10**9, 8 * 3 * 80 - 1, 0.125, False),
        (3 * 80 - 1, 10**9, 0.125, False),
    ],
)
def test_features_stay_on_a_gpu_that_has_room_for_them_and_for_the_steps(
    monkeypatch: pytest.MonkeyPatch, free: int, whole: int, part: float, kept: bool
) -> None:
    features = np.arange(40, dtype=np.float16).reshape(10, 4)
    transfer = Transfer(torch.device("cpu"), part)
    transfer.keep("pooled", features)
    assert not transfer.kept  # a CPU has them already
    emptied: list[bool] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, whole) if emptied else (0, whole))
    transfer.device = torch.device("cuda")
    assert transfer._room_for(features.nbytes) is kept


def test_kept_features_are_looked_up_by_image(monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(0).normal(size=(150, 3, 4)).astype(np.float16)  # several blocks
    features.flags.writeable = False  # as memory-mapped
    transfer = Transfer(torch.device("cpu"))
    monkeypatch.setattr(Transfer, "_room_for", lambda transfer, num_bytes: True)
    transfer.keep("map", features)
    group = torch.tensor([149, 0, 77, 77])
    there = transfer.sent({"image_group": group})
    assert there["map"].dtype == torch.float16
    np.testing.assert_array_equal(there["map"].numpy(), features[group.numpy()])


def test_a_reading_is_the_numbers_bit_by_bit_whatever_their_types() -> None:
    numbers = {"sent": torch.tensor(0.1), "gradient": torch.tensor(1 / 3), "paired captions": torch.tensor(2**23 + 1)}
    reading = PendingNumbers.of(1, 2, 8, numbers)
    assert reading.numbers() == {name: float(value) for name, value in numbers.items()}
    assert (reading.epoch, reading.step, reading.captions) == (1, 2, 8)
    double = {"sent": torch.tensor(0.1, dtype=torch.float64), "gradient": torch.tensor(torch.nan)}
    found = PendingNumbers.of(0, 0, 8, double).numbers()
    assert found["sent"] == 0.1
    assert found["gradient"] != found["gradient"]
