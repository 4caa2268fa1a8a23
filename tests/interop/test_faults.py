"""Faults into two clients before a cluster of three brokers: each reads that error, in the response of the call that is named.

What the client has read is in its own log (tests/support/fault_clients); what its program is told is compared too: the error, or
nothing, when the client asks again by itself. SAYS has the other words that a client uses for an error, and where it says so.
"""

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kproxy.testing import InjectedFault, Proxy
from tests.support.error_sources import PAIRS
from tests.support.fault_clients import RECORDS, FaultClient
from tests.support.fault_clients.java import JavaClient
from tests.support.fault_clients.librdkafka import LibrdkafkaClient
from tests.support.kafka.brokers import Cluster

TOPIC = "faults"
CLIENTS = {"java": JavaClient, "librdkafka": LibrdkafkaClient}
CALL = {"Produce": 2, "Fetch": 2, "Metadata": 2, "JoinGroup": 2, "OffsetCommit": 2}  # of the others the first
# Brokers' own answers to JoinGroup: to the first of a member (KIP-394), and while the coordinator of its group begins
NATURAL = {"MEMBER_ID_REQUIRED", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"}
# librdkafka shows these only in what list_topics gives, and at its begin asks for metadata by itself as well
LISTED = {"LISTENER_NOT_FOUND", "REPLICA_NOT_AVAILABLE", "REBOOTSTRAP_REQUIRED"}
# librdkafka opens no fetch sessions, and reads the error of the whole response without a look (rd_kafka_fetch_reply_handle)
NOT_LOOKED_AT = {
    ("librdkafka", "Fetch", error)
    for error in ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR")
}
SAYS: dict[tuple[str, str], dict[str, str]] = {
    ("java", "Fetch"): {  # FetchCollector.handleInitializeErrors
        "OFFSET_OUT_OF_RANGE": "OffsetOutOfRangeException",
        "CORRUPT_MESSAGE": "KafkaException",
        "UNSUPPORTED_COMPRESSION_TYPE": "IllegalStateException",
    },
    ("java", "Metadata"): {
        "REBOOTSTRAP_REQUIRED": "KafkaException"
    },  # of a topic, below version 13 (TopicMetadataFetcher)
    ("java", "OffsetCommit"): {  # ConsumerCoordinator.OffsetCommitResponseHandler
        **dict.fromkeys(("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"), "CommitFailedException"),
        **dict.fromkeys(("INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING", "GROUP_ID_NOT_FOUND"), "KafkaException"),
        **dict.fromkeys(("UNKNOWN_TOPIC_ID", "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH"), "KafkaException"),
    },
    ("java", "InitProducerId"): {  # TransactionManager.InitProducerIdHandler
        "INVALID_PRODUCER_EPOCH": "PRODUCER_FENCED",
        **dict.fromkeys(("INVALID_TRANSACTION_TIMEOUT", "INVALID_PRODUCER_ID_MAPPING"), "KafkaException"),
    },
    ("librdkafka", "Fetch"): {"OFFSET_OUT_OF_RANGE": "_AUTO_OFFSET_RESET"},  # rd_kafka_offset_reset
    ("librdkafka", "JoinGroup"): {"FENCED_INSTANCE_ID": "_FATAL"},  # rd_kafka_set_fatal_error
    ("librdkafka", "InitProducerId"): dict.fromkeys(("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"), "_FENCED"),
}
SAMPLE = {
    "Produce": "NOT_LEADER_OR_FOLLOWER",
    "Fetch": "TOPIC_AUTHORIZATION_FAILED",
    "Metadata": "INVALID_TOPIC_EXCEPTION",
    "FindCoordinator": "COORDINATOR_LOAD_IN_PROGRESS",
    "JoinGroup": "GROUP_AUTHORIZATION_FAILED",
    "OffsetCommit": "OFFSET_METADATA_TOO_LARGE",
    "InitProducerId": "CONCURRENT_TRANSACTIONS",
    "ApiVersions": "UNSUPPORTED_VERSION",
}


def with_records(cluster: Cluster, topic: str) -> Cluster:
    """The cluster, with a topic that has some batches of one record."""
    cluster.topic(topic)
    producer = Producer({"bootstrap.servers": cluster.open, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number)
        assert producer.flush(60) == 0
    return cluster


@pytest.fixture(scope="module")
def proxy(three: Cluster) -> Iterator[Proxy]:
    """A proxy in front of the cluster."""
    with Proxy(with_records(three, TOPIC).bootstrap()) as running:
        yield running


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, FaultClient]]:
    started: dict[str, FaultClient] = {}
    yield started
    for client in started.values():
        client.close()


def judge(proxy: Proxy, client: FaultClient, api: str, error: str) -> None:
    client_id, call, settings = f"{client.name}-{uuid.uuid4().hex[:8]}", CALL.get(api, 1), {}
    if error == "FENCED_INSTANCE_ID":
        settings = {"group.instance.id": client_id}
        call = 1 if api == "JoinGroup" else call  # a static member is not sent back for a member id
    topic = {"topic": TOPIC} if api == "Metadata" else {}  # clients ask for brokers as they like
    added: list[InjectedFault] = []

    def add() -> None:
        added.append(proxy.fault(api_name=api, error=error, client_id=client_id, call=call, **topic))

    if isinstance(client, LibrdkafkaClient) and api == "Metadata" and error in LISTED:
        settings, client.before_listings = {"list": "yes"}, add
    else:
        add()
    try:
        seen = client.run(api, proxy.bootstrap, TOPIC, client_id, settings)
        fired = added[0].fired
    finally:
        for fault in added:
            fault.remove()
    told = next((one for one in seen.said if one), None)
    if (client.name, api, error) in NOT_LOOKED_AT:
        assert (fired, seen.failed, told) == (1, {}, None)
        return
    said = f"{seen.said}, responses {[sorted(one) for one in seen.responses]}"
    assert fired == 1, said
    assert seen.responses[call - 1] == {error}, said
    assert set().union(*seen.responses[: call - 1]) <= (NATURAL if api == "JoinGroup" else set()), said
    if told is None:
        assert len(seen.responses) > call or api == "Metadata", said
    else:
        assert told == SAYS.get((client.name, api), {}).get(error, error), said


@pytest.mark.parametrize(
    ("name", "api"),
    [
        pytest.param(name, api, marks=() if name == "librdkafka" or api == "Produce" else pytest.mark.slow)
        for name in CLIENTS
        for api in SAMPLE
    ],
)
def test_a_client_reads_the_error_at_the_call_that_is_named(
    proxy: Proxy, clients: dict[str, FaultClient], name: str, api: str
) -> None:
    judge(proxy, clients.get(name) or clients.setdefault(name, CLIENTS[name]()), api, SAMPLE[api])


@pytest.mark.long
@pytest.mark.parametrize(("api", "error"), [pair for pair in PAIRS if SAMPLE[pair[0]] != pair[1]])
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_reads_every_documented_error_at_the_call_that_is_named(
    proxy: Proxy, clients: dict[str, FaultClient], name: str, api: str, error: str
) -> None:
    judge(proxy, clients.get(name) or clients.setdefault(name, CLIENTS[name]()), api, error)
