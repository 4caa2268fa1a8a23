"""Pages in a headless Chromium: what it makes of them."""

import shutil
import subprocess
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE = 120  # seconds: a start on a busy machine


def found() -> str | None:
    """The program; None where there is none."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def dom(page: Path, *options: str) -> str:
    """The document after it was loaded and had time to run what it can."""
    return _run(page, "--dump-dom", "--virtual-time-budget=2000", *options).stdout.decode()


def _run(page: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    program = found()
    assert program is not None
    profile = page.parent / "profile"
    command = [
        program,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        f"--user-data-dir={profile}",
        *options,
    ]
    return subprocess.run([*command, page.as_uri()], capture_output=True, check=True, timeout=_PATIENCE)
