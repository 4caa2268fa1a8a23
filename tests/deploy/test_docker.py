"""The image: its file by hadolint, its scripts by shellcheck, what it is made of, and its steps without Docker."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.conftest import Require
from tests.deploy.tools import DEPLOY, passes, tool

DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
ROOT = DEPLOY.parent
NOBODY = "65532"
(DEFAULT_EXTRAS,) = re.findall(r"^ARG EXTRAS=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
WITH_TRACES = """
clusters: [{listen: ':19092', bootstrap: ['kafka:9092']}]
traces: {otlp: 'http://collector:4317', protocol: grpc}
"""


def test_the_dockerfile_has_no_mistakes(require: Require) -> None:
    assert passes(tool(require, "hadolint"), DOCKERFILE) == ""


def test_the_script_has_no_mistakes(require: Require) -> None:
    assert passes(tool(require, "shellcheck"), DEPLOY / "docker" / "redirect.sh") == ""


def test_all_that_is_copied_is_there_and_not_ignored() -> None:
    ignored = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    copied = {
        name
        for words in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
        for name in words.split()
    }
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_the_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text(encoding="utf-8"))
    asked = {DEFAULT_EXTRAS, compose["services"]["kproxy"]["build"]["args"]["EXTRAS"]}
    assert {extra for each in asked for extra in each.split(",")} <= set(project["optional-dependencies"])


@pytest.mark.long
def test_the_steps_of_the_image_without_docker(require: Require, sources: Path, tmp_path: Path) -> None:
    """Wheels, then an environment without pip and compiler; then the demo as a user without rights on a read-only tree.

    With the extras of the image, and that of the demo.
    """
    require("netns", os.geteuid() == 0 and shutil.which("unshare") and shutil.which("setpriv"), "needs root")
    wheels, image = tmp_path / "wheels", tmp_path / "image"
    what = f"[{DEFAULT_EXTRAS},demo]"
    pip = [sys.executable, "-m", "pip"]
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run([*pip, "wheel", "-q", "--wheel-dir", wheels, f"{sources}{what}"], check=True, env=clean, timeout=900)
    passes(sys.executable, "-m", "venv", "--without-pip", image)
    alone = ["--no-index", "--find-links", str(wheels), f"kproxy-kafka{what}"]
    passes(*pip, "--python", image / "bin" / "python", "install", "-q", *alone, env=clean)
    assert not list(image.rglob("pip"))
    (tmp_path / "kproxy.yaml").write_text(WITH_TRACES, encoding="utf-8")
    assert "no mistakes" in passes(image / "bin" / "kproxy", "check", tmp_path / "kproxy.yaml", env=clean)
    written = tmp_path / "written"
    written.mkdir()
    script = (
        f"{passable_python(tmp_path / 'python')}mount -t tmpfs -o mode=1777 tmpfs {written} && mount -o remount,bind,ro / && "
        f"exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --no-new-privs "
        f"env -i PATH={image}/bin TMPDIR={written} NO_PROXY='*' {image}/bin/kproxy demo --seconds 3"
    )
    open_to_all(tmp_path)
    said = passes("unshare", "--mount", "--propagation", "private", "sh", "-c", script, cwd="/")
    assert re.search(r" Produce v\d+ ", said)


def open_to_all(folder: Path) -> None:
    """Let any user pass through the folders above, which pytest makes for their owner alone."""
    for above in (folder, *folder.parents):
        if above.stat().st_uid == os.geteuid() and above.stat().st_mode & 0o005 != 0o005:
            above.chmod(above.stat().st_mode | 0o055)


def passable_python(beside: Path) -> str:
    """Shell commands for a mount namespace after which any user reaches this Python, also where it is in root's home."""
    base = Path(sys.base_prefix)
    closed = next((above for above in reversed(base.parents) if not above.stat().st_mode & 0o001), None)
    if closed is None:
        return ""
    beside.mkdir()
    return (
        f"mount --bind {base} {beside} && mount -t tmpfs -o mode=755 tmpfs {closed} && mkdir -p {base} && "
        f"mount --bind {beside} {base} && "
    )
