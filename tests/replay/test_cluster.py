"""The new cluster: what it is asked, and which recorded broker is which of its nodes."""

import asyncio

import pytest

from kproxy.errors import UpstreamError
from kproxy.protocol import ApiKey
from kproxy.protocol.addresses import Address
from kproxy.replay.cluster import Cluster, all_topics, map_nodes, node_of
from tests.support.ports import free_ports
from tests.support.replayed import PATIENCE_S, RecordedBroker, before, recorded, serving


def test_what_it_is_asked() -> None:
    async def work() -> None:
        broker = RecordedBroker(recorded(1))
        async with before(broker) as cluster:
            assert cluster.topics["orders"].partitions == 3
            assert cluster.nodes == {1: Address("127.0.0.1", broker.port)}
            assert cluster.spoken(ApiKey.PRODUCE) == (3, 13)  # it says 0 to 13; ProduceRequest.json has 3 to 13
            assert not cluster.speaks(ApiKey.LEADER_AND_ISR)
        assert {api for api, _ in broker.asked} == {ApiKey.API_VERSIONS, ApiKey.METADATA}

    asyncio.run(work())


def test_it_is_asked_for_topics_without_creating_any() -> None:
    assert all_topics(12).topics is None and not all_topics(12).allow_auto_topic_creation
    assert all_topics(1).topics is None
    assert all_topics(0).topics == []  # all of them, in version 0


def test_nothing_listens() -> None:
    with pytest.raises(UpstreamError, match="refused"):
        asyncio.run(Cluster.ask(Address("127.0.0.1", free_ports(1)), None, PATIENCE_S))


def test_what_is_no_broker() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def work() -> None:
        async with serving(serve) as port:
            with pytest.raises(UpstreamError, match="is it a broker, without TLS"):
                await Cluster.ask(Address("127.0.0.1", port), None, PATIENCE_S)

    asyncio.run(work())


def test_nodes() -> None:
    one, three = {0: Address("a", 1)}, {n: Address("a", n) for n in (1, 2, 3)}
    assert map_nodes({"x:1": 1, "y:1": 2, "z:1": 3}, one) == {1: 0, 2: 0, 3: 0}
    assert map_nodes({"x:1": 1, "y:1": 2}, three) == {1: 1, 2: 2}
    assert map_nodes({"x:1": 101, "y:1": 102}, three) == {101: 1, 102: 2}
    assert map_nodes({"x:1": 1}, {}) == {}


def test_the_node_of_a_recorded_connection() -> None:
    nodes = {"kafka-1:9092": 1, "kafka-2:9093": 2, "kafka-3:9093": 3}
    assert node_of("kafka-2:9093", nodes) == 2
    assert node_of("10.0.0.1:9092", nodes) == 1  # the port is one node's alone
    assert node_of("10.0.0.2:9093", nodes) is None
