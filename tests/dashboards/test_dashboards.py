"""The dashboards are what their script makes, and they and the rules ask for metrics and labels that there are."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kproxy.output.metric_descriptions import DESCRIPTIONS
from tests.conftest import Require

FOLDER = Path(__file__).parents[2] / "dashboards"
RULES = FOLDER / "rules" / "kproxy.yaml"
PAGES = sorted(FOLDER.glob("*.json"))
METRIC = re.compile(r"(?<![\w:])(kproxy_\w+)(?![\w:])(?:\{([^}]*)\})?")
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",), "info": ("_info",)}
LABELS = {
    one.name + suffix: {
        *one.labels,
        *(("le",) if suffix == "_bucket" else ()),
        *(("version",) if suffix == "_info" else ()),
    }
    for one in DESCRIPTIONS
    for suffix in SUFFIXES[one.kind]
}
OF_THE_SCRAPE = {"job", "instance"}


def expressions() -> Iterator[tuple[str, str]]:
    """All of the dashboards and rules, with where they stand."""
    for path in PAGES:
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            for target in panel.get("targets", []):
                yield f"{path.name}: {panel['title']}", target["expr"]
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            yield rule.get("alert") or rule["record"], rule["expr"]


EXPRESSIONS = list(expressions())


def test_they_are_what_the_script_makes() -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / "make.py", "--check"], capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_metric_and_label_is_there() -> None:
    for where, expression in EXPRESSIONS:
        metrics = METRIC.findall(expression)
        assert metrics or "kproxy_" in expression, where
        for name, selector in metrics:
            assert name in LABELS, f"{where}: {name}"
            labels = set(re.findall(r"(\w+)\s*[=!]", selector))
            assert labels <= LABELS[name] | OF_THE_SCRAPE, f"{where}: {name}{{{selector}}}"


def test_every_grouping_is_by_labels_that_are_there() -> None:
    """A label that the metrics of an expression do not have would silently give one series without it."""
    for where, expression in EXPRESSIONS:
        names = {name for name, _ in METRIC.findall(expression)}
        known = OF_THE_SCRAPE.union(*(LABELS[name] for name in names))
        for group in re.findall(r"\bby \(([^)]*)\)", expression):
            assert set(re.split(r",\s*", group)) <= known, where


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_panels_do_not_overlap(page: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(page.read_text(encoding="utf-8"))["panels"]:
        at: dict[str, Any] = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells


def test_promtool_takes_the_rules_and_their_tests_pass(require: Require, tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    require("promtool", promtool, "promtool is not installed")
    assert promtool is not None
    shutil.copy(RULES, tmp_path)
    shutil.copy(Path(__file__).with_name("alerts.yaml"), tmp_path)
    for words in (["check", "rules", RULES.name], ["test", "rules", "alerts.yaml"]):
        done = subprocess.run([promtool, *words], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_where_it_fires_and_where_it_must_not() -> None:
    alerts = {
        rule["alert"]
        for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    tests = yaml.safe_load(Path(__file__).with_name("alerts.yaml").read_text(encoding="utf-8"))["tests"]
    asked = [(case["alertname"], bool(case["exp_alerts"])) for test in tests for case in test["alert_rule_test"]]
    assert set(asked) == {(name, fires) for name in alerts for fires in (True, False)}
    fired = [alert for test in tests for case in test["alert_rule_test"] for alert in case["exp_alerts"]]
    assert all(set(alert["exp_annotations"]) == {"summary", "description"} for alert in fired)
