"""The Grafana dashboard and the alert rules name only metrics and labels that exist."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.dashboard.consts import CLUSTER_TAG_KEYS
from ray.dashboard.modules.reporter.reporter_agent import METRICS_GAUGES

from vse.tracking.prometheus import GAUGES

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "operations" / "monitoring.md"
FOLDER = ROOT / "monitoring"
STATES = {"waiting", "running", "finished", "failed"}  # of `ray_vse_trials`
_METRIC = re.compile(r"\b(ray_\w+|up)\b(?:\{([^}]*)\})?")


def dashboard() -> dict[str, Any]:
    return json.loads((FOLDER / "grafana.json").read_text())


def panel_queries() -> list[str]:
    return [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    return group["rules"]


def metrics(queries: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """(metric, its selected labels) in queries."""
    for query in queries:
        for name, labels in _METRIC.findall(query):
            yield name, dict(re.findall(r'(\w+)=~?"([^"]*)"', labels))


QUERIES = [*panel_queries(), *(rule["expr"] for rule in rules())]


def test_metrics_are_ours_or_rays() -> None:
    named = {name for name, _ in metrics(QUERIES)}
    known = {f"ray_{name}" for name in (*GAUGES, *METRICS_GAUGES)} | {"up"}
    assert named - known == set()
    assert {f"ray_{name}" for name in GAUGES} <= named  # every gauge of ours is shown


def test_labels_are_those_of_the_gauges() -> None:
    for name, labels in metrics(QUERIES):
        if (own := name.removeprefix("ray_")) in GAUGES:
            assert set(labels) <= set(GAUGES[own][1]), name
            assert set(labels.get("state", "running").split("|")) <= STATES
    for query in QUERIES:
        names = {name.removeprefix("ray_") for name, _ in metrics([query])}
        tags = {tag for name in names for tag in GAUGES.get(name, ("", ()))[1]}
        tags |= {tag for tag in CLUSTER_TAG_KEYS if any(name.startswith("cluster_") for name in names)}
        grouped = {label for by in re.findall(r"by \(([^)]*)\)", query) for label in by.split(", ")}
        if tags:
            assert grouped <= tags, query


SWEEP = 'ray_vse_trials{of="s", state="running"}'
WAITING = 'ray_vse_trials{of="s", state="waiting"}'
RATE = 'ray_vse_images_per_second{of="s", stage="train"}'
BUSY = 'ray_cluster_active_nodes{node_type="gpu", SessionName="s"}'
IDLE = 'ray_cluster_idle_nodes{node_type="gpu", SessionName="s"}'
STARTING = 'ray_cluster_pending_nodes{node_type="gpu", SessionName="s"}'
MEMORY = 'ray_node_mem_total{ip="a", SessionName="s"}'
SERIES: dict[str, tuple[dict[str, str], dict[int, set[str]]]] = {  # values of each minute; alerts after minutes
    "works": ({SWEEP: "2x100", RATE: "80+1x100"}, {19: set(), 60: set()}),
    "hangs at minute 30": ({SWEEP: "2x100", RATE: "80+1x30 110x70"}, {40: set(), 52: {"StalledSweep"}}),
    "lost its workers": ({SWEEP: "2x100", RATE: "80+1x30 stale"}, {40: set(), 52: {"StalledSweep"}}),
    "waits": ({SWEEP: "0x100", WAITING: "3x100"}, {19: set(), 21: {"SweepWaitsForNodes"}}),
    "runs and waits": ({SWEEP: "1x100", WAITING: "3x100", RATE: "80+1x100"}, {60: set()}),
    "a failed trial": ({'ray_vse_trials{of="s", state="failed"}': "0x10 1x90"}, {5: set(), 12: {"FailedTrials"}}),
    "spool": ({"ray_vse_spooled_runs": "3x10 9x90"}, {30: set(), 42: {"FullSpool"}}),
    "spool that drains": ({"ray_vse_spooled_runs": "9x20 0 9x79"}, {45: set()}),
    "ends": ({SWEEP: "2x20 0 stale", WAITING: "3x10 0x10 stale", RATE: "80+1x21 stale"}, {40: set(), 60: set()}),
    "ends too early": (
        {SWEEP: "2x20 stale", WAITING: "3x20 stale", RATE: "80+1x20 stale"},
        {25: set(), 32: {"JobEnded"}, 79: {"JobEnded"}, 99: set()},
    ),
    "is continued": (
        {f'{SWEEP[:-1]}, WorkerId="a"}}': "2x20 stale", f'{SWEEP[:-1]}, WorkerId="b"}}': "_x25 2x20 0 stale"},
        {32: set(), 50: set(), 70: set()},
    ),
    "node lost": (
        {MEMORY: "8x100", BUSY: "2x20 1x79", WAITING: "1x100", SWEEP: "1x100", RATE: "80+1x100"},
        {22: set(), 30: {"NodeLeftOut"}, 99: set()},
    ),
    "the only node lost": (
        {MEMORY: "8x100", BUSY: "1x20 stale", WAITING: "1x100", SWEEP: "1x100", RATE: "80+1x100"},
        {22: set(), 30: {"NodeLeftOut"}, 99: set()},
    ),
    "node released": ({MEMORY: "8x100", BUSY: "2x20 1x79", SWEEP: "1x100", RATE: "80+1x100"}, {30: set()}),
    "idle node of another type released": (
        {MEMORY: "8x100", BUSY: "1x100", WAITING: "1x100", SWEEP: "1x100", RATE: "80+1x100"}
        | {BUSY.replace("gpu", "cpu"): "1x20 stale", IDLE.replace("gpu", "cpu"): "_x20 1x5 stale"},
        {23: set(), 27: set(), 30: set(), 60: set()},
    ),
    "node idle between two trials": (
        {MEMORY: "8x100", BUSY: "2x20 1 2x78", IDLE: "_x20 1 stale", SWEEP: "1x100", RATE: "80+1x100"}
        | {WAITING: "1x100"},
        {22: set(), 30: set()},
    ),
    "nodes of an earlier cluster": (
        {MEMORY: "_x30 8x70", BUSY.replace('"s"', '"r"'): "4x20 stale", BUSY: "_x30 1x70", WAITING: "_x30 1x70"}
        | {SWEEP: "_x30 1x70", RATE: "80+1x100"},
        {40: set(), 60: set()},
    ),
    "metrics unreadable": ({'up{job="ray", instance="a"}': "1x10 0x90"}, {12: set(), 17: {"NodeWithoutMetrics"}}),
    "no start": ({STARTING: "_x5 1x95"}, {20: set(), 27: {"NodeDoesNotStart"}}),
    "starts": ({STARTING: "_x5 1x15 stale"}, {20: set(), 27: set()}),
    "nodes left": ({'ray_cluster_failed_nodes{node_type="gpu"}': "0 2x99"}, {12: set(), 60: set()}),
    "disk": ({'ray_node_disk_utilization_percentage{ip="a"}': "80x10 95x90"}, {15: set(), 22: {"DiskAlmostFull"}}),
}


def promtool(*arguments: str) -> str:
    """What Prometheus's checker says of files; skips the test if it is not installed."""
    if (program := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed (Debian's package prometheus)")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.process
def test_prometheus_reads_all_queries(tmp_path: Path) -> None:
    panels = [{"record": f"panel:{n}", "expr": e.replace("$work", ".*")} for n, e in enumerate(panel_queries())]
    (tmp_path / "panels.yaml").write_text(json.dumps({"groups": [{"name": "panels", "rules": panels}]}))
    assert f"{len(panels)} rules found" in promtool("check", "rules", str(tmp_path / "panels.yaml"))
    assert f"{len(rules())} rules found" in promtool("check", "rules", str(FOLDER / "alerts.yaml"))


def test_the_head_has_the_rules_that_its_configuration_names() -> None:
    """A list of rules that matches no file is no error for Prometheus."""
    named = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())["rule_files"]
    assert named == ["alerts.yaml"]
    for file in ("cluster.yaml", "cluster-onprem.yaml"):
        assert yaml.safe_load((ROOT / file).read_text())["file_mounts"]["~/vse/monitoring"] == FOLDER.name
    assert "--config.file=vse/monitoring/prometheus.yaml" in PAGE.read_text()


@pytest.mark.process
def test_prometheus_reads_its_configuration(tmp_path: Path) -> None:
    text = (FOLDER / "prometheus.yaml").read_text()
    (tmp_path / "alerts.yaml").write_text((FOLDER / "alerts.yaml").read_text())
    in_full = re.sub(r"^# (?=alerting|remote_write| )", "", text, flags=re.MULTILINE)
    for name, each in (("as_it_is", text), ("in_full", in_full)):
        (tmp_path / f"{name}.yaml").write_text(each)
        assert "1 rule files found" in promtool("check", "config", str(tmp_path / f"{name}.yaml"))
    assert {"alerting", "remote_write"} <= set(yaml.safe_load((tmp_path / "in_full.yaml").read_text()))


@pytest.mark.process
@pytest.mark.parametrize("name", SERIES)
def test_alerts_fire_when_they_should(name: str, tmp_path: Path) -> None:
    values, expected = SERIES[name]
    checks = [
        {"expr": 'sort(count by (alertname) (ALERTS{alertstate="firing"}))', "eval_time": f"{minute}m"}
        | {"exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(alerts)]}
        for minute, alerts in expected.items()
    ]
    series = [{"series": metric, "values": each} for metric, each in values.items()]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    (tmp_path / "test.yaml").write_text(
        json.dumps({"rule_files": [str(FOLDER / "alerts.yaml")], "evaluation_interval": "1m", "tests": [test]})
    )
    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "test.yaml"))


def test_every_alert_is_tried() -> None:
    assert {alert for _, expected in SERIES.values() for alerts in expected.values() for alert in alerts} == {
        rule["alert"] for rule in rules()
    }


def test_panels_do_not_overlap() -> None:
    cells = [
        (panel["gridPos"]["x"] + dx, panel["gridPos"]["y"] + dy)
        for panel in dashboard()["panels"]
        for dx in range(panel["gridPos"]["w"])
        for dy in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])


def test_alerts_say_what_to_do_and_the_page_lists_them() -> None:
    page = PAGE.read_text()
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "action"}
        assert f"`{rule['alert']}`" in page
    for name in GAUGES:
        assert f"`ray_{name}`" in page
