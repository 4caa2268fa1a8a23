"""The new cluster: what it is asked, connections to brokers that lie or say nothing, and where requests go."""

import asyncio
from collections.abc import Awaitable, Callable
from struct import pack
from typing import Any

import pytest

from kproxy.errors import UpstreamError
from kproxy.protocol import ApiKey, message, read_request_header
from kproxy.protocol.addresses import Address
from kproxy.protocol.constants import ZERO_UUID
from kproxy.proxy.broker_client import request_header
from kproxy.proxy.network.upstream import Upstream
from kproxy.replay.cluster import Cluster, Link, LinkClosed, Topic, all_topics, is_answered, map_nodes, node_of
from kproxy.replay.connections import GROUP, TRANSACTION, Router, coordinator_key, partitions
from kproxy.replay.plan import make_plan
from kproxy.replay.recording import Recorded
from tests.support.backend import Serve, frame_from, listening
from tests.support.ports import free_ports
from tests.support.replayed import PATIENCE_S, RecordedBroker, before, recorded


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
        asyncio.run(Cluster.connect(Address("127.0.0.1", free_ports(1)), None, PATIENCE_S))


def test_what_is_no_broker() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def work() -> None:
        async with listening(serve) as port:
            with pytest.raises(UpstreamError, match="is it a broker, without TLS"):
                await Cluster.connect(Address("127.0.0.1", port), None, PATIENCE_S)

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


async def linked(serve: Serve, work: Callable[[Link], Awaitable[None]]) -> None:
    async with listening(serve) as port:
        link = await Link.open(Upstream(allow_link_local=True), "127.0.0.1", port, None, PATIENCE_S)
        await work(link)
        link.abort("done")


async def ask(link: Link) -> bytes:
    future = await link.send(ApiKey.API_VERSIONS, 0, b"")
    assert future is not None
    return await asyncio.wait_for(future, PATIENCE_S)


def test_answers_in_their_order() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        both = [await frame_from(reader), await frame_from(reader)]
        writer.write(b"".join(pack(">i", 6) + one[4:8] + pack(">h", n) for n, one in enumerate(both)))
        await reader.read(1)

    async def work(link: Link) -> None:
        one, two = asyncio.ensure_future(ask(link)), asyncio.ensure_future(ask(link))
        assert (await one)[4:] == b"\0\0" and (await two)[4:] == b"\0\1"

    asyncio.run(linked(serve, work))


BAD = {
    "closed": (b"", "closed the connection"),
    "half a frame": (b"\0\0\0\x10\0\0", "closed the connection"),
    "a size that Kafka does not send": (b"\x7f\xff\xff\xff", "sent a size field of 2147483647"),
    "TLS": (b"\x15\x03\x03\x00\x02\x02\x46", "speaks TLS: give --tls"),  # a fatal alert, protocol_version
    "no Kafka": (b"HTTP/1.1 400 Bad Request", "is it a broker, without TLS"),
    "another correlation id": (pack(">ii", 4, 999), "in another order"),
}


