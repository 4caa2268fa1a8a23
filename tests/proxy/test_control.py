"""The channel over a real socket pair, on both event loops."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kproxy.proxy.control import MOST_LINE, Channel, ChannelError, ChildArguments, parse_child_arguments
from tests.support.loops import LOOPS, run

both_loops = pytest.mark.parametrize("loop", LOOPS)


async def pair() -> tuple[Channel, Channel]:
    one, other = socket.socketpair()
    return await Channel.of(one), await Channel.of(other.detach())


@both_loops
def test_messages_arrive_whole_and_in_order(loop: str) -> None:
    messages: list[dict[str, Any]] = [{"do": "drain", "seconds": 1.5}, {"text": "a\nb\u2028"}, {"big": "x" * 900_000}]

    async def main() -> list[Any]:
        one, other = await pair()

        async def send() -> None:
            for message in messages:
                await one.send(message)
            one.close()

        sending = asyncio.ensure_future(send())
        heard = [message async for message in other]
        await sending
        other.close()
        return heard

    assert run(loop, main()) == messages


@both_loops
def test_a_message_too_big_for_a_line_is_not_sent(loop: str) -> None:
    async def main() -> Any:
        one, other = await pair()
        with pytest.raises(ChannelError, match="at most 1,048,576"):
            await one.send({"x": "x" * MOST_LINE})
        await one.send({"said": "small"})
        one.close()
        heard = [message async for message in other]
        other.close()
        return heard

    assert run(loop, main()) == [{"said": "small"}]


@both_loops
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"nonsense\n", "cannot be understood"),
        (b"[1]\n", "cannot be understood"),
        (b'{"a": "\xff"}\n', "cannot be understood"),
        (b"x" * (MOST_LINE + 100), "more than"),
    ],
    ids=["text", "list", "no UTF-8", "endless"],
)
def test_what_is_no_message_is_an_error(loop: str, data: bytes, why: str) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        channel = await Channel.of(ours)
        theirs.setblocking(False)
        sending = asyncio.ensure_future(asyncio.get_running_loop().sock_sendall(theirs, data))
        sending.add_done_callback(lambda _: theirs.close())
        with pytest.raises(ChannelError, match=why):
            [message async for message in channel]
        channel.close()
        await asyncio.wait([sending])
        sending.exception()

    run(loop, main())


@both_loops
def test_half_a_message_of_one_that_died_is_none(loop: str) -> None:
    async def main() -> list[Any]:
        ours, theirs = socket.socketpair()
        channel = await Channel.of(ours)
        with theirs:
            theirs.sendall(b'{"said": "ready"}\n{"said": "dra')
        heard = [message async for message in channel]
        channel.close()
        return heard

    assert run(loop, main()) == [{"said": "ready"}]


@both_loops
def test_to_one_that_is_gone_nothing_is_sent(loop: str) -> None:
    async def main() -> list[Any]:
        one, other = await pair()
        other.close()
        for _ in range(50):
            await one.send({"x": "x" * 100_000})
        heard = [message async for message in one]
        one.close()
        return heard

    assert run(loop, main()) == []


@pytest.mark.parametrize(
    "arguments",
    [ChildArguments(1, 2), ChildArguments(1, 2, 3, (4,), (5, 6)), ChildArguments(1, 2, taps=(4, 5, 6))],
)
def test_a_childs_arguments_come_back_from_its_command_line(arguments: ChildArguments) -> None:
    assert parse_child_arguments(["kproxy-analyzer", *arguments.words()]) == arguments


def test_a_child_inherits_what_it_is_told_of() -> None:
    assert ChildArguments(1, 2, 3, (4, 5), (6,)).fds() == [2, 3, 4, 5, 6]
    assert ChildArguments(1, 2).fds() == [2]


CHILD = """
import os, signal, sys, time
from kproxy.proxy.control import ChildArguments, begin_child
begin_child(ChildArguments(int(sys.argv[1]) or os.getppid(), -1))
print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_a_child_leaves_the_signals_of_the_group_to_its_parent() -> None:
    command = [sys.executable, "-c", CHILD, "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert int(child.stdout.readline()) == child.pid
        status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
        ignored = int(re.findall(r"SigIgn:\t(\w+)", status)[0], 16)
        child.kill()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        assert ignored >> (number - 1) & 1


def test_a_child_whose_parent_is_gone_already_ends() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, "1"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
