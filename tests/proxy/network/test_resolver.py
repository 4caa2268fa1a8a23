"""Names and what is remembered of them: one question for many, old answers rather than none, what failed last."""

import asyncio
import socket

import pytest

from kproxy.errors import UpstreamError
from kproxy.proxy.network.resolver import CACHED_S, FAILED_S, FAILURE_CACHED_S, MOST_NAMES, Address, Resolver
from tests.support.loops import LOOPS, run

ONE: Address = (socket.AF_INET, ("192.0.2.1", 9092))
TWO: Address = (socket.AF_INET, ("192.0.2.2", 9092))


class Names:
    """A name service of the test's own, with a clock."""

    def __init__(self, *addresses: Address) -> None:
        self.addresses = list(addresses)
        self.error: Exception | None = None
        self.asked: list[str] = []
        self.clock = 1_000.0

    async def question(self, host: str, port: int) -> list[Address]:
        self.asked.append(host)
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return self.addresses

    def resolver(self) -> Resolver:
        return Resolver(self.question, lambda: self.clock)


@pytest.mark.parametrize("loop", LOOPS)
async def test_the_system_knows_this_host_and_not_that_one(loop: str) -> None:
    resolver = Resolver()
    assert resolver.known("localhost", 9092) == []
    expected = {(int(found[0]), found[4]) for found in socket.getaddrinfo("localhost", 9092, type=socket.SOCK_STREAM)}
    assert set(await resolver.addresses("localhost", 9092)) == expected
    assert set(resolver.known("localhost", 9092)) == expected
    for host in ("no-such-host.invalid", "a" * 70 + ".example", "nul\x00.example", ""):
        with pytest.raises(UpstreamError, match=r"^[^\n]*: [^\n]+$"):
            await resolver.addresses(host, 9092)


def test_numbers_are_never_asked_for() -> None:
    names = Names()
    resolver = names.resolver()
    assert resolver.known("192.0.2.1", 9092) == [ONE]
    assert run("uvloop", resolver.addresses("::1", 9092)) == [(socket.AF_INET6, ("::1", 9092, 0, 0))]
    assert names.asked == []


async def test_a_burst_is_one_question_and_its_answer_is_remembered_for_30_seconds() -> None:
    names = Names(ONE, TWO, ONE)
    resolver = names.resolver()
    answers = await asyncio.gather(*(resolver.addresses("broker", 9092) for _ in range(1_000)))
    assert answers == [[ONE, TWO]] * 1_000
    names.clock += CACHED_S - 0.1
    assert await resolver.addresses("broker", 9092) == [ONE, TWO]
    assert names.asked == ["broker"]
    names.clock += 0.2
    assert resolver.known("broker", 9092) == []
    names.addresses = [TWO]
    assert await resolver.addresses("broker", 9092) == [TWO]


async def test_who_gives_up_waiting_does_not_take_the_answer_from_the_others() -> None:
    names = Names(ONE)
    resolver = names.resolver()
    first = asyncio.ensure_future(resolver.addresses("broker", 9092))
    second = asyncio.ensure_future(resolver.addresses("broker", 9092))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == [ONE]


async def test_a_name_that_is_not_known_is_asked_for_once_a_second() -> None:
    names = Names()
    names.error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    resolver = names.resolver()
    for _ in range(10):
        with pytest.raises(UpstreamError, match="broker: Name or service not known"):
            await resolver.addresses("broker", 9092)
    assert len(names.asked) == 1
    names.clock += FAILURE_CACHED_S + 0.1
    names.error, names.addresses = None, [ONE]
    assert await resolver.addresses("broker", 9092) == [ONE]


async def test_an_old_answer_is_better_than_none() -> None:
    names = Names(ONE)
    resolver = names.resolver()
    await resolver.addresses("broker", 9092)
    names.error = OSError(5, "Input/output error")
    names.clock += CACHED_S + 1
    assert await resolver.addresses("broker", 9092) == [ONE]
    names.error, names.addresses = None, [TWO]
    names.clock += FAILURE_CACHED_S + 0.1
    assert await resolver.addresses("broker", 9092) == [TWO]


async def test_what_failed_lately_comes_last_until_it_is_reached_or_forgiven() -> None:
    names = Names(ONE, TWO)
    resolver = names.resolver()
    await resolver.addresses("broker", 9092)
    resolver.failed(ONE)
    assert resolver.known("broker", 9092) == [TWO, ONE]
    assert not resolver.failed_lately("broker", 9092)
    resolver.failed(TWO)
    assert resolver.failed_lately("broker", 9092)
    assert not resolver.failed_lately("not-asked", 9092)
    resolver.reached(ONE)
    assert resolver.known("broker", 9092) == [ONE, TWO]
    names.clock += FAILED_S + 0.1
    assert not resolver.failed_lately("192.0.2.2", 9092)


async def test_what_is_remembered_has_bounds() -> None:
    names = Names(*((socket.AF_INET, (f"192.0.2.{last}", 9092)) for last in range(100)))
    resolver = names.resolver()
    for number in range(MOST_NAMES + 1):
        assert len(await resolver.addresses(f"broker-{number}", 9092)) == 16
    assert resolver.known("broker-0", 9092) == []
    assert resolver.known("broker-1", 9092) != []
