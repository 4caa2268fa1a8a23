"""Replays that are ended before their last request: by signals, and by a reader that goes away; with a real broker in interop."""

import asyncio
import fcntl
import json
import os
import signal
from pathlib import Path

import pytest

from kproxy.protocol import ApiKey
from tests.cli.test_replay import ended, run
from tests.support.replayed import RecordedBroker, before, recorded

SENT = 16  # requests of the first capture, up to the SyncGroup that the broker does not answer


async def asked(broker: RecordedBroker, process: "asyncio.subprocess.Process") -> None:
    """Wait until the broker has got what it does not answer."""
    while not any(api == ApiKey.SYNC_GROUP for api, _ in broker.asked):
        assert process.returncode is None
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_says_what_was_done_and_what_is_left_open(number: signal.Signals) -> None:
    async def work() -> None:
        broker = RecordedBroker(recorded(1), silent_at=ApiKey.SYNC_GROUP)
        form = () if number == signal.SIGINT else ("--format", "json")
        async with before(broker) as cluster:
            process = await run(cluster.bootstrap.port, "--yes", "--speed", "max", *form)
            await asked(broker, process)
            process.send_signal(number)
            status, printed = await ended(process)
        assert status == 130
        if form:
            result = json.loads(printed)["result"]
            told = (result["interrupted"], result["sent"], result["awaited"], result["notReached"])
            assert told == (True, SENT, 1, 23 - SENT)
            assert [one["groupId"] for one in result["leftOpen"]["members"]] == ["orders-group"]
        else:
            assert "interrupted after 16 requests" in printed and "answers      15 same, 1 still awaited" in printed
            assert "left open    1 member of group orders-group: its coordinator removes it" in printed
            assert "not sent     7 requests, whose turn had not come" in printed

    asyncio.run(work())


def test_a_reader_that_goes_away_ends_it() -> None:
    """As `kproxy replay … --yes | head -1` does."""

    async def work() -> None:
        broker = RecordedBroker(recorded(1), silent_at=ApiKey.SYNC_GROUP)
        async with before(broker) as cluster:
            process = await run(cluster.bootstrap.port, "--yes", "--speed", "max")
            await asked(broker, process)
            assert process.stdout is not None and process.stderr is not None
            process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
            said = await asyncio.wait_for(process.stderr.read(), 60)
            assert await asyncio.wait_for(process.wait(), 60) == 130
        assert b"nothing reads the output any more" in said and b"interrupted after 16 requests" in said
        assert b"left open" in said

    asyncio.run(work())


def catches(process_id: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal (proc(5), SigCgt)."""
    status = Path(f"/proc/{process_id}/status").read_text(encoding="utf-8")
    [caught] = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(caught, 16) >> (number - 1) & 1)


def test_a_second_signal_ends_it_at_once() -> None:
    """Even where it cannot say what was done, as its reader does not read."""

    async def work() -> None:
        broker = RecordedBroker(recorded(1), silent_at=ApiKey.SYNC_GROUP)
        async with before(broker) as cluster:
            read, write = os.pipe()
            os.write(write, bytes(fcntl.fcntl(write, fcntl.F_GETPIPE_SZ)))  # it is full
            words = ("--yes", "--speed", "max", "--format", "json")
            process = await run(cluster.bootstrap.port, *words, stdout=write)
            await asked(broker, process)
            process.send_signal(signal.SIGINT)
            try:
                async with asyncio.timeout(60):
                    while catches(process.pid, signal.SIGINT):
                        await asyncio.sleep(0.02)
                    process.send_signal(signal.SIGINT)
                    assert await process.wait() == -signal.SIGINT
            finally:
                os.close(read)  # which ends it where the signal has not
                os.close(write)

    asyncio.run(work())
