"""Where requests go on a cluster of several nodes; real ones are in tests/interop."""

import asyncio
from typing import Any

import pytest

from kproxy.protocol import ApiKey, message
from kproxy.protocol.addresses import Address
from kproxy.protocol.constants import ZERO_UUID
from kproxy.proxy.network.upstream import Upstream
from kproxy.replay.cluster import Cluster, Topic
from kproxy.replay.plan import make_plan
from kproxy.replay.recording import Recorded
from kproxy.replay.routing import GROUP, TRANSACTION, Router, coordinator_key, partitions
from tests.support.replayed import recorded

NODES = {node: Address("127.0.0.1", node) for node in (1, 2, 3)}


def made(name: str, version: int, json: str) -> Any:
    return message(name).from_json(version, json)


GROUP_REQUESTS = {
    "HeartbeatRequest": (4, '{"groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": null}'),
    "DescribeGroupsRequest": (5, '{"groups": ["g", "h"], "includeAuthorizedOperations": false}'),
    "OffsetFetchRequest": (
        8,
        '{"groups": [{"groupId": "g", "topics": null}], "requireStable": false}',
    ),
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
