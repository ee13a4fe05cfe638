"""What a piece of work takes on a CPU or a GPU, for benchmarks that compare within one run."""

import statistics
import time
from collections import Counter
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

PRODUCTS = {f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm")}
AT_ONCE = 10  # pieces between two looks at a GPU: as in training, the host runs ahead of it


def seconds(work: Callable[[], object], device: torch.device, at_once: int = AT_ONCE) -> float:
    """Of one piece: processor time on a CPU, where other programs do not count, and what passes on a GPU."""
    if device.type == "cpu":
        start = time.process_time()
        work()
        return time.process_time() - start
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(at_once):
        work()
    torch.cuda.synchronize(device)
    return (time.perf_counter() - start) / at_once


def median_seconds(work: Callable[[], object], device: torch.device, rounds: int = 5) -> float:
    """Of several, after one that counts for nothing."""
    work()
    return statistics.median(seconds(work, device) for _ in range(rounds))


def costs(work: Callable[[], object], device: torch.device) -> tuple[float, list[tuple[str, float]]]:
    """(seconds in which the device computes, its three dearest operators with their shares of these), forward and
    backward; all products of matrices are one. On a CPU an operator's time is its own without those it calls."""
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities, acc_events=True) as seen:
        work()
        if on_gpu:
            torch.cuda.synchronize(device)
    own = Counter[str]()
    for each in seen.key_averages():
        if each.device_type.name != "CPU":
            continue  # kernels: they are told of the operators that start them
        spent = each.self_device_time_total if on_gpu else each.self_cpu_time_total
        own["matrix products" if each.key in PRODUCTS else each.key.removeprefix("aten::")] += spent
    return own.total() / 1e6, [(key, spent / own.total()) for key, spent in own.most_common(3)]
