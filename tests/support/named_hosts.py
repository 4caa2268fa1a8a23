"""Host names for processes of a test: an /etc/hosts of their own, in a mount namespace that nothing else sees."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_BIND = 'mount --make-rprivate / && mount --bind "$1" /etc/hosts && shift && exec "$@"'


@cache
def available() -> bool:
    """May mount namespaces be made here? Needs root and util-linux."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return False
    with contextlib.suppress(subprocess.CalledProcessError):
        subprocess.run([*with_hosts(Path("/etc/hosts")), "true"], check=True, capture_output=True)
        return True
    return False


def with_hosts(file: Path) -> list[str]:
    """The words that run a program with *file* as /etc/hosts."""
    return ["unshare", "--mount", "sh", "-c", _BIND, "sh", str(file)]


def write_hosts(file: Path, addresses: Mapping[str, str]) -> Path:
    """Write *file*: each name with its address, beside localhost."""
    lines = [f"{address} {name}\n" for name, address in {"localhost": "127.0.0.1", **addresses}.items()]
    file.write_text("".join(lines), encoding="ascii")
    return file
