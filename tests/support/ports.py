"""Ports for the listeners of the tests.

A port that is free now may be taken a moment later, and `kproxy run` shares its port with any process that asks for it
(SO_REUSEPORT): two tests on one port would serve each other's clients. So every test process reserves a block of ports
for as long as it lives, by the name of an abstract socket, and hands out each port of it once before any comes again.
All blocks lie below the ports that the kernel gives to outgoing connections.
"""

import contextlib
import os
import socket
from functools import cache

_FIRST, _LAST, _BLOCK = 12_000, 32_000, 500
_ADDRESSES = ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"))


class _Block:
    """The ports of this process."""

    def __init__(self) -> None:
        self._name, self.first = _reserve()
        self._next = self.first

    def take(self, count: int) -> int:
        """The first of *count* ports in a row, after those taken last; from the start again when the block ends."""
        if self._next + count > self.first + _BLOCK:
            self._next = self.first
        taken = self._next
        self._next += count
        return taken


def _reserve() -> tuple[socket.socket, int]:
    """A bound abstract socket and the first port of the block that it stands for; the kernel unbinds it when we end."""
    for first in range(_FIRST, _LAST, _BLOCK):
        name = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            name.bind(f"\0kproxy-test-ports-{first}")
            return name, first
        name.close()
    raise RuntimeError("every block of ports belongs to another test process")


@cache
def _block_of(_pid: int) -> _Block:
    return _Block()


def free_ports(count: int = 1) -> int:
    """The first of *count* ports in a row on which nothing listens, at any address of this machine."""
    block = _block_of(os.getpid())
    for _ in range(_BLOCK):
        first = block.take(count)
        if all(map(_is_free, range(first, first + count))):
            return first
    raise RuntimeError(f"no {count} free ports in a row")


def _is_free(port: int) -> bool:
    return all(_binds(family, host, port) for family, host in _families())


@cache
def _families() -> list[tuple[socket.AddressFamily, str]]:
    return [(family, host) for family, host in _ADDRESSES if _binds(family, host, 0)]


def _binds(family: socket.AddressFamily, host: str, port: int) -> bool:
    with socket.socket(family) as one, contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        one.bind((host, port))
        return True
    return False
