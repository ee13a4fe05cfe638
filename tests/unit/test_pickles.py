"""No pickle is loaded from a workspace: by what the sources say, and by traps in every kind of file of one."""

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.unit.asked import asked
from tests.unit.unsafe_loading import unsafe
from vse.config import override
from vse.presets import preset
from vse.stages.measuring.stage import measure_run
from vse.stages.train import run_training
from vse.stages.trained import load_run
from vse.storage.files import CHECKSUM, as_json, sha256_of, with_checksum
from vse.storage.folder import MANIFEST, Folder
from vse.sweeps.ledger import Ledger
from vse.sweeps.ledger_file import FILE_NAME
from vse.tracking.run import write_state
from vse.tracking.shipping import Shipper
from vse.workspace.layout import Workspace

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = {
    "platform/vse/cli/main.py": ("run_module",),  # a job of this repository, chosen from its list
    "platform/vse/sweeps/space.py": {"exec_module"},  # the user's own search space, named on the command line
}


@pytest.mark.seconds
def test_no_source_loads_what_may_run() -> None:
    found = {}
    for room in ("platform/vse", "jobs", "search_spaces"):
        for path in (ROOT / room).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            lines = [line for line in unsafe(path.read_text()) if line.rpartition(".")[2] not in ALLOWED.get(name, ())]
            if lines:
                found[name] = lines
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        *("import pickle\npickle.load(f)", "import pickle as p\np.loads(b)", "from pickle import loads"),
        *("import joblib\njoblib.load(f)", "import torch\ntorch.load(f)", "torch.load(f, weights_only=False)"),
        *("np.load(f)", "np.load(f, allow_pickle=True)", "np.load(f, mmap_mode='r')", "from numpy import load"),
        *("yaml.load(f)", "yaml.unsafe_load(f)", "eval(text)", "exec(text)", "pd.read_pickle(f)", "torch.hub.load(f)"),
        *("weights.get_state_dict(progress=True)", "import ray\nray.cloudpickle.loads(b)", "torch.jit.load(f)"),
        *("mlflow.pytorch.load_model(f)", "import marshal\nmarshal.loads(b)", "import shelve\nshelve.open(f)"),
        "torch.load(f, weights_only=safe)",
    ],
)
def test_a_breach_is_found(source: str) -> None:
    assert list(unsafe(source))


@pytest.mark.parametrize(
    "source",
    [
        *("torch.load(f, weights_only=True)", "np.load(f, mmap_mode='r', allow_pickle=False)", "json.loads(text)"),
        *("import pickle\ntry: f()\nexcept pickle.UnpicklingError: pass", "yaml.safe_load(f)", "model.eval()"),
        *("re.compile(x)", "from safetensors.torch import load\nload(b)", "spacy.load(f)"),
    ],
)
def test_what_is_safe_is_no_breach(source: str) -> None:
    assert list(unsafe(source)) == []


class Trap:
    """A pickle of it makes a folder when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.mark),)


def traps(kind: str, mark: Path, scratch: Path) -> dict[str, bytes]:
    """What an attacker may put in place of a file: a plain pickle, and the pickle its format could carry."""
    found = {"pickle": pickle.dumps(Trap(mark))}
    if kind.endswith(".npy"):
        with (scratch / "objects.npy").open("wb") as file:
            np.save(file, np.array([Trap(mark)] * 3, dtype=object), allow_pickle=True)
        found["objects"] = (scratch / "objects.npy").read_bytes()
    if kind.endswith(".safetensors"):
        torch.save({"weight": Trap(mark)}, scratch / "weights.pt")
        found["torch"] = (scratch / "weights.pt").read_bytes()
    return found


SMALL = {"data.num_train": 40, "data.num_val": 4, "data.num_test": 3, "data.num_shifted": 0}
CONFIG = override(preset("univse_tiny"), {**SMALL, "train.epochs": 1})


def read_everything(workspace: Workspace) -> list[str]:
    """What each reader of a workspace says: training that goes on, measures, ledger, state of the shipper."""

    def train() -> object:
        return run_training(CONFIG, workspace)

    (run,) = [workspace.run(name) for name in workspace.root.child("runs").names()]
    measures = asked(splits=("test",), alpha=0.25, attacks__words=("shared",))
    readers: list[Callable[[], object]] = [
        train,
        lambda: load_run(run),
        lambda: measure_run(run, workspace, *measures),
        lambda: Ledger(workspace.sweep("some")),
        lambda: Shipper(workspace.root.uri)._load(),
    ]
    said = []
    for reader in readers:
        try:
            reader()
            said.append("read")
        except Exception as error:  # refusing is as good as making again; running it is not
            said.append(f"{type(error).__name__}: {error}")
    return said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which every stage was there: trained, measured, with a ledger and a shipper's state."""
    workspace = Workspace.open(str(tmp_path_factory.mktemp("whole") / "workspace"))
    result = run_training(CONFIG, workspace)
    measure_run(result.folder, workspace, *asked(splits=("test",), attacks__words=("shared",)))
    Ledger(workspace.sweep("some")).finish({"model.alpha": 0.5}, {"rsum": 1.0}, 1.0)
    workspace.root.child("mlflow").local().mkdir()
    write_state(Shipper(workspace.root.uri)._state_file, {})
    result.folder.delete("result.json")  # so that training goes on from its checkpoint
    return workspace.root.local()


