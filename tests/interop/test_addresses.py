"""No byte that a client is sent tells it where a broker is; and ApiVersions is as the broker gave it.

Three brokers, asked with a socket: what a response holds is looked for in its bytes, not decoded.
"""

import base64
from collections.abc import Iterator
from struct import pack, unpack_from

import pytest

from kproxy.protocol import message
from tests.support.frames import batch, record, request
from tests.support.kafka.brokers import Cluster
from tests.support.kafka.fixtures import DIRECT, Entrance
from tests.support.kafka.processes import eventually
from tests.support.kafka.proxies import HOST
from tests.support.sampled import sampled
from tests.support.sockets import Wire, address, end_offsets, metadata

pytestmark = pytest.mark.skipif(DIRECT, reason="is about what the proxy does to addresses")
TOPIC = "addresses"
NOT_LEADER = 6
METADATA_OF_TOPIC = (
    f'{{"topics": [{{"topicId": "{"A" * 22}", "name": "{TOPIC}"}}],'
    ' "allowAutoTopicCreation": false, "includeTopicAuthorizedOperations": false}'
)


@pytest.fixture(scope="module")
def spread(three: Cluster) -> str:
    """A topic whose partition i is led by broker i + 1, one replica each, so that leaders stay."""
    return three.topic(TOPIC, 3, replicas=1)


def asked(wire: Wire, name: str, version: int, json: str) -> bytes:
    """The whole response frame to a request given as Kafka's JSON."""
    layout = message(f"{name}Request")
    flexible = version in layout.flexible_versions
    body = layout.encode(version, layout.from_json(version, json))
    wire.send(request(layout.api_key, version, 7, body, tags=b"\0" if flexible else b""))
    return wire.frame()


def real_ports(cluster: Cluster) -> Iterator[bytes]:
    """What would give a broker away: the gates' ports and its own, as int32."""
    yield from (pack(">i", address(told)[1]) for told in cluster.told.values())
    yield from (pack(">i", port) for broker in cluster.brokers.values() for port in broker.ports.values())


def leaks(cluster: Cluster, frame: bytes) -> list[bytes]:
    """What of a broker's addresses stands in *frame*. That it is found where it stands, each test sees from a broker."""
    return [needle for needle in (b"127.0.0.2", *real_ports(cluster)) if needle in frame]


def port_of(entrance: Entrance, node: int) -> bytes:
    """Where a broker is to be found by clients: the listening port + 1 + its node id."""
    return pack(">i", address(entrance.bootstrap)[1] + 1 + node)


def topic_id(entrance: Entrance) -> str:
    """Of the topic, as Kafka writes it (base64 without padding), from Metadata v12 past the proxy."""
    with Wire(entrance.cluster.open) as wire:
        frame = asked(wire, "Metadata", 12, METADATA_OF_TOPIC)
    start = frame.index(TOPIC.encode()) + len(TOPIC)
    return base64.urlsafe_b64encode(frame[start : start + 16]).decode().rstrip("=")


@pytest.mark.slow
def test_the_proxys_ports_are_the_listening_one_and_node_ids_added(entrance_to_three: Entrance) -> None:
    first = address(entrance_to_three.bootstrap)[1]
    assert metadata(entrance_to_three.bootstrap).brokers == {node: f"{HOST}:{first + 1 + node}" for node in (1, 2, 3)}


def test_each_port_leads_to_its_broker(entrance_to_three: Entrance, spread: str) -> None:
    straight = metadata(entrance_to_three.cluster.open).brokers
    through = metadata(entrance_to_three.bootstrap).brokers
    config = (
        '{"resources": [{"resourceType": 4, "resourceName": "%d", "configurationKeys": ["node.id"]}],'
        ' "includeSynonyms": false, "includeDocumentation": false}'
    )
    for node in through:
        with Wire(through[node]) as one, Wire(straight[node]) as other:
            assert asked(one, "DescribeConfigs", 4, config % node) == asked(other, "DescribeConfigs", 4, config % node)


QUORUM = '{"topics": [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]}'
REQUESTS = {
    "Metadata": '{"topics": null, "allowAutoTopicCreation": false, "includeTopicAuthorizedOperations": false}',
    "FindCoordinator": '{"keyType": 0, "coordinatorKeys": ["a", "b", "c", "d"]}',
    "DescribeCluster": '{"includeClusterAuthorizedOperations": false, "endpointType": 1}',
    "DescribeCluster 2": '{"includeClusterAuthorizedOperations": false, "endpointType": 1, "includeFencedBrokers": true}',
    "Metadata 9": '{"topics": null, "allowAutoTopicCreation": false, "includeClusterAuthorizedOperations": false,'
    ' "includeTopicAuthorizedOperations": false}',
}


@pytest.mark.parametrize(
    ("name", "version"),
    [
        *(("Metadata", version) for version in (9, 12, 13)),
        *(("FindCoordinator", version) for version in (4, 6)),
        *(("DescribeCluster", version) for version in (1, 2)),
    ],
)
def test_brokers_are_named_by_the_proxys_addresses(entrance_to_three: Entrance, name: str, version: int) -> None:
    cluster = entrance_to_three.cluster
    json = REQUESTS.get(f"{name} {version}", REQUESTS[name])
    with Wire(entrance_to_three.bootstrap) as wire:

        def answered() -> bytes:
            frame = asked(wire, name, version, json)
            assert any(port_of(entrance_to_three, node) in frame for node in (1, 2, 3))
            return frame

        frame = eventually(answered, what=f"{name} names a broker")  # coordinators have to be found first
    assert leaks(cluster, frame) == []
    with Wire(cluster.open) as wire:  # another broker, which may not know the coordinators yet
        eventually(lambda: leaks(cluster, asked(wire, name, version, json)), what=f"a broker's own {name} names one")
    if name != "FindCoordinator":
        assert all(port_of(entrance_to_three, node) in frame for node in (1, 2, 3))


