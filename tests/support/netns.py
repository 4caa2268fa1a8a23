"""A network namespace of its own for a test: addresses, redirection by netfilter, nothing that reaches the machine."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

PROGRAMS = ("ip", "iptables", "ip6tables")
CLIENT, BROKER, CLIENT_6, BROKER_6 = "10.98.0.1", "10.99.0.2", "fd98::1", "fd99::2"


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
