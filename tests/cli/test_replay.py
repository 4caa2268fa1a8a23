"""`kproxy replay` as people run it: wrong usage, exit status, dry runs; with real brokers in tests/interop/test_replay.py."""

import asyncio
import fcntl
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from kproxy.protocol import ApiKey
from tests.support.command import kproxy
from tests.support.corpus import CAPTURES
from tests.support.ports import free_ports
from tests.support.replayed import RecordedBroker, before, capture, recorded

WRONG = {
    "no port": (["--to", "kafka"], 'it has no port: write "host:port"'),
    "a speed that is none": (["--to", "h:1", "--speed", "fast"], "a factor from 0.001 to 100,000, or max"),
    "a negative speed": (["--to", "h:1", "--speed", "-1"], "-1 is no speed"),
    "half a key pair": (["--to", "h:1", "--tls-key", "k.pem"], "--tls-certificate and --tls-key belong together"),
    "two ways to verify": (["--to", "h:1", "--tls-no-verify", "--tls-ca", "a.pem"], "leave out one"),
    "a condition that is none": (["--to", "h:1", "--where", "apiName ="], "--where"),
    "an API that is none": (["--to", "h:1", "--api", "Fetchh"], "there is no API 'Fetchh'; did you mean Fetch"),
}


@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG)
def test_wrong_usage(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy("replay", capture(1), *words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_sources_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy("replay", "missing.pcap", "--to", "h:1") == 2
    assert "missing.pcap: no such file" in capsys.readouterr().err
    assert kproxy("replay", CAPTURES / "README.md", "--to", "h:1") == 2
    assert "README.md" in capsys.readouterr().err


def test_a_cluster_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy("replay", capture(1), "--to", f"127.0.0.1:{free_ports(1)}") == 1
    assert "refused" in capsys.readouterr().err.lower()


async def run(port: int, *words: str, stdout: int = asyncio.subprocess.PIPE) -> "asyncio.subprocess.Process":
    """Run `kproxy replay` of the first sample capture in a process."""
    command = ("-c", "from kproxy.cli import main; main()", "replay", str(capture(1)), "--to", f"127.0.0.1:{port}")
    return await asyncio.create_subprocess_exec(
        sys.executable, *command, *words, stdout=stdout, stderr=asyncio.subprocess.PIPE
    )


async def ended(process: "asyncio.subprocess.Process") -> tuple[int, str]:
    """Exit status and standard output."""
    printed, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, printed.decode()


def test_exit_status_and_json() -> None:
    async def work() -> None:
        async with before(RecordedBroker(recorded(1))) as cluster:
            words = ("--format", "json", "--yes", "--speed", "max")
            status, printed = await ended(await run(cluster.bootstrap.port, *words))
            found = json.loads(printed)
            assert (status, found["dryRun"], found["result"]["sent"]) == (0, False, 23)
        async with before(RecordedBroker(recorded(1), close_at=ApiKey.PRODUCE)) as cluster:
            status, printed = await ended(await run(cluster.bootstrap.port, "--yes", "--speed", "max"))
            assert status == 4 and "  no answer    Produce: " in printed

    asyncio.run(work())


PRODUCES = 1  # of the fourth capture, see captures/MANIFEST.jsonl


@pytest.mark.parametrize("words", [("--create-topics", "--speed", "max"), ("--format", "json", "--api", "Produce")])
def test_without_yes_a_broker_is_asked_nothing_that_writes(words: tuple[str, ...]) -> None:
    async def work() -> None:
        broker = RecordedBroker(recorded(4))
        async with before(broker) as cluster:
            broker.asked.clear()
            status, printed = await ended(await run(cluster.bootstrap.port, *words))
        assert status == 0
        assert "json" not in words or json.loads(printed)["plan"]["requests"] == PRODUCES
        assert [api for api, _ in broker.asked] == [ApiKey.API_VERSIONS, ApiKey.METADATA]

    asyncio.run(work())


def test_output_that_nothing_reads_sends_nothing() -> None:
    """`kproxy replay … --yes | true`: the plan cannot be said, so it is not carried out."""

    async def work() -> None:
        broker = RecordedBroker(recorded(1))
        async with before(broker) as cluster:
            broker.asked.clear()
            read, write = os.pipe()
            os.close(read)
            process = await run(cluster.bootstrap.port, "--yes", "--speed", "max", stdout=write)
            os.close(write)
            _, said = await asyncio.wait_for(process.communicate(), 60)
            assert process.returncode == 130
            assert b"nothing reads the output" in said and b"interrupted after 0 requests" in said
            assert b"not sent     23 requests, whose turn had not come" in said
            assert {api for api, _ in broker.asked} == {ApiKey.API_VERSIONS, ApiKey.METADATA}

    asyncio.run(work())


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
