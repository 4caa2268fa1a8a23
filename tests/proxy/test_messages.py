"""The channel over a real socket pair, on both event loops."""

import asyncio
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kproxy.config.structs import Cluster, Config
from kproxy.proxy.child_process import ChildArguments
from kproxy.proxy.logs import log_dropped_message
from kproxy.proxy.messages import (
    LONGEST_LINE,
    MESSAGE_DROPPED,
    AnalyzerCounts,
    Brokers,
    Channel,
    Configure,
    Drain,
    Failed,
    LogEvent,
    Message,
    OutputCounts,
    Ready,
    ToAnalyzer,
    ToSupervisor,
    ToWorker,
)
from tests.support.loops import LOOPS, run

both_loops = pytest.mark.parametrize("loop", LOOPS)


async def pair() -> tuple[Channel[Any], Channel[Any]]:
    one, other = socket.socketpair()
    return (
        await Channel.open(one, ToWorker, print, log_dropped_message),
        await Channel.open(other.detach(), ToWorker, print, log_dropped_message),
    )


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
        (b'{"type": "failed", "why": "\xff"}\n', "(?i)utf-8"),
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
        reasons: list[str] = []
        channel: Channel[Any] = await Channel.open(ours, ToSupervisor, reasons.append, log_dropped_message)
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
        reasons: list[str] = []
        channel: Channel[Any] = await Channel.open(ours, ToSupervisor, reasons.append, log_dropped_message)
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


CONFIG = Config(clusters=[Cluster(name="one", listen="127.0.0.1:1", bootstrap=["b:1"])], workers=3)


@pytest.mark.parametrize("receiver", [ToWorker, ToAnalyzer])
def test_a_configuration_comes_back(receiver: object) -> None:
    received = msgspec.json.decode(msgspec.json.encode(Configure.to(CONFIG)), type=receiver)
    assert isinstance(received, Configure)
    assert received.decode() == CONFIG


def test_a_configuration_of_another_version_is_an_error() -> None:
    with pytest.raises(msgspec.MsgspecError, match="clusters"):
        Configure(msgspec.Raw(b'{"clusters": 5}')).decode()


@pytest.mark.parametrize("why", ["x" * (2 << 20), "\0" * (2 << 20), "\udc80" * (2 << 20), "one sentence"])
def test_why_a_configuration_cannot_be_used_fits_the_channel(why: str) -> None:
    """A message that is dropped would leave the supervisor waiting for the answer."""
    message = Failed.because(ValueError(why))
    encoded = msgspec.json.encode(message)
    assert len(encoded) < LONGEST_LINE
    assert msgspec.json.decode(encoded, type=ToSupervisor) == message
    assert message.why.startswith(why[:1].encode(errors="backslashreplace").decode())


@pytest.mark.parametrize(
    "message",
    [
        LogEvent(
            "info", "an event", {"count": 1, "seconds": 0.5, "reason": "x", "listen": ["a", 1, None], "file": None}
        ),
        AnalyzerCounts(at=1, errors=[("Fetch", "NONE", 2)], outputs={"log": OutputCounts(1, 2, 3)}, faults={"E": 1}),
    ],
    ids=["log", "counts"],
)
def test_what_children_send_comes_back(message: LogEvent | AnalyzerCounts) -> None:
    assert msgspec.json.decode(msgspec.json.encode(message), type=ToSupervisor) == message


def test_a_child_inherits_what_it_is_told_of() -> None:
    assert ChildArguments(1, 2, 3, (4, 5), 6, counts=8, stack=7, doorbell=9).fds() == [2, 3, 4, 5, 6, 8, 7, 9]
    assert ChildArguments(1, 2).fds() == [2]


CHILD = """
import os, signal, sys, time
from kproxy.proxy.child_process import ChildArguments, begin_child
begin_child(ChildArguments(int(sys.argv[1]) or os.getppid(), -1, worker=12))
print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_a_child_takes_its_title_and_leaves_the_signals_of_the_group_to_its_parent() -> None:
    command = [sys.executable, "-c", CHILD, "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert int(child.stdout.readline()) == child.pid
        assert Path(f"/proc/{child.pid}/cmdline").read_text(encoding="ascii").rstrip("\0") == "kproxy: worker 12"
        assert Path(f"/proc/{child.pid}/comm").read_text(encoding="ascii") == "kproxy:worker12\n"
        status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
        ignored = int(re.findall(r"SigIgn:\t(\w+)", status)[0], 16)
        child.kill()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        assert ignored >> (number - 1) & 1


def test_a_child_whose_parent_is_gone_already_ends() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD, "1"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")


CODE = """
import os, sys
from pathlib import Path
from kproxy.proxy.child_process import set_process_title
os.environ["LATER"] = "1"
set_process_title("kproxy: worker 10 " + "x" * 300, "kproxy:worker10 and more")
print(Path("/proc/self/cmdline").read_text().rstrip("\\0"), Path("/proc/self/comm").read_text(), sep="|", end="")
print(os.environ["EARLIER"], os.environ["LATER"])
"""


def test_the_title_replaces_the_command_line_and_the_name() -> None:
    """A title longer than the command line fits, too: it takes the place of the environment, which is moved."""
    command = [sys.executable, "-c", CODE, '{"secret": 1}']
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"EARLIER": "2" * 300})
    title, rest = done.stdout.split("|")
    assert title == "kproxy: worker 10 " + "x" * 300
    assert rest == f"kproxy:worker10\n{'2' * 300} 1\n"
