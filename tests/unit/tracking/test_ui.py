"""`make ui` opens MLflow's training view in a browser that has not been asked yet."""

import subprocess
import sys

import pytest

CODE = """
from importlib.metadata import entry_points
from starlette.testclient import TestClient
from vse.tracking import ui
(named,) = entry_points(group="mlflow.app", name="vse")
assert named.load() is ui.app
page = TestClient(ui.app).get("/", headers={"Host": "127.0.0.1"})
assert page.status_code == 200, page.status_code
print(page.text)
"""


@pytest.mark.process
def test_the_page_starts_with_training_and_keeps_what_a_user_chose() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    script, rest = done.stdout.split("</script>", 1)
    assert '"mlflow.workflowType_v1": "machine_learning"' in script
    assert "getItem(key) === null" in script
    assert "#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey=vse" in script
    assert "static-files/static/js/main." in rest  # MLflow's own page follows
    assert "http" not in script
