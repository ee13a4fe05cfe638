"""One line for errors of Python, torch, numpy, Ray and the kernel that mean a lack of memory, with what to lower."""

import re
from pathlib import Path

from vse.errors import causes

LOWER = (
    "lower train.batch_size or extraction.batch, or run fewer processes at a time (sweep.concurrency, train.workers, "
    "extraction.workers)"
)

_NODE = re.compile(r"Memory on the node \(IP: ([^,)]+)[^)]*\) was ([\d.]+)GB used / ([\d.]+)GB limit")
_TOOK = re.compile(r"Selected to kill: .*?memory used=([\d.]+)GB")
_ALLOCATION = re.compile(
    r"CUDA out of memory\. (?P<cuda>Tried to allocate [\d.]+ \w+)"
    r"|(?P<numpy>Unable to allocate [^\n]{1,80}?) for an array"
    r"|(?:can't allocate memory|not enough memory): (?P<torch>you tried to allocate \d+ bytes)"  # on CPUs
)
_STATED = re.compile(r"out of memory(?: of the GPU)?: [^;\n]+")  # by this module, in another process
_RAISED = re.compile(r"^(?:\w+\.)*(?:_Array)?(?:MemoryError|OutOfMemoryError)\b", re.MULTILINE)
_KILLED = ("killed by the OOM killer", "the process of the trial died")


def kernel_kills() -> int:
    """The number of processes that the kernel has killed for lack of memory, in this container or on this machine."""
    for file in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        try:
            text = Path(file).read_text()
        except OSError:
            continue
        if count := re.search(r"^oom_kill (\d+)$", text, re.MULTILINE):
            return int(count[1])
    return 0


_before = kernel_kills()


def memory_shortage(text: str, peak: float = 0.0) -> str:
    """The line for an error or a traceback whose cause is a lack of memory; empty if that is not the cause.

    Ray's message on a killed process names the kernel as one of several possible causes. It counts if the kernel has
    killed a process on this machine since this process started. `peak` is the memory of the process in GiB by its last
    report.
    """
    if "running low on memory" in text or _NODE.search(text):
        took = max(map(float, _TOOK.findall(text)), default=0.0)
        of_process = f"its process took {took:g} GB" if took else "its process was ended by Ray"
        node = _NODE.search(text)
        return f"out of memory: {of_process}" + (
            f" ({node[2]} of {node[3]} GB of node {node[1]} in use)" if node else ""
        )
    if stated := _STATED.search(text):
        return stated[0]
    if allocation := _ALLOCATION.search(text):
        size = next(filter(None, allocation.groups()))
        prefix = "out of memory of the GPU" if allocation["cuda"] else "out of memory"
        return f"{prefix}: {size[0].lower()}{size[1:]}"
    if _RAISED.search(text):
        return "out of memory"
    if any(words in text for words in _KILLED) and kernel_kills() > _before:
        took = f", which had taken up to {peak:.1f} GiB when it last reported" if peak else ""
        return f"out of memory: the kernel ended its process{took}"
    return ""


def memory_failure(error: BaseException | None) -> str:
    """The line for an exception, its causes, and exceptions that Ray has wrapped."""
    for each in causes(error):
        if line := memory_shortage(f"{type(each).__name__}: {each}"):
            return f"{line}; {LOWER}"
    return ""
