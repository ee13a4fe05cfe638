"""jobs/preflight.py as it is typed: one table, status 0 or 2, on a machine without a cluster."""

import base64
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.jobs.processes import ROOT, run_many
from vse.preflight.cluster_file import check_token
from vse.preflight.run import _mlflow

NO_CLOUD = {"AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "AWS_CONFIG_FILE": "/nonexistent"}


@pytest.mark.process
def test_a_laptop(tmp_path: Path) -> None:
    text = (ROOT / "cluster.yaml").read_text()
    for name in ("platform", "jobs", "search_spaces", "monitoring", *(p.name for p in ROOT.iterdir() if p.is_file())):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "cluster.yaml").unlink()
    (tmp_path / "cluster.yaml").write_text(text.replace("RAY_AUTH_MODE=token", "RAY_AUTH_MODE=disabled"))
    (tmp_path / "broken.yaml").write_text("a: [")
    (tmp_path / "home" / ".ray").mkdir(parents=True)
    (tmp_path / "home" / ".ray" / "auth_token").write_text("t")
    base = ["preflight", "--workspace", str(tmp_path / "w"), "ray.address=local"]
    good, wrong, absent, broken = run_many(
        [
            [*base, f"cluster={ROOT / 'cluster.yaml'}"],
            [*base, f"cluster={tmp_path / 'cluster.yaml'}"],
            [*base, "cluster=nowhere.yaml"],
            [*base, f"cluster={tmp_path / 'broken.yaml'}"],
        ],
        tmp_path,
        variables={**NO_CLOUD, "AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path / "home")},
    )
    assert good[0] == 0, good
    assert "schema of Ray" in good[1]
    assert "no credentials" in good[1]
    assert good[1].splitlines()[-1].endswith("2 not checked, 0 problems")
    assert wrong[0] == 2
    assert "RAY_AUTH_MODE: not set to token" in wrong[1]
    assert "1 problem; first lint on" in wrong[2]
    assert (absent[0], absent[2]) == (2, "preflight: cluster=nowhere.yaml: No such file or directory\n")
    assert broken[0] == 2
    assert "not YAML" in broken[2]
    assert not any("Traceback" in each[2] for each in (good, wrong, absent, broken))


class _Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        login = self.headers.get("Authorization") in (None, f"Basic {base64.b64encode(b'me:s@cret/1').decode()}")
        self.send_response(200 if self.path.endswith("/health") and login else 404)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.process
def test_a_tracking_server_answers_or_not() -> None:
    login = "http://me:s%40cret%2F1@"
    with HTTPServer(("127.0.0.1", 0), _Health) as server:
        threading.Thread(target=lambda: [server.handle_request() for _ in range(3)], daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert _mlflow(address).state == "ok"
        assert _mlflow(address.replace("http://", login)).state == "ok"
        assert _mlflow(address.replace("http://", login) + "/below/").state == "ok"
    gone = _mlflow(address.replace("http://", login))
    assert gone.state == "problem"
    assert f"127.0.0.1:{address.rpartition(':')[2]} does not answer (" in gone.detail
    assert "cret" not in gone.detail
    for wrong in ("http://me:secret/1@host", "http://me:secret@ho st"):
        assert _mlflow(wrong).state == "problem"
        assert "secret" not in _mlflow(wrong).detail
    assert _mlflow("sqlite:////w/mlflow.db").state == "ok"


@pytest.mark.parametrize("text", ["[]", "1"])
def test_a_file_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    from vse.errors import InputError
    from vse.preflight.cluster_file import read_cluster_file

    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError, match="expected a mapping"):
        read_cluster_file(str(tmp_path / "c.yaml"))


def test_the_token_that_nodes_get_must_be_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = {"file_mounts": {"~/.ray/auth_token": "~/.ray/auth_token", "~/vse/jobs": "jobs"}}
    (missing,) = check_token(config)
    assert missing.state == "problem"
    assert "ray get-auth-token --generate" in missing.detail
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").touch()
    assert check_token(config)[0].state == "problem"
    (tmp_path / ".ray" / "auth_token").write_text("t")
    assert [check.state for check in check_token(config)] == ["ok"]
    assert check_token({}) == []
