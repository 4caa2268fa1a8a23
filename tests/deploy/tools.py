"""The programs that check what is in deploy/, from PyPI (the extra `deploy-checks`) or Debian, and what they are run on."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from tests.conftest import Require

DEPLOY = Path(__file__).parents[2] / "deploy"
PATIENCE_S = 900  # an installation on a busy machine
INSTALL = "not installed: pip install '.[deploy-checks]'"


def tool(require: Require, name: str) -> str:
    """The path of *name*, beside this Python or on PATH."""
    beside = Path(sys.executable).with_name(name)
    path = str(beside) if beside.is_file() else shutil.which(name)
    require("deploy", path, f"{name} is {INSTALL}")
    assert path is not None
    return path


def run(*words: str | Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end; its output is told where it fails."""
    return subprocess.run(
        [str(word) for word in words], capture_output=True, encoding="utf-8", check=False, timeout=PATIENCE_S, **options
    )


def passes(*words: str | Path, **options: Any) -> str:
    """What it prints; fail where its exit status is not 0."""
    done = run(*words, **options)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def objects(text: str) -> list[dict[str, Any]]:
    """The Kubernetes objects of a YAML file."""
    return [found for found in yaml.safe_load_all(text) if found]


def check_schema(found: list[dict[str, Any]], require: Require) -> None:
    """Kubernetes' own schemas, strictly: a field that they do not have is a mistake."""
    try:
        import kubernetes_validate  # noqa: PLC0415
    except ImportError:
        require("deploy", False, f"kubernetes-validate is {INSTALL}")
    for one in found:
        if one["apiVersion"].startswith(("monitoring.coreos.com/", "sparkoperator.k8s.io/")):
            continue  # custom resources
        kubernetes_validate.validate(one, "1.36", strict=True)


def check_config(text: str, folder: Path) -> str:
    """What `kproxy check` says of a configuration; fail where it has mistakes."""
    path = folder / "kproxy.yaml"
    path.write_text(text, encoding="utf-8")
    return passes(sys.executable, "-m", "kproxy", "check", path, cwd=Path(__file__).parents[2])


def check_restricted(pod: dict[str, Any], container: dict[str, Any]) -> None:
    """The Pod Security Standard "restricted", and a read-only root file system."""
    context = {**pod.get("securityContext", {}), **container["securityContext"]}
    assert context["runAsNonRoot"] is True
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def custom_resource(
    require: Require, folder: Path, module: str, file: str, version: str
) -> jsonschema.Draft202012Validator:
    """A strict validator of a custom resource, by the definition in its operator's own Go module.

    *folder*: for the module; *module*: with its version; *file*: the definition in it; *version*: of the resource, as "v1".
    """
    go = shutil.which("go")
    require("deploy", go, "go is not installed")
    environment = {**os.environ, "GOFLAGS": "-mod=mod -modcacherw", "GOMODCACHE": str(folder / "modules")}
    fetched = passes(str(go), "mod", "download", "-json", module, env=environment, cwd=folder)
    definition = yaml.load((Path(json.loads(fetched)["Dir"]) / file).read_bytes(), yaml.CSafeLoader)
    (found,) = (each for each in definition["spec"]["versions"] if each["name"] == version)
    return jsonschema.Draft202012Validator(strict(found["schema"]["openAPIV3Schema"]))


def strict(schema: Any) -> Any:
    """A custom resource's schema that refuses fields it does not have, which the API server would drop without a word."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: strict(each) for name, each in schema.items()}
    open_ = {"additionalProperties", "x-kubernetes-preserve-unknown-fields"} & schema.keys()
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict) and not open_:
        inner["additionalProperties"] = False
    return inner
