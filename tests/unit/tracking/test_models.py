"""Models in a real embedded registry: loaded as anyone would, once whatever happens, and never more than was packed."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.unit.inference.test_embedder import train
from vse.inference.served_model import offer_model
from vse.storage.files import sha256_of
from vse.tracking.models import REQUIREMENTS
from vse.tracking.shipping import Shipper, embedded_uri, ship_all
from vse.workspace import journal
from vse.workspace.journal import Journal
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose one run was registered twice and then with another α."""
    place = tmp_path_factory.mktemp("registry") / "workspace"
    workspace = Workspace.open(str(place))
    run = train(workspace, "univse_tiny").run
    shipper = Shipper(str(place), embedded_uri(str(place)))
    found = []
    for alpha in (0.5, 0.5, 1.0):
        offer_model(workspace, run, changes={"model.alpha": alpha})
        shipped = shipper.ship(wait=10)
        assert shipped.trouble == ""
        found.append(shipped.models)
    assert found == [{"models:/univse-scenes@selected": version} for version in (1, 1, 2)]
    return place


def client(workspace: Path) -> Any:
    from mlflow import MlflowClient

    uri = embedded_uri(str(workspace))
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def test_a_model_is_a_version_once_and_the_alias_goes_to_the_last(registered: Path) -> None:
    found = client(registered)
    versions = {int(v.version): v for v in found.search_model_versions("name='univse-scenes'")}
    assert sorted(versions) == [1, 2]
    assert [versions[k].tags["model.alpha"] for k in (1, 2)] == ["0.5", "1.0"]
    assert found.get_model_version_by_alias("univse-scenes", "selected").version == versions[2].version
    (run,) = found.search_runs([e.experiment_id for e in found.search_experiments()])
    assert {v.run_id for v in versions.values()} == {run.info.run_id}
    assert versions[2].tags["run"] == run.info.run_name


def test_what_another_job_sent_is_found(registered: Path) -> None:
    shipper, found = Shipper(str(registered), embedded_uri(str(registered))), client(registered)
    digests = [v.tags["vse.digest"] for v in found.search_model_versions("name='univse-scenes'", order_by=["name"])]
    assert {shipper.version_of("univse-scenes", "selected", digest) for digest in digests} == {None, 2}
    assert shipper.version_of("univse-scenes", "other", digests[0]) is None


_LOAD = """
import json, sys
from importlib.machinery import PathFinder

class Required(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in sys.argv[2:] else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Required
before = set(sys.modules)
import mlflow.pyfunc
model = mlflow.pyfunc.load_model(sys.argv[1])
example = model.input_example
vectors = model.predict(example)["embedding"].tolist()
import vse
packages = sorted({name.split(".")[0] for name in set(sys.modules) - before})
print(json.dumps({"vectors": vectors, "code": vse.__file__, "packages": packages,
                  "inputs": model.metadata.signature.inputs.to_dict()}))
"""


def load(workspace: Path, folder: Path, address: str = "models:/univse-scenes@selected") -> dict[str, Any]:
    """The model of a workspace in a process that knows this project from nowhere but the model, and has no package
    but the required ones and theirs: a library may import another one if it happens to be installed."""
    values = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    values |= {"MLFLOW_TRACKING_URI": embedded_uri(str(workspace)), "JAXTYPING_DISABLE": "1"}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _LOAD, address, *sorted(_distributed() - _closure(REQUIREMENTS))],
        cwd=folder,
        env=values,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.process
@pytest.mark.slow
def test_it_loads_from_its_own_code_wherever_the_workspace_lies(registered: Path, tmp_path: Path) -> None:
    copied = tmp_path / "elsewhere" / "workspace"
    shutil.copytree(registered, copied)
    ship_all(str(copied))  # any job of a moved workspace sets the places right
    shutil.rmtree(copied / "runs")
    loaded = load(copied, tmp_path)
    assert loaded["code"].startswith(str(copied / "mlflow" / "artifacts"))
    assert [len(vector) for vector in loaded["vectors"]] == [32, 32]
    assert [column["name"] for column in loaded["inputs"]] == ["image", "path", "sentence"]
    assert not (tmp_path / "mlflow.db").exists()
    unmet = set(loaded["packages"]) & _distributed() - _closure(REQUIREMENTS)
    assert unmet == set(), "imported, but neither required nor a requirement's requirement"


def _distributed() -> set[str]:
    return set(metadata.packages_distributions())


def _closure(names: tuple[str, ...]) -> set[str]:
    """Packages to import that come with these distributions and all they require; and the tests' and our own."""
    todo, seen = list(names), set()
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            wanted = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        todo += [re.split(r"[\s\[<>=!~;(]", each)[0] for each in wanted if "extra ==" not in each]
    packages = metadata.packages_distributions().items()
    return {top for top, parts in packages if any(re.sub(r"[-_.]+", "-", part).lower() in seen for part in parts)} | {
        "vse"
    }


def test_nothing_in_it_is_a_pickle_and_nothing_is_too_much(registered: Path) -> None:
    files = [path for path in (registered / "mlflow" / "artifacts").rglob("*") if path.is_file()]
    assert any(path.name == "MLmodel" for path in files)
    for path in files:
        assert path.suffix not in (".pkl", ".pickle", ".pt", ".pth", ".joblib"), path
        assert not re.match(rb"\x80[\x02-\x05]", path.read_bytes()[:2]), path
    assert not any("optimizer" in path.name for path in files)


HOSTILE = {  # run -> (where its pack lies, the file that its manifest names)
    "upwards": ("served/../../../../outside", None),
    "absent": ("served/absent", None),
    "named": ("served/hostile", "../../../../outside/secret"),
    "linked": ("served/linked", "secret"),
}


def test_a_journal_from_elsewhere_cannot_have_other_files_registered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "outside" / "secret"
    secret.parent.mkdir()
    secret.write_text("secret")
    workspace = tmp_path / "workspace"
    for run, (path, named) in HOSTILE.items():
        book = Journal(workspace / "runs" / run / journal.FILE_NAME)
        book.start(run)
        folder = book.path.parent / path
        if named is not None:
            folder.mkdir(parents=True)
            entry = {"bytes": 6, "sha256": sha256_of(b"secret")}
            (folder / "manifest.json").write_text(json.dumps({"files": {named: entry}}))
        if run == "linked":
            (folder / "secret").symlink_to(secret)
        book.model(run, alias="selected", path=path, digest="12345678")
    with caplog.at_level("WARNING", logger="vse"):
        shipped = ship_all(str(workspace))
    assert (shipped.runs, shipped.models, shipped.trouble) == (len(HOSTILE), {}, "")
    assert "is not registered" in caplog.text
    assert client(workspace).search_registered_models() == []
    kept = [file for file in (workspace / "mlflow").rglob("*") if file.is_file()]
    assert kept
    assert not any(file.read_bytes() == b"secret" for file in kept)
