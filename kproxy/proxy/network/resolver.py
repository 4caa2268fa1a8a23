"""Resolve host names, and cache the answers. Addresses that failed lately are tried last."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kproxy.errors import UpstreamError
from kproxy.proxy.network.socket_addresses import SocketAddress, numeric_address

Address = tuple[int, SocketAddress]  # family, and what socket.connect takes
Resolve = Callable[[str, int], Awaitable[list[Address]]]

CACHED_S = 30.0  # an answer; Java's default (networkaddress.cache.ttl) without a security manager
FAILURE_CACHED_S = 1.0  # so that a burst of clients is one query
FAILED_S = 10.0  # how long an address that did not answer is tried last
MOST_NAMES = 4_096  # names come from brokers' responses too
MOST_ADDRESSES = 16  # of one name


@dataclass(slots=True)
class _Answer:
    addresses: list[Address]
    until: float
    error: str = ""


async def resolve_by_system(host: str, port: int) -> list[Address]:
    """Resolve with getaddrinfo. Raises OSError, or ValueError for what cannot be a name."""
    loop = asyncio.get_running_loop()
    results = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [(int(family), address) for family, _, _, _, address in results if isinstance(address[0], str)]


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Resolver:
    """A caching resolver for one event loop. At most one query for a name is in flight, however many callers wait for it."""

    def __init__(self, resolve: Resolve = resolve_by_system, now: Callable[[], float] = _loop_time) -> None:
        """*resolve* resolves a name; *now*: seconds of a clock that does not go back."""
        self._resolve = resolve
        self._now = now
        self._answers: dict[tuple[str, int], _Answer] = {}
        self._queries: dict[tuple[str, int], asyncio.Future[_Answer]] = {}
        self._failed: dict[Address, float] = {}

    def known(self, host: str, port: int) -> list[Address]:
        """Return the addresses that are known without waiting, best first; none if the name must be resolved."""
        if number := numeric_address(host, port):
            return [number]
        answer = self._answers.get((host, port))
        if answer is None or answer.until <= self._now():
            return []
        return self._best_first(answer.addresses)

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Resolve; return at least one address, best first: in the system's order (RFC 6724), those that failed lately last.

        If the name cannot be resolved now, an expired answer is used.

        Raises:
            UpstreamError: the name has no address.
        """
        if known := self.known(host, port):
            return known
        answer = self._answers.get((host, port))
        if answer is None or answer.until <= self._now():
            answer = await self._shared(host, port)
        if not answer.addresses:
            raise UpstreamError(f"{host}: {answer.error}")
        return self._best_first(answer.addresses)

    def failed(self, address: Address) -> None:
        """Note that a connect to the address failed: for FAILED_S it is tried last."""
        _drop_oldest(self._failed)
        self._failed[address] = self._now() + FAILED_S

    def reached(self, address: Address) -> None:
        """Note that a connect to the address succeeded."""
        self._failed.pop(address, None)

    def failed_lately(self, host: str, port: int) -> bool:
        """Whether every known address of the host failed lately."""
        now = self._now()
        known = self.known(host, port)
        return bool(known) and all(self._failed.get(address, 0.0) > now for address in known)

    def _best_first(self, addresses: list[Address]) -> list[Address]:
        if not self._failed or len(addresses) == 1:
            return addresses
        now = self._now()
        return sorted(addresses, key=lambda address: self._failed.get(address, 0.0) > now)

    async def _shared(self, host: str, port: int) -> _Answer:
        """Resolve a name, together with all others that wait for it now."""
        query = self._queries.get((host, port))
        if query is None:
            query = asyncio.ensure_future(self._ask(host, port))
            self._queries[host, port] = query
            query.add_done_callback(lambda _: self._queries.pop((host, port), None))
        # cancelling one waiter does not cancel the query for the others
        return await asyncio.shield(query)

    async def _ask(self, host: str, port: int) -> _Answer:
        try:
            addresses = list(dict.fromkeys(await self._resolve(host, port)))
        except (OSError, UnicodeError, ValueError) as error:
            return self._cache(host, port, [], _words(error))
        return self._cache(host, port, addresses[:MOST_ADDRESSES], "" if addresses else "the name has no address")

    def _cache(self, host: str, port: int, addresses: list[Address], error: str) -> _Answer:
        if not addresses and (old := self._answers.get((host, port))):
            addresses = old.addresses
        _drop_oldest(self._answers)
        answer = _Answer(addresses, self._now() + (FAILURE_CACHED_S if error else CACHED_S), error)
        self._answers[host, port] = answer
        return answer


def _drop_oldest(remembered: dict[Any, Any]) -> None:
    """Drop the oldest entries to make room for one more."""
    while len(remembered) >= MOST_NAMES:
        del remembered[next(iter(remembered))]


def _words(error: OSError | ValueError) -> str:
    if isinstance(error, socket.gaierror):
        return str(error.strerror or "the name cannot be resolved")
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is no name of a host"
