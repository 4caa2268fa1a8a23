"""The compose file: what it mounts is there, and that kproxy and Prometheus take their configurations."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Require
from tests.deploy.tools import DEPLOY, check_config, passes, tool

FOLDER = DEPLOY / "compose"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    return found


def test_what_it_mounts_and_builds_is_there(compose: dict[str, Any]) -> None:
    mounted = {
        volume.split(":")[0] for service in compose["services"].values() for volume in service.get("volumes", [])
    }
    assert {name for name in mounted if not (FOLDER / name).exists()} == set()
    build = compose["services"]["kproxy"]["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).is_file()


def test_compose_would_take_it(require: Require) -> None:
    schema = ["--builtin-schema", "vendor.compose-spec"]
    passes(tool(require, "check-jsonschema"), *schema, FOLDER / "compose.yaml")


def test_the_workload_goes_through_kproxy(compose: dict[str, Any], tmp_path: Path) -> None:
    config = yaml.safe_load((FOLDER / "kproxy.yaml").read_text(encoding="utf-8"))
    [cluster] = config["clusters"]
    port = cluster["listen"].rsplit(":", 1)[1]
    for name in ("producer", "consumer"):
        assert f"kproxy:{port}" in str(compose["services"][name]["command"])
    assert "no mistakes" in check_config((FOLDER / "kproxy.yaml").read_text(encoding="utf-8"), tmp_path)
    first, last = (int(number) for number in compose["services"]["kproxy"]["ports"][1].split(":")[-1].split("-"))
    assert all(first <= int(port) + 1 + node <= last for node in cluster["addresses"]["node_ids"])


def test_prometheus_would_take_its_configuration(require: Require, tmp_path: Path) -> None:
    text = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")
    (tmp_path / "rules").mkdir()
    (tmp_path / "prometheus.yml").write_text(text, encoding="utf-8")
    passes(tool(require, "promtool"), "check", "config", tmp_path / "prometheus.yml")
