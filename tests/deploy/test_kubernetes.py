"""The manifests: Kubernetes' own schemas, the configuration inside, and the redirection in a network namespace."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import Require
from tests.deploy.tools import DEPLOY, check_config, check_restricted, check_schema, objects
from tests.support import namespaces
from tests.support.redirected import RESPONSE

FOLDER = DEPLOY / "kubernetes"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
ROOT = DEPLOY.parent
KPROXY_USER = 65532


def pods(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["spec"]["template"]["spec"] for one in found if one["kind"] == "Deployment"]


def sidecar(pod: dict[str, Any]) -> dict[str, Any]:
    [found] = [one for one in pod["initContainers"] if one["name"] == "kproxy"]
    return found


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_kubernetes_would_take_it(require: Require, manifest: Path) -> None:
    found = objects(manifest.read_text(encoding="utf-8"))
    assert {one["kind"] for one in found} == {"ConfigMap", "Deployment"}
    check_schema(found, require)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_kproxy_would_take_the_configuration(manifest: Path, tmp_path: Path) -> None:
    [config] = [one for one in objects(manifest.read_text(encoding="utf-8")) if one["kind"] == "ConfigMap"]
    assert "no mistakes" in check_config(config["data"]["kproxy.yaml"], tmp_path)
    assert yaml.safe_load(config["data"]["kproxy.yaml"])["outlive"]  # see chaos/test_lifecycle.py


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_kproxy_is_a_sidecar_without_rights(manifest: Path) -> None:
    [pod] = pods(objects(manifest.read_text(encoding="utf-8")))
    container = sidecar(pod)
    assert container["startupProbe"]["httpGet"]["path"] == ("/readyz" if manifest.stem == "sidecar" else "/healthz")
    assert container["restartPolicy"] == "Always"  # KEP-753: starts before the application, is stopped after it
    check_restricted(pod, container)
    assert container["securityContext"]["runAsUser"] == KPROXY_USER


def test_the_redirection_brings_all_but_kproxy_to_kproxy(require: Require, tmp_path: Path) -> None:
    """The script of the init container with the manifest's arguments, in a network namespace for the pod's."""
    require("netns", namespaces.can_make_networks(), "network namespaces with NAT cannot be made here")
    [pod] = pods(objects((FOLDER / "transparent.yaml").read_text(encoding="utf-8")))
    [redirect] = [one for one in pod["initContainers"] if one["name"] == "redirect"]
    [config] = [one for one in objects((FOLDER / "transparent.yaml").read_text("utf-8")) if one["kind"] == "ConfigMap"]
    arguments = ["0" if word == str(KPROXY_USER) else word for word in redirect["args"]]  # here kproxy is root's
    assert arguments != redirect["args"]
    (tmp_path / "kproxy.yaml").write_text(config["data"]["kproxy.yaml"], encoding="utf-8")
    script = [DEPLOY / "docker" / "redirect.sh", *arguments]
    with namespaces.namespace("kproxy-pod", ["sh", *map(str, script)], ["sh", *map(str, script)]) as inside:
        words = [*inside, sys.executable, "-m", "tests.support.redirected", str(tmp_path / "kproxy.yaml")]
        words += [namespaces.BROKER, namespaces.CLIENT, "1000"]
        run = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", check=False, timeout=60)
        assert run.returncode == 0, run.stderr
        rules = subprocess.run([*inside, "iptables", "-t", "nat", "-S"], capture_output=True, text=True, check=True)
    result = json.loads(run.stdout)
    assert bytes.fromhex(result["answer"]) == RESPONSE
    assert (result["connections"], result["exit"]) == (1, 0)
    assert rules.stdout.count("-A OUTPUT") == 1  # run twice, as when the pod's container is restarted


def test_the_redirection_says_what_is_wrong() -> None:
    script = DEPLOY / "docker" / "redirect.sh"
    done = subprocess.run(["sh", script, "--port", "1"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "redirect: unknown option --port; known: --ports --to --uid\n")
    done = subprocess.run(["sh", script, "--ports"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "redirect: --ports needs a value\n")
