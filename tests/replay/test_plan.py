"""What is sent and what is needed for it, before clusters with other APIs, versions and topics."""

from typing import Any

from kproxy.protocol.addresses import Address
from kproxy.protocol.ids import ZERO_UUID
from kproxy.proxy.network.upstream import Upstream
from kproxy.replay.cluster import Cluster, Topic
from kproxy.replay.plan import make_plan
from tests.support.replayed import recorded

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
