"""The jobs on a cluster: the operator's manifest by its own schema, and its command by kproxy-spark's own parser."""

from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from kproxy import __version__
from kproxy.cli.spark import kproxy_spark
from tests.conftest import Require
from tests.deploy.tools import DEPLOY, custom_resource, passes, tool

FOLDER = DEPLOY / "spark"
OPERATOR = "github.com/kubeflow/spark-operator/v2@v2.3.0"
SCHEMA = "config/crd/bases/sparkoperator.k8s.io_scheduledsparkapplications.yaml"


def manifest() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / "operator.yaml").read_text(encoding="utf-8"))
    return loaded


def test_the_dockerfile_has_no_mistakes(require: Require) -> None:
    assert passes(tool(require, "hadolint"), FOLDER / "Dockerfile") == ""


def test_manifest_and_image_agree() -> None:
    job, image = manifest()["spec"]["template"], (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    assert job["image"] == f"kproxy-spark:{__version__}"
    assert f"ARG SPARK={job['sparkVersion']}" in image
    assert f"COPY deploy/spark/job.py {job['mainApplicationFile'].removeprefix('local://')}" in image
    user = {job[side]["securityContext"]["runAsUser"] for side in ("driver", "executor")}
    assert f"USER {user.pop()}:185" in image
    assert not user


def test_the_job_is_a_command_of_ours_on_what_is_mounted() -> None:
    job = manifest()["spec"]["template"]
    name, *words = job["arguments"]
    command = kproxy_spark.commands[name]
    given = command.make_context(name, words, parent=click.Context(kproxy_spark)).params
    mounted = job["driver"]["volumeMounts"]
    assert job["executor"]["volumeMounts"] == mounted
    for path in (given["output"], *given["inputs"]):
        assert path.startswith(f"{mounted[0]['mountPath']}/")


@pytest.mark.long
def test_the_operator_would_take_it(require: Require, tmp_path: Path) -> None:
    """By the schema in the operator's own Go module; a misspelt field is refused."""
    validator = custom_resource(require, tmp_path, OPERATOR, SCHEMA, "v1beta2")
    found = manifest()
    assert (found["kind"], found["apiVersion"]) == ("ScheduledSparkApplication", "sparkoperator.k8s.io/v1beta2")
    assert [error.message for error in validator.iter_errors(found)] == []
    found["spec"]["template"]["executor"]["instanses"] = 2
    assert [error.json_path for error in validator.iter_errors(found)] == ["$.spec.template.executor"]
