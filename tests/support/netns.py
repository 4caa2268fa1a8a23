"""A network namespace of its own for a test: addresses, redirection by netfilter, nothing that reaches the machine."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

PROGRAMS = ("ip", "iptables", "ip6tables")


def available() -> bool:
    """May namespaces with NAT be made here? Needs root, iproute2 and iptables."""
    if os.geteuid() != 0 or not all(shutil.which(program) for program in PROGRAMS):
        return False
    with contextlib.suppress(subprocess.CalledProcessError), namespace("kproxy-probe") as inside:
        subprocess.run([*inside, "iptables", "-t", "nat", "-L"], check=True, capture_output=True)
        return True
    return False


@contextlib.contextmanager
def namespace(name: str, *rules: Sequence[str]) -> Iterator[list[str]]:
    """A namespace with loopback and 10.99.0.0/24 and fd99::/64 on it; *rules* are words for iptables or ip6tables.

    Gives the words that run a program inside.
    """
    name = f"{name}-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True, capture_output=True)
    inside = ["ip", "netns", "exec", name]
    try:
        for words in (
            ["ip", "link", "set", "lo", "up"],
            ["ip", "address", "add", "10.99.0.1/24", "dev", "lo"],
            ["ip", "address", "add", "10.99.0.2/24", "dev", "lo"],
            ["ip", "-6", "address", "add", "fd99::1/64", "dev", "lo", "nodad"],
            ["ip", "-6", "address", "add", "fd99::2/64", "dev", "lo", "nodad"],
            *rules,
        ):
            subprocess.run([*inside, *words], check=True, capture_output=True)
        yield inside
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True, capture_output=True)
