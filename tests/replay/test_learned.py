"""What a replay knows of both clusters: topics by the new cluster's ids, and sessions by recorded connection."""

from typing import Any, cast

from kproxy.replay.cluster import Cluster
from kproxy.replay.learned import Learned
from kproxy.replay.plan import Plan
from tests.support.replayed import recorded

NEW = "1f1b6a51-5ac5-4a3e-8f3b-1d7f6a1f2c3d"


def test_topics_by_the_new_cluster_s_ids() -> None:
    recording = recorded(1)
    [old] = [topic_id for topic_id, name in recording.names.items() if name == "orders"]
    learned = Learned(Plan(recording, cast(Cluster, None)))
    assert (learned.names(), learned.name(NEW)) == ({}, NEW)
    learned.identities.uuids[old] = NEW
    assert (learned.names(), learned.ids(), learned.name(NEW)) == ({NEW: "orders"}, {"orders": NEW}, "orders")


def test_sessions_are_those_of_the_recorded_connection() -> None:
    recording = recorded(1)
    learned = Learned(Plan(recording, cast(Cluster, None)))
    first = recording.requests[0]
    other: Any = next(one for one in recording.requests if one.connection != first.connection)
    assert learned.fetch_sessions(first) is learned.fetch_sessions(first) is not learned.fetch_sessions(other)
    assert learned.share_sessions(first) is learned.share_sessions(first) is not learned.share_sessions(other)
