"""The tests of the page's views, details, keys and exports in Firefox.

Its driver is a crate: ``cargo install geckodriver`` (or KPROXY_BROWSER=firefox by hand, as in driving.py).
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.xdist_group("page-browser"), pytest.mark.long]
HERE = Path(__file__).parent
FILES = (
    "test_exchanges.py",
    "test_bytes.py",
    "test_keyboard.py",
    "test_views.py",
    "test_filters.py",
    "test_another_site.py",
)


@pytest.mark.timeout(2400)
def test_the_page_is_the_same_in_firefox(require: Callable[[str, object, str], None]) -> None:
    found = shutil.which("firefox") and shutil.which("geckodriver")
    require("firefox", found, "no firefox with geckodriver (cargo install geckodriver)")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not long", *FILES]
    environment = os.environ | {"KPROXY_BROWSER": "firefox", "KPROXY_REQUIRE": "chromium"}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    done = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4_000:]
    assert " skipped" not in done.stdout.splitlines()[-1], done.stdout[-500:]