def test_the_quorums_listeners_are_not_told(entrance_to_three: Entrance) -> None:
    cluster = entrance_to_three.cluster
    with Wire(entrance_to_three.bootstrap) as wire:
        frame = asked(wire, "DescribeQuorum", 2, QUORUM)
    with Wire(cluster.open) as wire:
        straight = asked(wire, "DescribeQuorum", 2, QUORUM)
    ports = [pack(">H", broker.ports["CONTROL"]) for broker in cluster.brokers.values()]  # uint16 in this API
    assert b"__cluster_metadata" in frame
    assert [port for port in ports if port in straight] == ports
    assert [port for port in ports if port in frame] == []


def produce(version: int, topic: str, partition: int, data: bytes) -> bytes:
    """Produce from v13 names the topic by its id, given as 16 bytes in *topic*'s place."""
    layout = message("ProduceRequest")
    named = f'"topicId": "{topic}"' if version >= 13 else f'"name": "{topic}"'
    json = (
        f'{{"transactionalId": null, "acks": -1, "timeoutMs": 8000, "topicData": [{{{named}, "partitionData":'
        f' [{{"index": {partition}, "records": "{base64.b64encode(data).decode()}"}}]}}]}}'
    )
    body = layout.encode(version, layout.from_json(version, json))
    return request(0, version, 7, body, tags=b"\0")


@pytest.mark.parametrize("size", [20, 900_000])
@pytest.mark.parametrize("version", sampled([9, 10, 11, 12, 13], [9, 13]))
def test_produce_to_another_than_the_leader(entrance_to_three: Entrance, spread: str, version: int, size: int) -> None:
    """KIP-951: from v10 on the response has the leader's address in a tagged field."""
    topic = topic_id(entrance_to_three) if version >= 13 else spread
    before = end_offsets(entrance_to_three.cluster.open, spread)
    frames = []
    for bootstrap in (entrance_to_three.bootstrap, entrance_to_three.cluster.open):
        with Wire(metadata(bootstrap).brokers[1]) as wire:
            wire.send(produce(version, topic, 2, batch(record(None, b"x" * size), 1)))
            frames.append(wire.frame())
    frame, straight = frames
    assert pack(">ih", 2, NOT_LEADER) in frame
    assert leaks(entrance_to_three.cluster, frame) == []
    assert bool(leaks(entrance_to_three.cluster, straight)) == (version >= 10)
    assert (port_of(entrance_to_three, 3) in frame) == (version >= 10)
    assert end_offsets(entrance_to_three.cluster.open, spread) == before


FETCH = (
    '{{"maxWaitMs": 100, "minBytes": 1, "maxBytes": 52428800, "isolationLevel": 0, "sessionId": 0, "sessionEpoch": -1,'
    ' "topics": [{{"topicId": "{topic}", "partitions": [{partitions}]}}], "forgottenTopicsData": [], "rackId": ""}}'
)
FETCH_PARTITION = (
    '{{"partition": {0}, "currentLeaderEpoch": -1, "fetchOffset": 0, "lastFetchedEpoch": -1, "logStartOffset": -1,'
    ' "partitionMaxBytes": 52428800}}'
)


@pytest.mark.parametrize("version", sampled([15, 16, 17], [17]))
@pytest.mark.parametrize("records", [0, 8])
def test_fetch_from_another_than_the_leader(
    entrance_to_three: Entrance, spread: str, version: int, records: int
) -> None:
    """The node endpoints stand at the end, behind whatever records the partitions led here have."""
    where = metadata(entrance_to_three.bootstrap).brokers
    for _ in range(records):
        with Wire(where[1]) as wire:
            wire.send(produce(11, spread, 0, batch(record(None, b"y" * 500_000), 1)))
            wire.frame()
    partitions = ",".join(FETCH_PARTITION.format(partition) for partition in (0, 1, 2))
    with Wire(where[1]) as wire:
        frame = asked(wire, "Fetch", version, FETCH.format(topic=topic_id(entrance_to_three), partitions=partitions))
    assert len(frame) > records * 400_000
    assert pack(">ih", 1, NOT_LEADER) in frame
    assert leaks(entrance_to_three.cluster, frame[-2_000:]) == []
    assert b"127.0.0.2" not in frame
    for leader in (2, 3):
        assert (port_of(entrance_to_three, leader) in frame[-2_000:]) == (version >= 16)


def api_versions(entrance: Entrance, version: int) -> tuple[bytes, bytes]:
    """The response through the proxy and the broker's own."""
    body, tags = (b"\x05wire\x041.0\0", b"\0") if version >= 3 else (b"", b"")
    frames = []
    for bootstrap in (entrance.bootstrap, entrance.cluster.open):
        with Wire(bootstrap) as wire:
            wire.send(request(18, version, 5, body, tags=tags))
            frames.append(wire.frame())
    through, straight = frames
    return through, straight


@pytest.mark.parametrize("version", range(5))
def test_api_versions_is_as_the_broker_gave_it(entrance_to_three: Entrance, version: int) -> None:
    def same() -> bool:  # but for the epoch of the finalized features, which goes up while one asks
        through, straight = api_versions(entrance_to_three, version)
        assert unpack_from(">h", through, 8)[0] == 0
        return through == straight

    eventually(same, what="the same bytes")


def test_an_api_versions_request_of_the_future_is_refused_by_the_broker(entrance_to_three: Entrance) -> None:
    """KIP-511: error 35 in the layout of version 0, byte for byte."""
    through, straight = api_versions(entrance_to_three, 77)
    assert through == straight
    assert unpack_from(">h", through, 8)[0] == 35
