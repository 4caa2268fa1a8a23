"""Names of hosts to numeric addresses, remembered for a while. What failed lately is asked for, and tried, last."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kproxy.errors import UpstreamError
from kproxy.proxy.network.endpoint import SocketAddress, numeric

Address = tuple[int, SocketAddress]  # family, and what socket.connect takes
Question = Callable[[str, int], Awaitable[list[Address]]]

REMEMBERED_S = 30.0  # of an answer; Java's default (networkaddress.cache.ttl) without a security manager
REFUSED_S = 1.0  # of a failure: a burst of clients is one question
FAILED_S = 10.0  # how long an address that did not answer is tried last
MOST_NAMES = 4_096  # names come from brokers' answers too
MOST_ADDRESSES = 16  # of one name


@dataclass(slots=True)
class _Answer:
    addresses: list[Address]
    until: float
    error: str = ""


async def ask_system(host: str, port: int) -> list[Address]:
    """The system's answer. Raises OSError, or ValueError for what cannot be a name."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return [(int(family), address) for family, _, _, _, address in found if isinstance(address[0], str)]


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Resolver:
    """One per event loop. At most one question for a name is under way, however many wait for it."""

    def __init__(self, question: Question = ask_system, now: Callable[[], float] = _loop_time) -> None:
        """*question* finds out; *now*: seconds of a clock that does not go back."""
        self._question = question
        self._now = now
        self._answers: dict[tuple[str, int], _Answer] = {}
        self._asked: dict[tuple[str, int], asyncio.Future[_Answer]] = {}
        self._failed: dict[Address, float] = {}

    def known(self, host: str, port: int) -> list[Address]:
        """What can be said without waiting, best first; empty where the name must be asked for. Numbers always can."""
        if number := numeric(host, port):
            return [number]
        answer = self._answers.get((host, port))
        if answer is None or answer.until <= self._now():
            return []
        return self._best_first(answer.addresses)

    async def addresses(self, host: str, port: int) -> list[Address]:
        """At least one address, best first: in the system's order (RFC 6724), those that failed lately at the end.

        An answer that has grown old is still given when the name cannot be asked for now.

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
        """Nobody could be reached there: for 10 s it is tried last."""
        _make_room(self._failed)
        self._failed[address] = self._now() + FAILED_S

    def reached(self, address: Address) -> None:
        """It answers."""
        self._failed.pop(address, None)

    def failed_lately(self, host: str, port: int) -> bool:
        """Is every address that is known of it one that failed lately?"""
        now = self._now()
        known = self.known(host, port)
        return bool(known) and all(self._failed.get(address, 0.0) > now for address in known)

    def _best_first(self, addresses: list[Address]) -> list[Address]:
        if not self._failed or len(addresses) == 1:
            return addresses
        now = self._now()
        return sorted(addresses, key=lambda address: self._failed.get(address, 0.0) > now)

    async def _shared(self, host: str, port: int) -> _Answer:
        question = self._asked.get((host, port))
        if question is None:
            question = asyncio.ensure_future(self._ask(host, port))
            self._asked[host, port] = question
            question.add_done_callback(lambda _: self._asked.pop((host, port), None))
        # Who gives up waiting does not take the answer from the others.
        return await asyncio.shield(question)

    async def _ask(self, host: str, port: int) -> _Answer:
        try:
            addresses = list(dict.fromkeys(await self._question(host, port)))
        except (OSError, UnicodeError, ValueError) as error:
            return self._remember(host, port, [], _words(error))
        return self._remember(host, port, addresses[:MOST_ADDRESSES], "" if addresses else "the name has no address")

    def _remember(self, host: str, port: int, addresses: list[Address], error: str) -> _Answer:
        if not addresses and (old := self._answers.get((host, port))):
            addresses = old.addresses
        _make_room(self._answers)
        answer = _Answer(addresses, self._now() + (REFUSED_S if error else REMEMBERED_S), error)
        self._answers[host, port] = answer
        return answer


def _make_room(remembered: dict[Any, Any]) -> None:
    """Forget the oldest."""
    while len(remembered) >= MOST_NAMES:
        del remembered[next(iter(remembered))]


def _words(error: OSError | ValueError) -> str:
    if isinstance(error, socket.gaierror):
        return str(error.strerror or "the name cannot be resolved")
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it is no name of a host"
