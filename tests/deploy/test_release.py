"""Versions agree everywhere, and the release script refuses what does not."""

import re
import subprocess
from pathlib import Path

from kproxy import __version__
from tests.conftest import Require
from tests.deploy.tools import DEPLOY, passes, tool

SCRIPT = DEPLOY / "release" / "build"


def test_the_script_has_no_mistakes(require: Require) -> None:
    assert passes(tool(require, "shellcheck"), SCRIPT) == ""


def test_the_newest_change_is_of_this_version() -> None:
    text = (DEPLOY / "release" / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)$", text, re.MULTILINE)[0] == __version__


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.whl").touch()
    done = subprocess.run([SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"release: {tmp_path} is not empty\n")
