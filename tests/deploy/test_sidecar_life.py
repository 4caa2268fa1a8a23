"""A pod's life with real processes: kproxy starts first and ends last, and no record is lost however SIGTERM comes."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.tools import DEPLOY, objects
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.proxies import ROOT, Proxy, cluster
from tests.support.sockets import end_offsets

PATIENCE_S = 90


def manifest() -> tuple[dict[str, Any], dict[str, Any]]:
    """The configuration and the container of deploy/kubernetes/sidecar.yaml."""
    found = objects((DEPLOY / "kubernetes" / "sidecar.yaml").read_text(encoding="utf-8"))
    [config] = [one for one in found if one["kind"] == "ConfigMap"]
    [pod] = [one["spec"]["template"]["spec"] for one in found if one["kind"] == "Deployment"]
    return yaml.safe_load(config["data"]["kproxy.yaml"]), pod["initContainers"][0]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["the application first", "both at once"])
def test_no_record_is_lost(single: Cluster, tmp_path: Path, topic_name: str, order: str) -> None:
    """*the application first*: native sidecars (KEP-753). *both at once*: containers of one pod before Kubernetes 1.29."""
    config, container = manifest()
    assert container["startupProbe"]["httpGet"]["path"] == "/readyz"
    topic = single.topic(topic_name)
    settings = {name: value for name, value in config.items() if name not in ("admin", "clusters")}
    proxy = Proxy(tmp_path / "kproxy", [cluster(single.bootstrap())], **settings)
    proxy.start()  # until /readyz: the startup probe, before which the application is not started
    words = [sys.executable, "-m", "tests.deploy.application", proxy.bootstrap(), topic]
    try:
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as application:
            assert application.stdout is not None
            assert application.stdout.readline() == "running\n"
            if order == "both at once":
                proxy.process.send_signal(signal.SIGTERM)
            application.send_signal(signal.SIGTERM)
            result = json.loads(application.stdout.readline())
            assert application.wait(PATIENCE_S) == 0
        if order == "the application first":
            assert proxy.running
            proxy.process.send_signal(signal.SIGTERM)
        assert proxy.process.wait(PATIENCE_S) == 0
    finally:
        proxy.close()
    assert result["failed"] == 0
    assert end_offsets(single.open, topic) == {0: result["acknowledged"]}
