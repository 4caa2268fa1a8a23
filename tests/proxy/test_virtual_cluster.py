"""One address in front of a cluster: brokers and their ports, reloads, and the time that things may take."""

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kproxy.config.structs import Addresses, Cluster, FilterUse, Timeouts
from kproxy.errors import UsageError
from kproxy.filters.contract import Filter
from kproxy.proxy import virtual_cluster
from kproxy.proxy.brokers import Reach, Reachability
from kproxy.proxy.messages import BrokerReach, Message
from kproxy.proxy.network.listening import ListenError
from kproxy.proxy.tap.counted import CloseCause
from tests.support.backend import listening
from tests.support.links import request, response, run
from tests.support.ports import free_ports
from tests.support.virtual_clusters import Broker, ask, front, metadata

BEAT = request(12, 0, 1)
BEATEN = b"\0\0\0\7\0\0\0\1\0\1t"
ASK_METADATA = request(3, 1, 9, b"\xff\xff\xff\xff")
FIXED = Addresses(mode="fixed")


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_every_broker_has_a_port_of_ours_before_the_first_client_comes() -> None:
    async with Broker() as here, Broker() as there:
        here.brokers = there.brokers = [(0, "localhost", here.port), (3, "localhost", there.port)]
        async with front(here.address) as proxy:
            assert proxy.sent[-1].brokers == here.brokers
            reader, writer = await proxy.connect()
            told = await ask(reader, writer, ASK_METADATA)
            ours = [(0, "127.0.0.1", proxy.port + 1), (3, "127.0.0.1", proxy.port + 4)]
            assert told == response(9, metadata(1, ours))
            before = there.came
            other, second = await proxy.connect(proxy.port + 4)
            assert await ask(other, second, BEAT) == BEATEN
            assert there.came == before + 1
            second.close()
            writer.close()


async def test_a_broker_that_appears_later_is_served_before_a_client_hears_of_it() -> None:
    async with Broker() as here, Broker() as late, front(here.address) as proxy:
        assert not accepts(proxy.port + 8)
        here.brokers = [(0, "127.0.0.1", here.port), (7, "127.0.0.1", late.port)]
        reader, writer = await proxy.connect()
        await ask(reader, writer, ASK_METADATA)
        other, second = await proxy.connect(proxy.port + 8)  # at once
        assert await ask(other, second, BEAT) == BEATEN
        assert late.came == 1
        assert (7, "127.0.0.1", late.port) in proxy.sent[-1].brokers
        second.close()
        writer.close()


async def test_what_another_worker_has_learned_is_served_here_too() -> None:
    async with Broker() as here, Broker() as late, front(here.address) as proxy:
        told = len(proxy.sent)
        proxy.cluster.learn([(6, "127.0.0.1", late.port)])
        reader, writer = await proxy.connect(proxy.port + 7)
        assert await ask(reader, writer, BEAT) == BEATEN
        assert late.came == 1
        assert len(proxy.sent) == told  # who told us knows
        writer.close()


async def test_a_broker_that_moves_is_followed() -> None:
    async with Broker() as here, Broker() as there, front(here.address) as proxy:
        here.brokers = [(0, "127.0.0.1", there.port)]
        reader, writer = await proxy.connect()
        await ask(reader, writer, ASK_METADATA)
        other, second = await proxy.connect(proxy.port + 1)
        assert await ask(other, second, BEAT) == BEATEN
        assert there.came == 1
        second.close()
        writer.close()


def test_a_cluster_that_wants_a_login_is_asked_again_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(virtual_cluster, "REDISCOVER_S", 0.02)
    asked = 0

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1

    async def work() -> None:
        async with listening(close) as port, front(f"127.0.0.1:{port}") as proxy:
            await proxy.until(lambda: asked > 5)

    with caplog.at_level(logging.WARNING, "kproxy"):
        run(work)
    assert [record.getMessage() for record in caplog.records].count("brokers are not known yet") == 1


class WantsLogin(Broker):
    """Closes connections of kproxy's own, which has no login."""

    def answer(self, frame: bytes) -> bytes:
        if b"kproxy" in frame[8:20]:
            raise ConnectionResetError
        return super().answer(frame)


