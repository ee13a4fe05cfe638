"""Credentials in the environment and in addresses stay out of everything that a job writes, prints or sends."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.jobs.processes import ROOT, run_many
from tests.jobs.tracking_server import Memory, serving
from vse.cluster.node_logs import copy_logs
from vse.storage.folder import Folder

VARIABLES = {
    "AWS_ACCESS_KEY_ID": "AKIAQPLANTED7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYPLANTED1",
    "AWS_SESSION_TOKEN": "FwoGZXIvYXdzEPLANTED2//////////wEaDPLANTED3",
    "MLFLOW_TRACKING_TOKEN": "planted-tracking-token-4",
    "HF_TOKEN": "hf_PlantedPlantedPlantedPlanted5",
    "HUGGING_FACE_HUB_TOKEN": "hf_PlantedPlantedPlantedPlanted6",
    "WANDB_API_KEY": "0123456789planted7abcdef",
    "DATABASE_PASSWORD": "short8",
}
IN_ADDRESS = "correct:horse/9@battery"  # as people paste it and as addresses want it
SECRETS = [
    *VARIABLES.values(),
    IN_ADDRESS,
    "battery",
    "horse",
    "opensesame10",
    "opensesame11",
    "opensesame12",
    "opensesame13",
]
SIZES = ["data.num_train=24", "data.num_val=6", "data.num_test=6", "data.num_shifted=0", "train.epochs=1"]
SPACE = "from ray import tune\nSPACE = {'model.alpha': tune.grid_search([0.5, 1.0])}\n"


@dataclass(frozen=True)
class Told:
    """What jobs with planted credentials left: their folder, their streams, what a tracking server was sent, and the
    folder of the Ray of the last one, a sweep that failed."""

    folder: Path
    found: list[tuple[int | None, str, str]]
    memory: Memory
    ray: Path


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "space.py").write_text(SPACE)
    memory = Memory(f"file://{folder}/artifacts")
    at = ["--workspace", str(folder / "workspace")]
    job = ["train", *at, "--preset", "univse_tiny", *SIZES]
    with serving(memory) as host:
        server = f"http://user:{quote(IN_ADDRESS, safe='')}@{host}"
        variables = VARIABLES | {"MLFLOW_TRACKING_URI": server, "MLFLOW_HTTP_REQUEST_TIMEOUT": "2"}
        lines = [
            [*job, "--tracking", server],
            [*job, "seed=1"],
            [*job, "seed=2", "--tracking", "http://user:opensesame10@127.0.0.1:9"],
            [*job, "--tracking", f"ftp://user:{IN_ADDRESS}@host"],
            [*job, f"features.backbone.weights=https://user:{IN_ADDRESS}@host/weights.pth?token=opensesame11"],
            [*job, "text.word_vectors=https://user:opensesame12@host/words.vec"],
            [*job, "--tracking", server, "--dry-run", f"data.seed={VARIABLES['AWS_SECRET_ACCESS_KEY']}"],
            [*job, "--tracking", server, "--dry-run", f"text.word_vectors=s3://{VARIABLES['HF_TOKEN']}@bucket/x"],
            ["train", "--workspace", f"s3://AKIAQPLANTED7EXAMPLE:{IN_ADDRESS}@bucket/x?region=eu", "--dry-run"],
            [
                "sweep_alpha",
                *at,
                "--preset",
                "univse_tiny",
                "text.word_vectors=https://user:opensesame13@host/words.vec",
            ],
            ["extract_features", *at, "--preset", "univse_tiny", *SIZES, "data.seed=9", "extraction.workers=1"],
            [
                *("sweep_alpha", *at, "--preset", "univse_tiny", *SIZES, "sweep.seeds=0", "sweep.name=curve"),
                *(f"sweep.space={folder}/space.py", "--tracking", server),
            ],
            [*job, "seed=3", "optim.lr=1e38", "optim.clip=0"],
            [
                *("sweep_alpha", *at, "--preset", "univse_tiny", *SIZES, "sweep.seeds=0", "sweep.name=diverging"),
                *(f"sweep.space={folder}/space.py", "--tracking", server, "optim.lr=1e38", "optim.clip=0"),
            ],
        ]
        found = run_many(lines, folder, variables=variables, timeout=550)
    scratch = re.search(r"^kept Ray's logs of this run in (/tmp/vse-ray-\w+)$", found[-1][2], re.MULTILINE)
    assert scratch, found[-1]
    yield Told(folder, found, memory, Path(scratch[1]))
    shutil.rmtree(scratch[1])


pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def holding(data: bytes) -> list[str]:
    """The planted secrets that are in some bytes, as they are or as an address writes them."""
    return [secret for secret in SECRETS if any(form.encode() in data for form in (secret, quote(secret, safe="")))]


def _own_code(path: Path) -> bool:
    """Whether it is a file of the package as a registered model brings it, where a horse is a noun like others."""
    _, mark, name = path.as_posix().rpartition("/code/vse/")
    return bool(mark) and path.read_bytes() == (ROOT / "platform" / "vse" / name).read_bytes()


def test_the_jobs_did_what_they_should(told: Told) -> None:
    assert [status for status, _, _ in told.found] == [0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 0, 0, 1, 1], told.found
    assert len(told.memory.runs) > 5
    assert all(header.startswith(("Basic ", "Bearer ")) for header in told.memory.authorized)


def test_no_file_holds_a_secret(told: Told) -> None:
    files = [path for path in told.folder.rglob("*") if path.is_file() and not _own_code(path)]
    assert {"journal.jsonl", "summary.json", "ledger.jsonl", "report.html", "config.json"} <= {p.name for p in files}
    assert {"MLmodel", "input_example.json"} <= {p.name for p in files}
    assert {str(path): found for path in files if (found := holding(path.read_bytes()))} == {}


def _logs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_logs_of_ray_hold_no_secret(told: Told) -> None:
    logs = _logs(told.ray)
    assert b"Creating runtime env" in logs["runtime_env_agent.log"]
    assert {name: found for name, data in logs.items() if (found := holding(data))} == {}
    assert told.ray.stat().st_mode & 0o777 == 0o700


def test_logs_that_nodes_copy_hold_no_secret(told: Told, tmp_path: Path) -> None:
    """Nor those that something else on a node has written, where this process does not know the credentials."""
    session = next(told.ray.glob("r/session_2*"))
    variables = VARIABLES | {"MLFLOW_TRACKING_URI": f"http://user:{quote(IN_ADDRESS, safe='')}@host"}
    planted = f"Creating runtime env: {json.dumps({'env_vars': variables})}\n{variables}\n"
    planted += "".join(f"{name}={value}\n" for name, value in variables.items())
    (session / "logs" / "planted.log").write_text(planted)
    try:
        assert copy_logs(session, Folder.open(tmp_path), {}, now=0) > 5
    finally:
        (session / "logs" / "planted.log").unlink()
    copies = _logs(tmp_path)
    assert {"planted.log", "runtime_env_agent.log"} <= set(copies)
    assert {name: found for name, data in copies.items() if (found := holding(data))} == {}


def test_no_stream_holds_a_secret(told: Told) -> None:
    for status, out, error in told.found:
        assert holding((out + error).encode()) == [], (status, out, error)


def test_the_tracking_server_gets_no_secret_but_the_one_it_asks_for(told: Told) -> None:
    for request in told.memory.requests:
        assert holding(request) == []


def test_an_address_without_its_password_is_still_named(told: Told) -> None:
    summary = json.loads(Path(told.found[0][1].splitlines()[-1]).read_text())
    assert summary["outputs"]["mlflow"].startswith("http://user:[hidden]@127.0.0.1:")
    assert "--tracking http://user:[hidden]@127.0.0.1:" in summary["command"]
    warning = next(line for line in told.found[2][2].splitlines() if line.startswith("tracking: "))
    assert warning.startswith("tracking: http://user:[hidden]@127.0.0.1:9 cannot be used now")


def test_a_planted_secret_is_found() -> None:
    assert holding(b"x" + VARIABLES["HF_TOKEN"].encode()) == [VARIABLES["HF_TOKEN"]]
    assert "correct%3Ahorse%2F9%40battery" in quote(IN_ADDRESS, safe="")
    assert IN_ADDRESS in holding(quote(IN_ADDRESS, safe="").encode())
