"""The unit for systemd: what `systemd-analyze` says of it."""

import re
import sys
from pathlib import Path

from tests.conftest import Require
from tests.deploy.tools import DEPLOY, passes, tool

UNIT = DEPLOY / "systemd" / "kproxy.service"
MOST_EXPOSURE = 2.0  # of 10; systemd's own services have 2 to 9


def test_the_unit_has_no_mistakes(require: Require, tmp_path: Path) -> None:
    analyze = tool(require, "systemd-analyze")
    installed = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8")
    assert text.count("/opt/kproxy/bin/kproxy") == 3
    installed.write_text(text.replace("/opt/kproxy/bin/kproxy", sys.executable), encoding="utf-8")
    assert passes(analyze, "verify", "--man=no", installed) == ""


def test_little_is_left_open(require: Require) -> None:
    analyze = tool(require, "systemd-analyze")
    said = passes(analyze, "security", "--offline=true", "--no-pager", UNIT)
    [exposure] = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", said)
    assert float(exposure) <= MOST_EXPOSURE
