"""The image: its file by hadolint, its scripts by shellcheck, what it is made of, and its steps without Docker."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Require
from tests.deploy.tools import DEPLOY, passes, tool

DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
ROOT = DEPLOY.parent
NOBODY = "65532"


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


@pytest.mark.long
def test_the_steps_of_the_image_without_docker(require: Require, tmp_path: Path) -> None:
    """Wheels, then an environment without pip and compiler; then the demo as a user without rights on a read-only tree."""
    require("netns", os.geteuid() == 0 and shutil.which("unshare") and shutil.which("setpriv"), "needs root")
    wheels, image = tmp_path / "wheels", tmp_path / "image"
    tree = tmp_path / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", ".build", "kproxy"):
        source, target = ROOT / name, tree / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.so", "__pycache__", "c"))
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
    pip = [sys.executable, "-m", "pip"]
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run([*pip, "wheel", "-q", "--wheel-dir", wheels, f"{tree}[demo]"], check=True, env=clean, timeout=900)
    passes(sys.executable, "-m", "venv", "--without-pip", image)
    alone = ["--no-index", "--find-links", str(wheels), "kproxy[demo]"]
    passes(*pip, "--python", image / "bin" / "python", "install", "-q", *alone, env=clean)
    assert not list(image.rglob("pip"))
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
