"""Input that cannot be meant is one clear line and exit status 2, before any Ray process and without any loss.

Command lines that are wrong in themselves stand in test_train.py and test_evaluate.py; here are wrong files.
"""

import functools
import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torchvision import models

from tests.jobs.odd_data import entry, write_arrays, write_entries, write_plain
from tests.jobs.processes import run_without_ray
from tests.levels import selected, slow_but
from vse.features.small_backbone import SHIPPED
from vse.presets import preset
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.process

KARPATHY = ("train", "--preset", "vsepp_tiny", "data=karpathy", "features.backbone=small", "data.root=HERE")
PRECOMP = ("train", "--preset", "vsepp_tiny", "data=precomp", "features.backbone=arrays", "data.root=HERE")
TINY = ("train", "--preset", "vsepp_tiny")
Prepare = Callable[[Path], Any]


@dataclass(frozen=True)
class Trap:
    """A pickle of it leaves a file behind when it is loaded."""

    mark: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def trap(folder: Path) -> bytes:
    """A pickle that gives itself away."""
    return pickle.dumps(Trap(folder / "FIRED"))


def karpathy(change: Callable[[list[dict[str, Any]]], Any], folder: Path) -> None:
    entries = write_plain(folder, {"train": 4, "val": 2, "test": 2})
    change(entries)
    write_entries(folder, entries)


def half_a_file(folder: Path) -> None:
    karpathy(lambda entries: None, folder)
    file = folder / "dataset_odd.json"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def arrays_that_are_a_pickle(folder: Path) -> None:
    write_arrays(folder)
    (folder / "dev_ims.npy").write_bytes(trap(folder))


def arrays_of_objects(folder: Path) -> None:
    write_arrays(folder)
    np.save(folder / "dev_ims.npy", np.array([Trap(folder / "FIRED")] * 4, dtype=object), allow_pickle=True)


def arrays_elsewhere(folder: Path) -> None:
    write_arrays(folder)
    shutil.move(folder / "dev_ims.npy", folder.with_name("elsewhere.npy"))
    (folder / "dev_ims.npy").symlink_to(folder.with_name("elsewhere.npy"))


def captions_elsewhere(folder: Path) -> None:
    write_arrays(folder)
    (folder / "dev_caps.txt").unlink()
    (folder / "dev_caps.txt").symlink_to("/etc/hostname")


def smaller_weights(folder: Path) -> None:
    state = load_file(SHIPPED)
    name = next(iter(state))
    save_file({**state, name: state[name][:-1].contiguous()}, folder / "weights.safetensors")


def resnet_weights(folder: Path) -> None:
    torch.save(models.resnet18().state_dict(), folder / "weights.pth")


def pickled_weights(folder: Path) -> None:
    (folder / "weights.pth").write_bytes(trap(folder))


def pickled_in_torch(folder: Path) -> None:
    torch.save({"0.weight": Trap(folder / "FIRED")}, folder / "weights.pth")


def vectors(text: str, folder: Path) -> None:
    (folder / "words.vec").write_text(text)


