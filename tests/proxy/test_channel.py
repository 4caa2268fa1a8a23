"""The channel over a real socket pair, on both event loops."""

import asyncio
import re
import socket
from typing import Any

import pytest

from kproxy.proxy.channel import LONGEST_LINE, MESSAGE_DROPPED, Channel
from kproxy.proxy.messages import Brokers, Drain, Failed, Message, Ready, ToSupervisor, ToWorker
from tests.support.loops import LOOPS, run

both_loops = pytest.mark.parametrize("loop", LOOPS)


class Reasons(list[str]):
    """Why lines were no messages."""


async def pair() -> tuple[Channel[Any], Channel[Any]]:
    one, other = socket.socketpair()
    nothing = Reasons()
    opened = (
        await Channel.open(one, ToWorker, nothing.append),
        await Channel.open(other.detach(), ToWorker, nothing.append),
    )
    return opened


@both_loops
def test_messages_arrive_whole_and_in_order(loop: str) -> None:
    messages: list[Message] = [Drain(1.5), Brokers("a\nb\u2028", [(1, "h", 2)]), Brokers("x" * 900_000, [])]

    async def main() -> list[Message]:
        one, other = await pair()

        async def send() -> None:
            for message in messages:
                await one.send(message)
            one.close()

        sending = asyncio.ensure_future(send())
        received = [message async for message in other]
        await sending
        other.close()
        return received

    assert run(loop, main()) == messages


@both_loops
def test_a_message_too_big_for_a_line_is_logged_and_dropped(loop: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> list[Message]:
        one, other = await pair()
        assert not await one.send(Failed("x" * LONGEST_LINE))
        assert await one.send(Drain(1))
        one.close()
        received = [message async for message in other]
        other.close()
        return received

    assert run(loop, main()) == [Drain(1)]
    assert [record.message for record in caplog.records] == [MESSAGE_DROPPED]
    assert "at most 1,048,576" in caplog.records[0].__dict__["keys"]["reason"]


@both_loops
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"nonsense\n", "malformed"),
        (b"[1]\n", "Expected `object`, got `array`"),
        (b'{"type": "failed", "why": "\xff"}\n', "utf-8"),
        (b'{"type": "something new"}\n', "Invalid value 'something new'"),
        (b'{"seconds": 1}\n', "missing required field `type`"),
        (
            b'{"type": "brokers", "cluster": "one", "brokers": [["1", "b", 9092]]}\n',
            r"Expected `int`, got `str` - at `\$.brokers",
        ),
        (b'{"type": "drain", "seconds": 1}\n', "Invalid value 'drain'"),  # a worker's
        (b"x" * (LONGEST_LINE + 100) + b"\n", "limit"),
    ],
    ids=["text", "list", "no UTF-8", "unknown", "untyped", "wrong field", "another's", "too long"],
)
def test_a_line_that_is_no_message_is_reported_and_skipped(loop: str, data: bytes, reason: str) -> None:
    async def main() -> tuple[list[Message], list[str]]:
        ours, theirs = socket.socketpair()
        reasons = Reasons()
        channel: Channel[Any] = await Channel.open(ours, ToSupervisor, reasons.append)
        theirs.setblocking(False)
        sending = asyncio.ensure_future(
            asyncio.get_running_loop().sock_sendall(theirs, data + b'{"type": "ready", "since": "version 9"}\n')
        )
        sending.add_done_callback(lambda _: theirs.close())
        received = [message async for message in channel]
        channel.close()
        await sending
        return received, reasons

    received, reasons = run(loop, main())
    assert received == [Ready()]
    assert re.search(reason, reasons[0])


@both_loops
def test_half_a_message_of_a_process_that_died_is_none(loop: str) -> None:
    async def main() -> tuple[list[Message], list[str]]:
        ours, theirs = socket.socketpair()
        reasons = Reasons()
        channel: Channel[Any] = await Channel.open(ours, ToSupervisor, reasons.append)
        with theirs:
            theirs.sendall(b'{"type": "ready"}\n{"type": "dra')
        received = [message async for message in channel]
        channel.close()
        return received, reasons

    assert run(loop, main()) == ([Ready()], [])


@both_loops
def test_to_a_process_that_is_gone_nothing_is_sent(loop: str) -> None:
    async def main() -> list[Message]:
        one, other = await pair()
        other.close()
        for _ in range(50):
            await one.send(Failed("x" * 100_000))
        received = [message async for message in one]
        one.close()
        return received

    assert run(loop, main()) == []
