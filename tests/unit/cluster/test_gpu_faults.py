"""Which errors mean that a GPU fails, in the process of a trial and in Ray Train's workers."""

from types import SimpleNamespace

import pytest
import ray

from vse.cluster.gpu_faults import gpu_fault, is_assigned_gpu_missing

ECC = "CUDA error: uncorrectable ECC error encountered"
HINT = "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"  # the end of each error of CUDA


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The resources that Ray assigned."""
    assigned = {"CPU": 1.0, "GPU": 1.0}
    context = SimpleNamespace(get_assigned_resources=lambda: assigned)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    return assigned


def chained(error: Exception, *, explicit: bool) -> Exception:
    later = KeyError("later")
    if explicit:
        later.__cause__ = error
    else:
        later.__context__ = error
    return later


@pytest.mark.parametrize(
    "line",
    [
        ECC,
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "CUDA driver error: unknown error",
        "CUDA driver initialization failed, you might not have a CUDA gpu.",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
    ],
)
def test_errors_of_cuda_are_faults_of_the_gpu(line: str) -> None:
    error = RuntimeError(line + HINT)
    assert gpu_fault(error) == gpu_fault(chained(error, explicit=True)) == line
    assert gpu_fault(chained(error, explicit=False)) == line


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: device-side assert triggered",
        "CUDA error: an illegal memory access was encountered",
        "CUDA error: invalid configuration argument",
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "no luck",
    ],
)
def test_errors_that_a_trial_causes_on_any_gpu_are_none(text: str) -> None:
    assert gpu_fault(RuntimeError(text + HINT)) == ""
    later = RuntimeError("CUDA error: unspecified launch failure")  # while the error is handled
    later.__context__ = RuntimeError(text)
    assert bool(gpu_fault(later)) == (text == "no luck")


def test_a_trial_without_a_gpu_has_no_fault_of_one(on_a_gpu: dict[str, float]) -> None:
    on_a_gpu.clear()
    assert gpu_fault(RuntimeError(ECC)) == ""


def test_failures_of_workers_are_searched_without_a_gpu_of_the_trial(on_a_gpu: dict[str, float]) -> None:
    """The traceback of a worker is the text of the error that Ray Train returns for it."""
    from ray.train import WorkerGroupError

    on_a_gpu.clear()
    failures = {0: RuntimeError("peer is lost"), 1: RuntimeError(f"Traceback:\nAcceleratorError: {ECC}{HINT}")}
    error = WorkerGroupError("[Rank 1 Error Snippet]:\n...", dict(failures))
    assert gpu_fault(error) == gpu_fault(chained(error, explicit=True)) == ECC
    failures[0] = RuntimeError("CUDA error: device-side assert triggered")
    assert gpu_fault(WorkerGroupError("", dict(failures))) == ""


def test_a_gpu_is_missing_if_ray_assigned_one_and_torch_finds_none(
    on_a_gpu: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert is_assigned_gpu_missing()
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert not is_assigned_gpu_missing()
    on_a_gpu["GPU"] = 0.0
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert not is_assigned_gpu_missing()