# name: (what to prepare in an empty folder HERE, command line, words of the line)
FILES: dict[str, tuple[Prepare, tuple[str, ...], tuple[str, ...]]] = {
    "the same image id twice": (
        functools.partial(karpathy, lambda entries: entries.append(entries[0])),
        KARPATHY,
        ("dataset_odd.json: images[8]", "'plain 0.png' appears twice; ids must be unique"),
    ),
    "a JSON cut in half": (half_a_file, KARPATHY, ("dataset_odd.json: is not complete JSON",)),
    "a JSON of depth": (
        lambda folder: (folder / "dataset_odd.json").write_text("[" * 200_000),
        KARPATHY,
        ("dataset_odd.json: is nested too deeply",),
    ),
    "an unknown split": (
        functools.partial(karpathy, lambda entries: entries[3].update(split="holdout")),
        KARPATHY,
        ("images[3]: unknown split 'holdout'",),
    ),
    "no validation split": (
        functools.partial(karpathy, lambda entries: [e.update(split="train") for e in entries]),
        KARPATHY,
        ("no split 'val'; it has train",),
    ),
    "half a character": (
        functools.partial(karpathy, lambda entries: entries.append(entry("a\ud83d.png", "train", ["a dog"], "x"))),
        KARPATHY,
        ("images[8]", "is not valid text; expected whole Unicode characters"),
    ),
    "a feature array of the wrong width": (
        write_arrays,
        (*PRECOMP, "features.backbone.width=2048"),
        ("train_ims.npy: features are 16 wide, expected 2048 (features.backbone.width)",),
    ),
    "feature arrays of two widths": (
        functools.partial(write_arrays, dev=np.eye(4, 15, dtype=np.float32)),
        PRECOMP,
        ("dev_ims.npy: rows of pooled (15,), but the files before have pooled (16,)",),
    ),
    "feature arrays in which nothing is": (
        functools.partial(write_arrays, dev=np.zeros((4, 16), np.float32)),
        PRECOMP,
        ("dev_ims.npy: each of its 4 rows repeats a single number or is not finite",),
    ),
    "a pickle offered as a feature array": (arrays_that_are_a_pickle, PRECOMP, ("dev_ims.npy: is not an array file",)),
    "pickled objects in a feature array": (arrays_of_objects, PRECOMP, ("dev_ims.npy: holds Python objects",)),
    "a feature array outside of its root": (
        arrays_elsewhere,
        PRECOMP,
        ("dev_ims.npy: leaves its root", "through a symbolic link; image paths must stay below it"),
    ),
    "captions outside of their root": (captions_elsewhere, PRECOMP, ("dev_caps.txt: leaves its root",)),
    "rows outside of their root": (
        functools.partial(karpathy, lambda entries: [e.update(filename=f"../x{e['filename']}#0") for e in entries]),
        (*KARPATHY[:4], "features.backbone=arrays", "data.root=HERE"),
        ("../xplain 0.png: leaves its root",),
    ),
    "a weights file of another architecture": (
        resnet_weights,
        (*TINY, "features.backbone.weights=HERE/weights.pth"),
        (
            "weights.pth: not weights of this architecture",
            "conv1.weight has shape (64, 3, 7, 7), expected (24, 3, 4, 4)",
        ),
    ),
    "a weights file of another size": (
        smaller_weights,
        (*TINY, "features.backbone.weights=HERE/weights.safetensors"),
        ("weights.safetensors: not weights of this architecture", "expected"),
    ),
    "a torchvision network and weights of another": (
        resnet_weights,
        (
            *("extract_features", "--preset", "vsepp_tiny", "features.backbone=torchvision", "extraction.workers=1"),
            *("features.backbone.arch=shufflenet_v2_x0_5", "features.backbone.weights=HERE/weights.pth"),
        ),
        ("weights.pth: not weights of this architecture", "are missing"),
    ),
    "a pickle offered as weights": (
        pickled_weights,
        (*TINY, "features.backbone.weights=HERE/weights.pth"),
        ("weights.pth: not a file of weights that can be read safely", "expected a state dict"),
    ),
    "a pickle within a torch file": (
        pickled_in_torch,
        (*TINY, "features.backbone.weights=HERE/weights.pth"),
        ("weights.pth: not a file of weights that can be read safely", "expected a state dict"),
    ),
    "a pickle offered as word vectors": (
        lambda folder: (folder / "words.vec").write_bytes(trap(folder)),
        (*TINY, "text.word_vectors=HERE/words.vec"),
        ("words.vec: line 1: expected a word and numbers",),
    ),
    "word vectors of two widths": (
        functools.partial(vectors, "a 1 2 3\nis 1 2\n"),
        (*TINY, "text.word_vectors=HERE/words.vec"),
        ("words.vec: line 2: 2 numbers, earlier lines have 3",),
    ),
    "a parser that attacks would lack": (
        lambda folder: None,
        (*TINY, "text.parser.pipeline=nope"),
        ("text.parser.pipeline=nope: neither en_vse, nor an installed spaCy pipeline, nor a folder of one",),
    ),
    "a preset file that is cut off": (
        lambda folder: (folder / "mine.json").write_text('{"optim": {"lr"'),
        ("train", "--preset", "HERE/mine.json"),
        ("mine.json: not JSON",),
    ),
    "a tracking server that no one speaks to": (
        lambda folder: None,
        (*TINY, "--tracking", "ftp://user:opensesame@host"),
        ("tracking=ftp://user:[hidden]@host: expected http(s)://...",),
    ),
    "a run outside of the workspace": (lambda folder: None, ("evaluate", "run=../runs"), ("run=../runs: no such run",)),
    "more unreadable pictures than allowed": (
        functools.partial(karpathy, lambda entries: [e.update(filename="no " + e["filename"]) for e in entries[:3]]),
        KARPATHY,
        (
            "3 of 8 images are missing in",
            "max_rejected=0.05 allows; data.root, data.file, data.images say where images are",
            "let jobs/extract_features.py pass with extraction.max_rejected=0.4",
        ),
    ),
    "an extraction that is planned of half a file": (
        half_a_file,
        ("extract_features", "--dry-run", *KARPATHY[1:]),
        ("dataset_odd.json: is not complete JSON",),
    ),
    "a parse that is planned of half a file": (
        half_a_file,
        ("parse_captions", "--dry-run", *KARPATHY[1:]),
        ("dataset_odd.json: is not complete JSON",),
    ),
    "artefacts that are planned of half a file": (
        half_a_file,
        ("measure_artefacts", "--dry-run", *KARPATHY[1:]),
        ("dataset_odd.json: is not complete JSON",),
    ),
    "a page of captions that are not there": (
        lambda folder: None,
        ("show_contrast", "--dry-run", "captions=no.txt"),
        ("no.txt: ",),
    ),
    "a table with a row too wide": (
        lambda folder: (folder / "mine.csv").write_text("image,caption\na.jpg,a dog, running\n"),
        ("train", "--preset", "vsepp_tiny", "data=table", "data.file=HERE/mine.csv"),
        ("mine.csv: line 2: 3 fields, but the header has 2",),
    ),
    "a folder in place of a data set": (lambda folder: None, KARPATHY, ("expected one dataset_*.json, found none",)),
}