@pytest.mark.parametrize(("sent", "words"), BAD.values(), ids=BAD)
def test_a_broker_that_fails(sent: bytes, words: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await frame_from(reader)
        writer.write(sent)

    async def work(link: Link) -> None:
        with pytest.raises(LinkClosed, match=words):
            await ask(link)
        with pytest.raises(LinkClosed, match=words):
            await link.send(ApiKey.API_VERSIONS, 0, b"")

    asyncio.run(linked(serve, work))


def test_an_answer_to_nothing() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(pack(">ii", 4, 1))
        await reader.read()

    async def work(link: Link) -> None:
        while link.closed is None:
            await asyncio.sleep(0.01)
        assert "an answer to nothing" in link.closed

    asyncio.run(linked(serve, work))


def test_a_request_that_is_not_answered_by_design() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await frame_from(reader)
        second = await frame_from(reader)
        writer.write(pack(">i", 4) + second[4:8])
        await reader.read(1)

    async def work(link: Link) -> None:
        assert await link.send(ApiKey.PRODUCE, 3, b"", answered=False) is None
        assert len(await ask(link)) == 4

    asyncio.run(linked(serve, work))


def test_a_port_where_nothing_listens() -> None:
    async def work() -> None:
        with pytest.raises(UpstreamError):
            await Link.open(Upstream(), "127.0.0.1", free_ports(1), None, PATIENCE_S)

    asyncio.run(work())


def test_headers_are_read_again() -> None:
    tags = ((3, b"abc"), (200, b"x" * 200))
    for version, kept in ((4, tags), (0, ())):  # ApiVersions is flexible from 3 on
        read = read_request_header(request_header(ApiKey.API_VERSIONS, version, 7, "käse".encode(), tags))
        assert (read.api_version, read.correlation_id, read.client_id) == (version, 7, "käse")
        assert read.unknown_tags == kept
    assert read_request_header(request_header(ApiKey.FETCH, 4, 1, None)).client_id is None


def test_what_is_answered() -> None:
    class Body:
        acks = 0

    assert not is_answered(ApiKey.PRODUCE, Body())
    assert is_answered(ApiKey.FETCH, Body())


NODES = {node: Address("127.0.0.1", node) for node in (1, 2, 3)}


def made(name: str, version: int, json: str) -> Any:
    return message(name).from_json(version, json)


GROUP_REQUESTS = {
    "HeartbeatRequest": (4, '{"groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": null}'),
    "DescribeGroupsRequest": (5, '{"groups": ["g", "h"], "includeAuthorizedOperations": false}'),
    "OffsetFetchRequest": (8, '{"groups": [{"groupId": "g", "topics": null}], "requireStable": false}'),
}


@pytest.mark.parametrize("name", GROUP_REQUESTS)
def test_requests_for_coordinators_of_groups(name: str) -> None:
    version, json = GROUP_REQUESTS[name]
    body = made(name, version, json)
    api_key = message(name).api_key
    assert api_key is not None and coordinator_key(api_key, body) == (GROUP, "g")


def test_requests_for_coordinators_of_transactions() -> None:
    body = made(
        "AddOffsetsToTxnRequest", 3, '{"transactionalId": "t", "producerId": 1, "producerEpoch": 0, "groupId": "g"}'
    )
    assert coordinator_key(ApiKey.ADD_OFFSETS_TO_TXN, body) == (TRANSACTION, "t")
    no_transaction = made(
        "InitProducerIdRequest",
        4,
        '{"transactionalId": null, "transactionTimeoutMs": 1, "producerId": -1, "producerEpoch": -1}',
    )
    assert coordinator_key(ApiKey.INIT_PRODUCER_ID, no_transaction) is None


def listed(*numbers: int) -> Any:
    asked = ", ".join(
        f'{{"partitionIndex": {number}, "currentLeaderEpoch": -1, "timestamp": -1}}' for number in numbers
    )
    json = f'{{"replicaId": -1, "isolationLevel": 0, "topics": [{{"name": "t", "partitions": [{asked}]}}]}}'
    return made("ListOffsetsRequest", 6, json)


def test_partitions() -> None:
    assert list(partitions(listed(0, 4))) == [("t", 0), ("t", 4)]


def router() -> tuple[Router, Recorded]:
    """For topic t with leaders 2, 3 and 3; a recorded ListOffsets, of broker 1."""
    recording = recorded(1)
    topics = {"t": Topic(ZERO_UUID, 3, {0: 2, 1: 3, 2: 3})}
    cluster = Cluster(Address("127.0.0.1", 1), Upstream(), None, 1.0, versions=None, nodes=NODES, topics=topics)
    plan = make_plan(recording, cluster)
    return Router(plan, str), next(one for one in plan.sent if one.api_key == ApiKey.LIST_OFFSETS)


@pytest.mark.parametrize(("numbers", "node"), [((0,), 2), ((1, 2), 3), ((0, 1), 1), ((9,), 1), ((), 1)])
def test_leaders(numbers: tuple[int, ...], node: int) -> None:
    found, one = router()
    assert asyncio.run(found.node(one, listed(*numbers))) == node


def test_a_fetch_session_stays_where_it_began() -> None:
    found, one = router()
    one.api_key = ApiKey.FETCH
    start = '"maxWaitMs": 1, "minBytes": 1, "maxBytes": 9, "isolationLevel": 0, "forgottenTopicsData": [], "rackId": ""'
    partition = (
        '{"partition": 0, "currentLeaderEpoch": -1, "fetchOffset": 4, "lastFetchedEpoch": -1, "logStartOffset": -1,'
    )
    topics = f'[{{"topic": "t", "partitions": [{partition} "partitionMaxBytes": 9}}]}}]'
    first = made(
        "FetchRequest", 12, f'{{{start}, "replicaId": -1, "sessionId": 0, "sessionEpoch": 0, "topics": {topics}}}'
    )
    later = made("FetchRequest", 12, f'{{{start}, "replicaId": -1, "sessionId": 7, "sessionEpoch": 1, "topics": []}}')
    assert asyncio.run(found.node(one, first)) == 2
    assert asyncio.run(found.node(one, later)) == 2
