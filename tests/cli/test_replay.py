"""`kproxy replay` as people run it: wrong usage, exit status, dry runs; with real brokers in tests/interop/test_replay.py."""

import asyncio
import json
import os
import sys

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
}


@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG)
def test_wrong_usage(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy("replay", capture(1), *words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_sources_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy("replay", "missing.pcap", "--to", "h:1") == 2
    assert "missing.pcap: no such file" in capsys.readouterr().err
    assert kproxy("replay", CAPTURES, "--to", "h:1") == 2
    assert "is a directory" in capsys.readouterr().err
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


@pytest.mark.parametrize("words", [(), ("--create-topics", "--speed", "max"), ("--format", "json")])
def test_without_yes_a_broker_is_asked_nothing_that_writes(words: tuple[str, ...]) -> None:
    async def work() -> None:
        broker = RecordedBroker(recorded(4))
        async with before(broker) as cluster:
            broker.asked.clear()
            status, _ = await ended(await run(cluster.bootstrap.port, *words))
        assert status == 0
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