# One of each kind: a table, arrays, weights, vectors, a preset, a run, and checkpoints.
EVERY_PUSH = (
    "a JSON cut in half",
    "a pickle offered as a feature array",
    "a feature array outside of its root",
    "a pickle within a torch file",
    "a pickle offered as word vectors",
    "a preset file that is cut off",
    "a run outside of the workspace",
    "another version, trained on",
    "a pickle as weights, measured",
)
AFTER_PROGRESS = {"more unreadable pictures than allowed"}  # found by reading them


def resigned(checkpoint: Folder, file: str, data: bytes) -> None:
    """Replace a file of a checkpoint as somebody would who knows the format: the manifest agrees."""
    checkpoint.write_bytes(file, data)
    manifest = checkpoint.read_json("manifest.json")
    content = {key: value for key, value in manifest.items() if key != "files"}
    checkpoint.commit_manifest(manifest["files"], content)


def another_version(checkpoint: Folder, folder: Path) -> None:
    state = checkpoint.read_json("progress.json")
    resigned(checkpoint, "progress.json", json.dumps({**state, "version": 99}).encode())


def pickled(file: str, checkpoint: Folder, folder: Path) -> None:
    resigned(checkpoint, file, trap(folder))


def unsigned(checkpoint: Folder, folder: Path) -> None:
    checkpoint.write_bytes("model.safetensors", trap(folder))


# name: (what becomes of the kept checkpoint, what goes on from it, words of the line)
CHECKPOINTS: dict[str, tuple[Callable[[Folder, Path], None], str, tuple[str, ...]]] = {
    "another version, trained on": (another_version, "train", ("checkpoint of version 99, this code reads 1",)),
    "another version, measured": (another_version, "evaluate", ("checkpoint of version 99, this code reads 1",)),
    "a pickle as weights, trained on": (
        functools.partial(pickled, "model.safetensors"),
        "train",
        ("model.safetensors: not a safetensors file",),
    ),
    "a pickle as weights, measured": (
        functools.partial(pickled, "model.safetensors"),
        "evaluate",
        ("model.safetensors: not a safetensors file",),
    ),
    "a pickle as optimiser": (
        functools.partial(pickled, "optimizer.safetensors"),
        "train",
        ("optimizer.safetensors: not a safetensors file",),
    ),
    "a pickle as progress": (functools.partial(pickled, "progress.json"), "evaluate", ("progress.json: damaged",)),
    "a pickle as configuration": (functools.partial(pickled, "config.json"), "evaluate", ("config.json: damaged",)),
    "a pickle as vocabulary": (functools.partial(pickled, "vocabulary.json"), "evaluate", ("vocabulary.json",)),
    "a pickle under a manifest of before": (unsigned, "evaluate", ("makes it again",)),
}