@pytest.mark.parametrize("from_another_worker", [False, True])
async def test_the_brokers_of_a_cluster_that_wants_a_login_are_learned_from_a_clients_own_metadata(
    from_another_worker: bool,
) -> None:
    here, there = WantsLogin(), WantsLogin()
    addresses = Addresses(node_ids=[0, 3])
    async with here, there:
        here.brokers = there.brokers = [(0, "127.0.0.1", here.port), (3, "127.0.0.1", there.port)]
        async with front(here.address, addresses=addresses) as proxy:
            assert proxy.cluster.brokers.as_list() == []
            of_bootstrap, first = await proxy.connect()
            of_node_0, second = await proxy.connect(proxy.port + 1)
            of_node_3, third = await proxy.connect(proxy.port + 4)  # nobody knows better: to a bootstrap broker
            for reader, writer in ((of_bootstrap, first), (of_node_0, second), (of_node_3, third)):
                assert await ask(reader, writer, BEAT) == BEATEN
            assert there.came == 0
            ours = [(0, "127.0.0.1", proxy.port + 1), (3, "127.0.0.1", proxy.port + 4)]
            if from_another_worker:
                proxy.cluster.learn(here.brokers)
            else:
                assert await ask(of_node_3, third, ASK_METADATA) == response(9, metadata(1, ours))
                assert proxy.sent[-1].brokers == here.brokers
            assert await of_node_3.read() == b""  # it is at the wrong broker, and comes again
            of_node_3, again = await proxy.connect(proxy.port + 4)
            assert await ask(of_node_3, again, BEAT) == BEATEN
            assert there.came == 1
            for reader, writer in ((of_bootstrap, first), (of_node_0, second)):  # they are at the right ones
                assert await ask(reader, writer, ASK_METADATA) == response(9, metadata(1, ours))
            assert proxy.causes == {CloseCause.DRAIN: 1}
            for writer in (first, second, third, again):
                writer.close()


async def test_a_cluster_that_is_down_at_the_start_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_cluster, "REDISCOVER_S", 0.02)
    port = free_ports()
    async with front(f"127.0.0.1:{port}") as proxy:
        assert not accepts(proxy.port + 1)
        broker = Broker()
        broker.port = port
        async with broker:
            await proxy.until(lambda: accepts(proxy.port + 1))


async def test_ports_that_the_configuration_names_are_there_from_the_start() -> None:
    async with front(f"127.0.0.1:{free_ports()}", addresses=Addresses(node_ids=[0, "2-4"])) as proxy:
        assert [accepts(proxy.port + 1 + node_id) for node_id in range(6)] == [True, False, True, True, True, False]


async def test_a_port_that_is_taken_is_said_when_the_configuration_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}"):
            async with front("127.0.0.1:1", addresses=Addresses(first_port=port, node_ids=[0])):
                pass


async def test_promise_15_a_filter_that_cannot_be_loaded_leaves_all_as_it_was() -> None:
    async with Broker() as broker, front(broker.address, addresses=FIXED) as proxy:
        chain, plan = proxy.cluster._filters.chain, proxy.cluster.plan
        wrong = Cluster(
            listen=proxy.address, bootstrap=["127.0.0.1:1"], addresses=FIXED, filters=[FilterUse(use="no.such:Filter")]
        )
        with pytest.raises(UsageError):
            proxy.cluster.configure(wrong, proxy.with_cluster(wrong))
        assert (proxy.cluster._filters.chain, proxy.cluster.plan) == (chain, plan)
        reader, writer = await proxy.connect()
        assert await ask(reader, writer, BEAT) == BEATEN
        writer.close()


class Policy(Filter):
    requests = frozenset({0})


async def test_promise_7_what_takes_too_long_is_closed_with_its_cause() -> None:
    """Seconds are added to the clock that ticks; nobody waits."""
    over = asyncio.Event()
    times = Timeouts(connect=1, first_request=10, frame=20, half_closed=30, idle=100)
    cases = [
        (b"", False, 10.0, CloseCause.FIRST_REQUEST_TIMEOUT),
        (BEAT[:11], False, 10.0, CloseCause.FIRST_REQUEST_TIMEOUT),
        (BEAT + BEAT[:5], False, 20.0, CloseCause.FRAME_TIMEOUT),
        (BEAT + BEAT[:-1], False, 20.0, CloseCause.FRAME_TIMEOUT),
        (BEAT, True, 30.0, CloseCause.HALF_CLOSED_TIMEOUT),
        (BEAT, False, 100.0, CloseCause.IDLE),
    ]

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        await over.wait()

    async with listening(silent) as port, front(f"127.0.0.1:{port}", addresses=FIXED, timeouts=times) as proxy:
        for sent, ends, seconds, cause in cases:
            _, writer = await proxy.connect()
            writer.write(sent)
            await proxy.until(lambda: proxy.worker.links)
            link = next(iter(proxy.worker.links))
            await proxy.until(lambda link=link, sent=sent: link.bytes_received[0] == len(sent))
            if ends:
                writer.write_eof()
                await proxy.until(lambda link=link: link.half_closed)
            before = proxy.causes.get(cause, 0)
            proxy.cluster.tick(time.monotonic_ns() + int((seconds - 0.9) * 1e9))
            assert not link.closed, cause
            proxy.cluster.tick(time.monotonic_ns() + int((seconds + 0.1) * 1e9))
            assert link.closed and proxy.causes[cause] == before + 1
            writer.close()
        over.set()


