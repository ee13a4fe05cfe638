"""MLflow's pages, opened on what this project records: `mlflow server --app-name vse ...`.

MLflow's pages are for language models or for model training, as the browser remembers, and for language models in a
browser that has not been asked: the kind of an experiment does not change that (MLflow 3.17). This application serves
the same pages with another beginning: training, the table of runs with its columns, and no assistant unfolded. What a
user has chosen in the browser stays.
"""

import json
from pathlib import Path

from flask import Response
from mlflow.server import app as pages
from mlflow.server.fastapi_app import app

from vse.tracking.view import VIEW_KEY

START = f"#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey={VIEW_KEY}"
_CHOICES = {  # keys of the browser's storage, as MLflow's pages name them
    "mlflow.workflowType_v1": "machine_learning",
    "mlflow.assistant.panelOpen_v1": False,
    "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": True,
}
_SCRIPT = f"""<script>
for (const [key, value] of Object.entries({json.dumps(_CHOICES)}))
  if (localStorage.getItem(key) === null) localStorage.setItem(key, JSON.stringify(value));
if (!location.hash) location.replace({json.dumps(START)});
</script>"""

__all__ = ["app", "serve"]


def serve() -> Response:
    """MLflow's one page, with the script in front of its own."""
    page = Path(str(pages.static_folder), "index.html").read_text(encoding="utf-8")
    return Response(page.replace("<head>", f"<head>{_SCRIPT}", 1), mimetype="text/html")


pages.view_functions["serve"] = serve
