"""Networks, host names and small disks for one test: namespaces and mounts that nothing else on the machine sees. Root only."""

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

PROGRAMS = ("ip", "iptables", "ip6tables")
CLIENT, BROKER, CLIENT_6, BROKER_6 = "10.98.0.1", "10.99.0.2", "fd98::1", "fd99::2"


def can_make_networks() -> bool:
    """May namespaces with NAT be made here? Needs root, iproute2 and iptables."""
    if os.geteuid() != 0 or not all(shutil.which(program) for program in PROGRAMS):
        return False
    with contextlib.suppress(subprocess.CalledProcessError), namespace("kproxy-probe") as inside:
        subprocess.run([*inside, "iptables", "-t", "nat", "-L"], check=True, capture_output=True)
        return True
    return False


@contextlib.contextmanager
def namespace(name: str, *rules: Sequence[str]) -> Iterator[list[str]]:
    """A namespace with loopback and four addresses on it; *rules* are words for iptables or ip6tables.

    Gives the words that run a program inside.
    """
    name = f"{name}-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True, capture_output=True)
    inside = ["ip", "netns", "exec", name]
    try:
        for words in (
            ["ip", "link", "set", "lo", "up"],
            *(["ip", "address", "add", address, "dev", "lo"] for address in (CLIENT, BROKER)),
            *(["ip", "-6", "address", "add", address, "dev", "lo", "nodad"] for address in (CLIENT_6, BROKER_6)),
            *rules,
        ):
            subprocess.run([*inside, *words], check=True, capture_output=True)
        yield inside
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True, capture_output=True)


_BIND = 'mount --make-rprivate / && mount --bind "$1" /etc/hosts && shift && exec "$@"'


@cache
def can_name_hosts() -> bool:
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


@cache
def can_mount() -> bool:
    """May file systems be mounted here? Needs root, and a container that allows it."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        return False
    words = ["unshare", "--mount", "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def small_disk(folder: Path, size: int, inodes: int = 0) -> Iterator[Path]:
    """A tmpfs of *size* bytes at *folder*, with at most so many files if *inodes* is not 0."""
    folder.mkdir()
    options = f"size={size},nr_inodes={inodes}" if inodes else f"size={size}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all room that is left, by a file that is returned: remove it to have room again."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for block in (65_536, 4_096, 1):
            try:
                while True:
                    file.write(b"x" * block)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return filler


def fill_inodes(folder: Path) -> list[Path]:
    """Make empty files until no more can be made; remove one to have room again."""
    made: list[Path] = []
    while True:
        filler = folder / f"filler-{len(made)}"
        try:
            filler.touch()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return made
        made.append(filler)
