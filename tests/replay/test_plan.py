"""Plans: what is sent, what topics are created, what has to be prepared."""

import asyncio
from typing import Any

import pytest

from kproxy.errors import UpstreamError
from kproxy.protocol import ApiKey
from kproxy.protocol.addresses import Address
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.structs import struct_types
from kproxy.proxy.network.upstream import Upstream
from kproxy.replay.automatic_topics import AutomaticTopics
from kproxy.replay.cluster import Cluster, Topic
from kproxy.replay.effects import Effects, Verb
from kproxy.replay.identities import Identities
from kproxy.replay.plan import make_plan
from kproxy.replay.preparing import learn_topic_ids, prepare
from tests.support.replayed import RecordedBroker, before, recorded

HERE = Address("127.0.0.1", 1)
ALL = dict.fromkeys(range(100), (0, 99))


def cluster(versions: Any = ALL, topics: Any = ()) -> Cluster:
    known = {name: Topic(ZERO_UUID, 1) for name in topics}
    return Cluster(HERE, Upstream(), None, 1.0, versions=versions, nodes={0: HERE}, topics=known)


def test_a_cluster_that_speaks_all() -> None:
    plan = make_plan(recorded(4), cluster())
    assert len(plan.sent) == 105  # ApiVersions of the two connections between brokers is left out, too
    assert sum(plan.unsent.values()) == 19
    assert plan.missing_topics == {"tx": 2}  # captures/README.md
    assert make_plan(recorded(4), cluster(topics=["tx"])).missing_topics == {}


def test_apis_and_versions_that_it_lacks() -> None:
    without = {key: versions for key, versions in ALL.items() if key != 68} | {0: (0, 9)}
    plan = make_plan(recorded(2), cluster(without))
    assert plan.unsent == {("ConsumerGroupHeartbeat", "the new broker does not have this API"): 3}
    assert plan.other_versions == {("Produce", 10, 9): 8}


def test_a_cluster_that_does_not_answer_api_versions() -> None:
    assert len(make_plan(recorded(8), cluster(None)).sent) == 39  # of 41: all but UpdateMetadata and LeaderAndIsr


def test_topics_that_the_requests_create_are_not_missing() -> None:
    plan = make_plan(recorded(5), cluster())
    assert plan.needs.created
    assert not plan.needs.created & plan.missing_topics.keys()


def test_producer_ids() -> None:
    whole = make_plan(recorded(1), cluster())
    assert whole.foreign_producers == {}
    alone = make_plan(recorded(1, where='apiName == "Produce"'), cluster())
    assert len(alone.foreign_producers) == 1
    transactional = make_plan(recorded(4, where='apiName == "Produce"'), cluster())
    assert set(transactional.needs.transactional.values()) == {"tx-1"}


def test_connections_between_brokers() -> None:
    plan = make_plan(recorded(10), cluster())
    sent = {one.connection for one in plan.sent}
    internal = {one.connection for one in recorded(10).requests if one.api_name in ("BrokerHeartbeat", "Envelope")}
    assert internal and not internal & sent


def test_nodes() -> None:
    recording = recorded(10)
    plan = make_plan(recording, cluster())
    assert set(plan.nodes.values()) == {0}
    assert {plan.node(one) for one in plan.sent} <= {0, None}


def created(api_key: int, body: Any, *there: str) -> list[str]:
    """What is said to be created."""
    found, effects = AutomaticTopics(), Effects()
    found.add(api_key, body)
    found.note(effects, there)
    assert {verb for verb, _ in effects.found} <= {Verb.CREATE}
    return [subject for _, subject in effects.found]


def metadata(**fields: Any) -> Any:
    types = struct_types("MetadataRequest")
    return types["MetadataRequest"](topics=[types["MetadataRequestTopic"](name="a")], **fields)


def test_by_metadata() -> None:
    assert created(ApiKey.METADATA, metadata()) == ["topic a, where auto.create.topics.enable is true, by Metadata"]
    assert created(ApiKey.METADATA, metadata(), "a") == []
    assert created(ApiKey.METADATA, metadata(allow_auto_topic_creation=False)) == []
    assert created(ApiKey.METADATA, struct_types("MetadataRequest")["MetadataRequest"](topics=None)) == []  # of all


@pytest.mark.parametrize(
    ("key_type", "topic"), [(0, "__consumer_offsets"), (1, "__transaction_state"), (2, "__share_group_state")]
)
def test_by_find_coordinator(key_type: int, topic: str) -> None:
    body = struct_types("FindCoordinatorRequest")["FindCoordinatorRequest"](key="g", key_type=key_type)
    assert created(ApiKey.FIND_COORDINATOR, body) == [f"topic {topic}, by FindCoordinator"]
    assert created(ApiKey.FIND_COORDINATOR, body, topic) == []


def test_by_a_streams_group() -> None:
    types = struct_types("StreamsGroupHeartbeatRequest")
    sub = types["Subtopology"](
        repartition_source_topics=[types["TopicInfo"](name="g-repartition")],
        state_changelog_topics=[types["TopicInfo"](name="g-changelog")],
        source_topics=["input"],  # which is the application's own
    )
    body = types["StreamsGroupHeartbeatRequest"](group_id="g", topology=types["Topology"](subtopologies=[sub]))
    by = ", internal of streams group g, by StreamsGroupHeartbeat"
    assert created(ApiKey.STREAMS_GROUP_HEARTBEAT, body) == [f"topic g-repartition{by}", f"topic g-changelog{by}"]
    without = types["StreamsGroupHeartbeatRequest"](group_id="g", topology=None)
    assert created(ApiKey.STREAMS_GROUP_HEARTBEAT, without) == []


def test_topics_of_the_same_name_are_the_same() -> None:
    async def work() -> None:
        recording = recorded(1)
        async with before(RecordedBroker(recording)) as cluster:
            identities = Identities()
            learn_topic_ids(make_plan(recording, cluster), identities)
            [topic_id] = recording.names
            assert identities.uuids == {topic_id: topic_id}  # the broker has the recorded one

    asyncio.run(work())


def test_a_broker_that_gives_no_producer_id() -> None:
    async def work() -> None:
        recording = recorded(1)
        async with before(RecordedBroker(recording)) as cluster:
            cluster.patience = 0.5
            plan = make_plan(recorded(1, where='apiName == "Produce"'), cluster)
            with pytest.raises(UpstreamError, match="before the first request: "):
                await prepare(plan, Identities())

    asyncio.run(work())