@dataclass(frozen=True)
class Refused:
    """What one wrong request said, and what was in its workspace before and after."""

    status: int | None
    out: str
    error: str
    before: dict[Path, bytes]
    after: dict[Path, bytes]
    folder: Path


def content(workspace: Path) -> dict[Path, bytes]:
    """Every file of finished stages, journals whole, others by their digest."""
    files = [path for path in workspace.rglob("*") if path.is_file() and path.name not in ("shipper.lock", "manifest")]
    return {
        path: path.read_bytes() if path.suffix == ".jsonl" else hashlib.sha256(path.read_bytes()).digest()
        for path in files
        if not path.name.startswith((".writing-", "shipped-")) and "mlflow.db" not in path.name
    }


@pytest.fixture(scope="module")
def refused(
    tmp_path_factory: pytest.TempPathFactory, stages: Callable[[Path], Workspace], request: pytest.FixtureRequest
) -> dict[str, Refused]:
    folder, asked = tmp_path_factory.mktemp("bad"), selected(request, "case")
    files = {name: case for name, case in FILES.items() if name in asked}
    checkpoints = {name: case for name, case in CHECKPOINTS.items() if name in asked}
    whole = stages(folder / "workspace")
    run = run_training(preset("vsepp_tiny"), whole)
    lines, places = [], []
    for number, (prepare, command, _) in enumerate(files.values()):
        here = folder / f"case {number}"
        here.mkdir()
        prepare(here)
        lines.append(
            [command[0], "--workspace", whole.root.uri, *(word.replace("HERE", str(here)) for word in command[1:])]
        )
        places.append((here, whole.root.local()))
    for number, (spoil, job, _) in enumerate(checkpoints.values()):
        here = folder / f"checkpoint {number}"
        own = stages(here / "workspace")
        shutil.copytree(run.folder.local(), own.run(run.run).local())
        own.run(run.run).delete("result.json")
        spoil(own.run(run.run).child("checkpoints", run.checkpoint.name), here)
        more = ["--preset", "vsepp_tiny"] if job == "train" else [f"run={run.run}", "tasks=retrieval"]
        lines.append([job, "--workspace", own.root.uri, *more])
        places.append((here, own.root.local()))
    before = {place: content(place) for _, place in places}
    found = run_without_ray(lines, folder)
    after = {place: content(place) for _, place in places}
    return {
        name: Refused(*said, before[place], after[place], here)
        for name, said, (here, place) in zip((*files, *checkpoints), found, places, strict=True)
    }


@pytest.mark.parametrize("case", slow_but([*FILES, *CHECKPOINTS], *EVERY_PUSH))
def test_wrong_files_are_one_line_and_nothing_is_lost(refused: dict[str, Refused], case: str) -> None:
    told = refused[case]
    job, words = (FILES[case][1][0], FILES[case][2]) if case in FILES else CHECKPOINTS[case][1:]
    assert (told.status, told.out) == (2, ""), told.error
    begun = ("features:",) * (case in AFTER_PROGRESS) + ("train vsepp on ", "run vsepp-") * ("checkpoint" in told.error)
    *before, line = [line for line in told.error.splitlines() if not line.startswith(begun)]
    assert line.startswith(f"{job}: ")
    assert all("_ims.npy: " in each for each in before)  # how the array files before were read
    for word in words:
        assert word in told.error
    for path, data in told.before.items():
        assert told.after[path].startswith(data) if path.suffix == ".jsonl" else told.after[path] == data, path
    assert not (told.folder / "FIRED").exists()


def test_a_pickle_that_is_loaded_would_show(tmp_path: Path) -> None:
    pickle.loads(trap(tmp_path))
    assert (tmp_path / "FIRED").is_dir()