@pytest.mark.parametrize("filters", [[], [FilterUse(use="tests.proxy.test_virtual_cluster:Policy")]])
async def test_a_policy_does_not_go_on_when_frames_are_lost(filters: list[FilterUse]) -> None:
    """Addresses and ApiVersions of kproxy's own are no policy: without them a client can do nothing it may not."""

    async def stray(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(response(77, b"answers nothing"))
        await reader.read()

    async with listening(stray) as port, front(f"127.0.0.1:{port}", addresses=FIXED, filters=filters) as proxy:
        reader, writer = await proxy.connect()
        if filters:
            assert await reader.read() == b""
            assert proxy.causes == {CloseCause.BAD_FRAME: 1}
        else:
            assert await reader.readexactly(23) == response(77, b"answers nothing")
        writer.close()


async def test_a_stranger_is_told_apart_from_a_broken_client() -> None:
    async with Broker() as broker, front(broker.address, addresses=FIXED) as proxy:
        for start in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3", b"\xff\xff\xff\xff" + bytes(20)):
            reader, writer = await proxy.connect()
            writer.write(start)
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
        assert proxy.causes == {CloseCause.NOT_KAFKA: 2, CloseCause.BAD_FRAME: 1}


async def test_a_filter_that_has_changed_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For connections that are open, too; one that does not load leaves the one before in use."""
    file = tmp_path / "reloaded_filters.py"
    text = "from kproxy.filters.contract import *\nclass Mine(Filter):\n    requests = (3,)\n"
    file.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    broker = Broker()
    uses = [FilterUse(use="reloaded_filters:Mine")]
    async with broker, front(broker.address, addresses=FIXED, filters=uses) as proxy:
        reader, writer = await proxy.connect()
        told = response(9, metadata(1, [(0, "127.0.0.1", broker.port)]))
        assert await ask(reader, writer, ASK_METADATA) == told
        file.write_text("1 / 0\n", encoding="utf-8")
        with pytest.raises(UsageError, match=f"division by zero at {file}:1"):
            proxy.cluster.configure(proxy.config.clusters[0], proxy.config, True)
        assert await ask(reader, writer, ASK_METADATA) == told
        file.write_text(text + "    def on_request(self, request): return Close('no')\n", encoding="utf-8")
        proxy.cluster.configure(proxy.config.clusters[0], proxy.config)
        assert await ask(reader, writer, ASK_METADATA) == told
        proxy.cluster.configure(proxy.config.clusters[0], proxy.config, True)
        writer.write(ASK_METADATA)
        assert await reader.read() == b""
        writer.close()


CLUSTER = Cluster(listen=":1", bootstrap=["b:1"])


def test_each_transition_is_told_once() -> None:
    told: list[Message] = []
    found = Reachability("orders", told.append)
    found.use(CLUSTER)
    assert found.state is Reach.UNKNOWN
    found.failed("b:1: Connection refused")
    found.failed("b:1: no answer in time")
    assert found.state is Reach.FAILING
    found.reached()
    found.reached()
    found.failed("later")
    assert found.state is Reach.REACHED
    assert told == [BrokerReach("orders", False, "b:1: Connection refused"), BrokerReach("orders", True)]


def test_other_brokers_are_not_known() -> None:
    found = Reachability("orders", lambda message: None)
    found.use(CLUSTER)
    found.reached()
    found.use(Cluster(listen=":2", bootstrap=["b:1"], name="other"))
    assert found.state is Reach.REACHED
    found.use(Cluster(listen=":1", bootstrap=["c:1"]))
    assert found.state is Reach.UNKNOWN


HELD_BACK = """
import resource
from pathlib import Path
from kproxy.proxy.admission import MemoryReserve

reserve = MemoryReserve(64 << 20)
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (8 << 20), -1))

def fits(size):
    try:
        return len(bytearray(size)) == size
    except MemoryError:
        return False

print(fits(32 << 20), reserve.take())
reserve.release()
print(fits(32 << 20))
taken = bytearray(48 << 20)
print(reserve.take())
del taken
print(reserve.take(), fits(32 << 20))
"""


def test_what_is_held_back_is_there_when_it_is_released() -> None:
    done = subprocess.run([sys.executable, "-c", HELD_BACK], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split() == ["False", "True", "True", "False", "True", "False"], done.stderr
