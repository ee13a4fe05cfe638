"""MLflow's pages, opened on the runs of this project: `mlflow server --app-name vse ...`.

A browser without a stored choice would open MLflow's pages for language models (MLflow 3.17). This application serves
the same pages with the table of runs first. Choices that the user has made in the browser stay.
"""

import json
from pathlib import Path

from flask import Response

from vse.tracking.mlflow_internals import BROWSER_CHOICES, web_pages
from vse.tracking.view import VIEW_KEY

START = f"#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey={VIEW_KEY}"
_SCRIPT = f"""<script>
for (const [key, value] of Object.entries({json.dumps(BROWSER_CHOICES)}))
  if (localStorage.getItem(key) === null) localStorage.setItem(key, JSON.stringify(value));
if (!location.hash) location.replace({json.dumps(START)});
</script>"""

pages, app = web_pages()


def serve() -> Response:
    """MLflow's single page, with the script before its own."""
    page = Path(str(pages.static_folder), "index.html").read_text(encoding="utf-8")
    return Response(page.replace("<head>", f"<head>{_SCRIPT}", 1), mimetype="text/html")


pages.view_functions["serve"] = serve