def kind_of(path: Path) -> str:
    """Files that differ in digits only are of one kind."""
    return re.sub(r"[0-9a-f]{8,}|\d{4}", "#", path.as_posix())


def resign(file: Path, data: bytes) -> None:
    """Put `data` in place, and into every manifest and receipt beside it that names the file."""
    before = file.read_bytes()
    file.write_bytes(data)
    for beside in file.parent.glob("*.json"):
        if beside == file:
            continue
        text = beside.read_text(errors="replace")
        if sha256_of(before) in text:
            text = text.replace(sha256_of(before), sha256_of(data))
            signed = json.loads(text.replace(f'"bytes": {len(before)}', f'"bytes": {len(data)}'))
            beside.write_bytes(as_json(with_checksum({k: v for k, v in signed.items() if k != CHECKSUM})))


@pytest.mark.slow
def test_a_pickle_in_any_file_of_a_workspace_never_runs(whole: Path, tmp_path: Path) -> None:
    kinds: dict[str, Path] = {}
    for path in sorted(whole.rglob("*")):
        if path.is_file() and path.stat().st_size:
            kinds.setdefault(kind_of(path.relative_to(whole)), path.relative_to(whole))
    names = " ".join(kinds)
    for needed in ("model.safetensors", ".parquet", "cache/", "outcomes-", FILE_NAME, MANIFEST, "vocabulary.json"):
        assert needed in names
    mark = tmp_path / "FIRED"
    for number, (kind, file) in enumerate(kinds.items()):
        for form, data in traps(kind, mark, tmp_path).items():
            place = tmp_path / f"{number} {form}"
            shutil.copytree(whole, place)
            resign(place / file, data)
            said = read_everything(Workspace.open(str(place)))
            assert not mark.exists(), f"{file}: a {form} in it was run; {said}"
            shutil.rmtree(place)


def test_a_trap_that_is_loaded_shows(tmp_path: Path) -> None:
    for number, name in enumerate(("a.npy", "b.safetensors")):
        for form, data in traps(name, tmp_path / f"FIRED {number}", tmp_path).items():
            mark = tmp_path / f"FIRED {number}"
            file = tmp_path / form
            file.write_bytes(data)
            {
                "pickle": lambda file=file: pickle.loads(file.read_bytes()),
                "objects": lambda file=file: np.load(file, allow_pickle=True),
                "torch": lambda file=file: torch.load(file, weights_only=False),
            }[form]()
            assert mark.is_dir()
            mark.rmdir()


@pytest.mark.seconds
def test_a_refusal_reaches_the_reader(whole: Path, tmp_path: Path) -> None:
    """The traps are met, not passed by: an intact copy is read, one with a trap as weights is refused."""
    for name in ("intact", "trapped"):
        shutil.copytree(whole, tmp_path / name)
    assert set(read_everything(Workspace.open(str(tmp_path / "intact")))) == {"read"}
    (weights,) = (tmp_path / "trapped").glob("runs/*/checkpoints/*/model.safetensors")
    resign(weights, pickle.dumps(Trap(tmp_path / "FIRED")))
    assert Folder.open(weights.parent).read_manifest() is not None
    said = read_everything(Workspace.open(str(tmp_path / "trapped")))
    assert all("not a safetensors file" in word for word in said[:3])
