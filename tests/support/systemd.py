"""The unit of deploy/ under a systemd of its own: process 1 of new namespaces, which sees a file system made for the test.

The network is shared with the test, so that it can be a client and a broker. Process 1 has a control group of its own, and sees
no other. This Python and kproxy are brought to /opt, as ProtectHome= and PrivateTmp= hide where they may be.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.kafka.processes import eventually

ROOT = Path(__file__).parents[2]
MANAGER = Path("/lib/systemd/systemd")
GROUPS = Path("/sys/fs/cgroup")
LOG = "/run/kproxy.log"  # what kproxy says, as process 1 sees it
NEEDED = ("unshare", "nsenter", "mount", "systemctl")
PATIENCE_S = 60

NAMESPACES = r"""
set -eu
stage=$1; python=$2; packages=$3; source=$4
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/python /mnt/packages /mnt/source /mnt/stage
mount --bind "$python" /mnt/python
mount --bind "$packages" /mnt/packages
mount --bind "$source" /mnt/source
mount --bind "$stage" /mnt/stage
cp -a /etc /mnt/etc && mount --bind /mnt/etc /etc
for hidden in /tmp /opt /var /run; do mount -t tmpfs -o mode=755 tmpfs $hidden; done
chmod 1777 /tmp
mkdir -p /var/tmp /var/log /var/lib /run/lock /run/systemd/system /etc/kproxy
mkdir -p /opt/python /opt/packages /opt/source /opt/kproxy/bin
mount --move /mnt/python /opt/python
mount --move /mnt/packages /opt/packages
mount --move /mnt/source /opt/source
cp /mnt/stage/kproxy /opt/kproxy/bin/ && chmod 755 /opt/kproxy/bin/kproxy
cp /mnt/stage/kproxy.yaml /etc/kproxy/ && chmod 644 /etc/kproxy/kproxy.yaml
cp /mnt/stage/kproxy.service /mnt/stage/only.target /run/systemd/system/
mount -t proc proc /proc
if [ -d /sys/fs/cgroup/systemd ]; then
  mount -t tmpfs tmpfs /sys/fs/cgroup
  mkdir /sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd,xattr cgroup /sys/fs/cgroup/systemd
else
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
exec env -i container=kproxy-test PATH="$PATH" /lib/systemd/systemd --system --unit=only.target --show-status=no
"""
TARGET = """
[Unit]
Description=kproxy and nothing else
Wants=kproxy.service
After=kproxy.service
"""
PROGRAM = """#!/bin/sh
export LD_LIBRARY_PATH=/opt/python/lib PYTHONPATH=/opt/source:/opt/packages PYTHONDONTWRITEBYTECODE=1
exec /opt/python/bin/{name} -m kproxy "$@"
"""


def available() -> bool:
    """Whether this is root on a machine with systemd and a place for control groups."""
    tools = all(shutil.which(name) for name in NEEDED)
    return os.geteuid() == 0 and MANAGER.exists() and tools and os.access(_groups(), os.W_OK)


class Manager:
    """A running systemd."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def ask(self, *words: str) -> str:
        """Run systemctl; its output. It has to succeed."""
        inside = ["nsenter", "--target", str(self._first()), "--mount", "--pid", "systemctl", *words]
        done = subprocess.run(inside, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{self.read(LOG)}"
        return done.stdout

    def read(self, path: str) -> str:
        """Read a file as process 1 sees it."""
        return Path(f"/proc/{self._first()}/root{path}").read_text(encoding="utf-8")

    def _first(self) -> int:
        """Process 1 of the namespaces, by the number that it has here: the child of unshare."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text("ascii").split()
        return int(children[0])


@contextmanager
def started(unit: str, config: str, folder: Path) -> Iterator[Manager]:
    """A systemd that starts *unit* with the configuration *config*. *folder*: for its files, the test's own."""
    apart = "\n".join(line for line in unit.splitlines() if not line.startswith(("After=", "Wants=")))
    alone = apart.replace("[Unit]", "[Unit]\nDefaultDependencies=no")  # no other unit of this machine
    alone = alone.replace(
        "[Service]", f"[Service]\nStandardOutput=append:{LOG}\nStandardError=append:{LOG}"
    )  # no journal
    base = Path(sys.base_prefix)
    files = {
        "kproxy.service": alone,
        "only.target": TARGET,
        "kproxy.yaml": config,
        "kproxy": PROGRAM.format(name=f"python{sys.version_info.major}.{sys.version_info.minor}"),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    group = _groups() / f"kproxy-test-{os.getpid()}"
    group.mkdir()
    script = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    words = [
        "sh",
        "-c",
        script,
        "sh",
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount",
        "--uts",
        "--ipc",
        "--cgroup",
    ]
    words += ["sh", "-c", NAMESPACES, "sh", str(folder), str(base), packages, str(ROOT)]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    try:
        yield Manager(process)
    finally:
        process.kill()  # and with it, by --kill-child, all processes of the namespaces
        process.wait()
        eventually(lambda: _removed(group), what=f"the control group {group} is empty")


def _groups() -> Path:
    """Where control groups are made that only say which processes belong together."""
    named = GROUPS / "systemd"  # beside controllers of version 1
    return named if named.is_dir() else GROUPS


def _removed(group: Path) -> bool:
    try:
        for path in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
            path.rmdir()
        group.rmdir()
    except OSError:  # its last process has not ended yet
        return False
    return True
