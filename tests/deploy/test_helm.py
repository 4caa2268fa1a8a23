"""The chart: helm's own checks, Kubernetes' schemas of what it makes, and kproxy's of the configuration in it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kproxy import __version__
from tests.conftest import Require
from tests.deploy.tools import (
    DEPLOY,
    check_config,
    check_restricted,
    check_schema,
    custom_resource,
    objects,
    passes,
    run,
    tool,
)

CHART = DEPLOY / "helm" / "kproxy"
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.76.0"
SCHEMA = "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"
ALL = """
replicas: 3
clusters:
- {name: orders, port: 19092, bootstrap: ["kafka-0.kafka:9092", "kafka-1.kafka:9092"], nodeIds: [1, 2, 3]}
- name: payments
  port: 20000
  bootstrap: [payments:9093]
  nodeIds: [100, 101]
  advertise: kafka.example.com
  extra:
    broker_tls: {verify: true}
    filters: [{use: audit, with: {file: {path: /var/log/kproxy/audit.jsonl}}}]
config: {workers: 2, limits: {connections: 500}}
log: {size: 2Gi, partSize: 64MiB, keep: 4}
secrets: [kafka-ca]
networkPolicy: {clients: [{namespaceSelector: {}}], monitoring: [{podSelector: {matchLabels: {app: prometheus}}}]}
podMonitor: {enabled: true, labels: {release: prometheus}}
podAnnotations: {a: b}
podLabels: {team: x}
imagePullSecrets: [{name: registry}]
nodeSelector: {kubernetes.io/arch: amd64}
tolerations: [{key: kafka, operator: Exists}]
"""


class Made:
    """What `helm template` makes of values."""

    def __init__(self, text: str) -> None:
        self.found = objects(text)

    def __getitem__(self, kind: str) -> dict[str, Any]:
        [one] = [one for one in self.found if one["kind"] == kind]
        return one

    @property
    def pod(self) -> dict[str, Any]:
        found: dict[str, Any] = self["Deployment"]["spec"]["template"]["spec"]
        return found


@pytest.fixture(params=["", ALL], ids=["defaults", "everything"])
def made(request: pytest.FixtureRequest, require: Require, tmp_path: Path) -> Made:
    values = tmp_path / "values.yaml"
    values.write_text(request.param, encoding="utf-8")
    return Made(passes(tool(require, "helm"), "template", "my", CHART, "--namespace", "kafka", "--values", values))


def test_helm_finds_no_mistake(require: Require) -> None:
    assert "0 chart(s) failed" in passes(tool(require, "helm"), "lint", "--strict", CHART)


def test_kubernetes_would_take_what_it_makes(require: Require, made: Made) -> None:
    check_schema(made.found, require)


def test_kproxy_would_take_the_configuration(made: Made, tmp_path: Path) -> None:
    text = made["Secret"]["stringData"]["kproxy.yaml"]
    assert "no mistakes" in check_config(text.replace("/var/log/kproxy/", f"{tmp_path}/"), tmp_path)
    served = {port["port"] for port in made["Service"]["spec"]["ports"]}
    config = yaml.safe_load(text)
    for cluster in config["clusters"]:
        base = int(cluster["listen"].removeprefix(":"))
        assert {base, *(base + 1 + node for node in cluster["addresses"]["node_ids"])} <= served
    assert config["clusters"][0]["addresses"]["advertise"] == "my-kproxy.kafka.svc"


def test_the_pod_has_no_rights(made: Made) -> None:
    [container] = made.pod["containers"]
    check_restricted(made.pod, container)
    assert made.pod["automountServiceAccountToken"] is False
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    for one in made["Service"]["spec"]["ports"]:
        assert named[one["targetPort"]] == one["port"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in made.pod["volumes"]}


def test_the_image_is_that_of_this_version(require: Require) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replica": 3}, "additional property replica is not allowed"),
        ({"clusters": []}, "clusters: array must have at least 1"),
        ({"clusters": [{"name": "a", "port": 1, "bootstrap": ["kafka"], "nodeIds": [0]}]}, "clusters.0.bootstrap.0"),
        (
            {
                "clusters": [
                    {"name": "a", "port": 19092, "bootstrap": ["a:1"], "nodeIds": [0, 1]},
                    {"name": "b", "port": 19094, "bootstrap": ["b:1"], "nodeIds": [0]},
                ]
            },
            "clusters[1]: port 19094 is that of clusters[0] already",
        ),
        ({"clusters": [{"name": "a", "port": 65000, "bootstrap": ["a:1"], "nodeIds": [999]}]}, "above 65535"),
    ],
    ids=["unknown", "none", "no port", "ports taken twice", "ports too high"],
)
def test_values_that_cannot_work_are_refused(
    require: Require, tmp_path: Path, values: dict[str, Any], said: str
) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    done = run(tool(require, "helm"), "template", "my", CHART, "--values", path)
    assert done.returncode != 0
    assert said.lower() in done.stderr.lower()


@pytest.mark.long
@pytest.mark.parametrize("made", [ALL], ids=["everything"], indirect=True)
def test_the_operator_of_prometheus_would_take_the_pod_monitor(require: Require, made: Made, tmp_path: Path) -> None:
    """By the schema in the operator's own Go module; the port is one that the pod names."""
    validator = custom_resource(require, tmp_path, OPERATOR, SCHEMA, "v1")
    found = made["PodMonitor"]
    assert found["apiVersion"] == "monitoring.coreos.com/v1"
    assert [error.message for error in validator.iter_errors(found)] == []
    [endpoint] = found["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in {port["name"] for port in made.pod["containers"][0]["ports"]}
    labels = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["spec"]["selector"]["matchLabels"].items() <= labels.items()
    endpoint["intervall"] = "30s"
    assert [error.json_path for error in validator.iter_errors(found)] == ["$.spec.podMetricsEndpoints[0]"]
