"""haproxy as a referee: started in the foreground with a configuration, ended when the test is done with it."""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAM = shutil.which("haproxy") or next(iter(map(str, Path("/usr/sbin").glob("haproxy"))), None)
PATIENCE_S = 10
DEFAULTS = "defaults\n timeout connect 5s\n timeout client 10s\n timeout server 10s\n"


@contextlib.contextmanager
def haproxy(folder: Path, configuration: str, port: int, host: str = "127.0.0.1") -> Iterator[None]:
    """Run haproxy until the block ends; it accepts on *port* when the block begins."""
    assert PROGRAM is not None
    path = folder / "haproxy.cfg"
    path.write_text(DEFAULTS + configuration, encoding="utf-8")
    process = subprocess.Popen([PROGRAM, "-db", "-q", "-f", str(path)])
    try:
        _wait_for(process, host, port)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _wait_for(process: "subprocess.Popen[bytes]", host: str, port: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        assert process.poll() is None, "haproxy ended at once"
        with contextlib.suppress(OSError), socket.create_connection((host, port)):
            return
        time.sleep(0.01)
    raise AssertionError(f"haproxy does not accept on port {port}")
