"""The gates identify the processes that connect: the other tests rely on it to see that no client bypasses the proxy."""

import subprocess
import sys

import pytest

from tests.interop.clients import CLIENTS
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import Entrance, Entrances
from tests.support.kafka.jars import NEWEST
from tests.support.kafka.processes import eventually
from tests.support.sockets import Wire, metadata

pytestmark = pytest.mark.parametrize("single", [NEWEST], indirect=True)


def test_who_goes_round_the_proxy_is_seen(single: Cluster, ways: Entrances) -> None:
    ways.strangers()
    with Wire(single.bootstrap()[0]) as wire:
        wire.ask(18, 0, b"")
        eventually(lambda: any("pytest" in stranger for stranger in ways.strangers()), what="this process is seen")


def test_a_client_that_is_sent_to_a_gate_is_a_stranger(single: Cluster, ways: Entrances) -> None:
    topic = single.topic("gates")
    ways.strangers()
    round_it = Entrance(single, ",".join(single.bootstrap()))
    assert CLIENTS[0].produce(round_it, topic, 100) == 100
    assert any(stranger.split()[1] == "java" for stranger in ways.strangers())


def test_the_proxy_is_no_stranger(single: Cluster, ways: Entrances) -> None:
    found = ways()
    ways.strangers()
    assert metadata(found.bootstrap).brokers
    assert ways.strangers() == []


def test_a_process_without_a_mark_is_told_from_one_with_it(single: Cluster, ways: Entrances) -> None:
    ways.strangers()
    where = single.bootstrap()[0].rpartition(":")
    code = f"import socket; s = socket.create_connection(({where[0]!r}, {where[2]})); print(1, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        eventually(lambda: f"{other.pid} " in " ".join(ways.strangers()), what="it is seen")
        other.communicate(b"\n")
