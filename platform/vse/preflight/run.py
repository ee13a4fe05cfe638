"""The preflight job: all checks that are possible from this machine, a laptop or the head of a cluster."""

import base64
import http.client
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from vse.cli.command import Request
from vse.cluster.capacity import launched_plan
from vse.cluster.runtime import Config as RayConfig
from vse.cluster.runtime import cluster_address, running_ray, set_up_logging
from vse.config import knob
from vse.errors import InputError
from vse.preflight.aws import check_account
from vse.preflight.checks import Check, table, verdict
from vse.preflight.cluster_file import check_cluster_file, check_token, part, read_cluster_file
from vse.preflight.kuberay import check_kuberay_file, is_kuberay
from vse.preflight.nodes import bring_up, check_hosts, check_nodes, check_this_machine
from vse.tracking.shipping import tracking_uri
from vse.workspace.redaction import redact_text


@dataclass(frozen=True, kw_only=True, slots=True)
class PreflightOptions:
    """Keys of the job."""

    cluster: str = knob("", "cluster file to check, with the account it would be launched in; empty: none")
    start: bool = knob(
        False,
        "on a cluster: start one node of every worker type, or wait for all listed hosts, and check them",
    )
    wait: float = knob(900.0, "seconds to wait for nodes to start and answer", low=1)
    ray: RayConfig = field(default_factory=RayConfig)


def run_preflight(request: Request) -> str:
    """Print the table and return the verdict. Raises InputError (exit status 2) if there is a problem."""
    set_up_logging()
    checks = list(_checks(request))
    print(redact_text(table(checks)))
    problems = [check for check in checks if check.state == "problem"]
    if problems:
        first = problems[0]
        raise InputError(f"{verdict(checks)}; first {first.what} on {first.where}: {first.detail}")
    return verdict(checks)


def _checks(request: Request) -> Iterator[Check]:
    options: PreflightOptions = request.options
    if options.cluster:
        config = read_cluster_file(options.cluster)
        check = check_kuberay_file if is_kuberay(config) else check_cluster_file
        file_checks = check(config, options.cluster)
        yield from file_checks
        yield from check_token(config)
        if part(config, "provider").get("type") == "aws":
            if any(check.state == "problem" for check in file_checks):
                yield Check("account", "AWS", "not checked", "fix the file first")
            else:
                yield from check_account(config)
    if cluster_address(options.ray) is None:
        text = "no cluster runs here; on a cluster: ray submit FILE jobs/preflight.py"
        yield Check("nodes", "cluster", "not checked", text)
        yield from check_this_machine(request.workspace)
    else:
        with running_ray(options.ray):
            import ray  # after `running_ray` has set what Ray reads at import

            plan = launched_plan() or {}
            if options.start:
                yield from bring_up(_worker_types(plan), options.wait)
            yield from check_hosts(plan, ray.nodes, options.wait if options.start else 0.0)
            yield from check_nodes(request.workspace, options.wait)
    yield _mlflow(tracking_uri(request.workspace, request.tracking))


def _worker_types(plan: Mapping[str, Any]) -> dict[str, dict[str, object]]:
    types = dict(plan.get("available_node_types") or {})
    types.pop(plan.get("head_node_type"), None)
    return types


def _health(uri: str) -> urllib.request.Request:
    """A request for the state of a server, with the name and password of its address in a header."""
    parts = urlsplit(uri)
    login, _, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(urlunsplit(parts._replace(netloc=host, path=f"{parts.path.rstrip('/')}/health")))
    if login:
        request.add_header("Authorization", "Basic " + base64.b64encode(unquote(login).encode()).decode())
    return request


def _mlflow(uri: str) -> Check:
    where = redact_text(uri)
    if not uri.startswith(("http://", "https://")):
        return Check("MLflow", "this machine", "ok", f"no server; runs are kept in {where}")
    try:
        with urllib.request.urlopen(_health(uri), timeout=10) as answer:
            passed = answer.status == 200
    except (http.client.InvalidURL, ValueError):  # their text may hold a part of the password
        text = f"{where}: not the address of a server; in a password, write : / @ as %3A %2F %40"
        return Check("MLflow", "this machine", "problem", text)
    except (OSError, http.client.HTTPException) as error:
        reason = redact_text(str(getattr(error, "reason", error)))
        return Check("MLflow", "this machine", "problem", f"{where} does not answer ({reason})")
    return Check("MLflow", "this machine", "ok" if passed else "problem", f"{where} answers {answer.status}")
