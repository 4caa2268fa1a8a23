"""Requests for the new cluster: the recorded bytes where nothing is replaced, and what is replaced where something is."""

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

from kproxy.protocol import ApiKey
from kproxy.protocol.addresses import Address
from kproxy.replay.cluster import Cluster
from kproxy.replay.learned import Learned
from kproxy.replay.plan import Plan
from kproxy.replay.recording import Recording
from kproxy.replay.rewriting import Rewriter, encoded_again
from tests.support.replayed import recorded


def rewriter(recording: Recording, *, nodes: int = 1) -> Rewriter:
    """Before a cluster of so many nodes that speaks the recorded versions."""
    addresses = {number: Address("broker", 9092 + number) for number in range(nodes)}
    cluster = cast(Cluster, SimpleNamespace(nodes=addresses, version=lambda api_key, version: version))
    return Rewriter(Learned(Plan(recording, cluster)), Counter())


def test_a_request_without_ids_leaves_as_it_was_recorded() -> None:
    recording = recorded(1)
    found = rewriter(recording)
    for one in recording.requests:
        if one.api_key == ApiKey.METADATA:
            assert found.rewrite(one).encoded.body == one.request.data[one.request.body_start :]


def test_ids_are_those_of_the_new_cluster() -> None:
    recording = recorded(1)
    found = rewriter(recording)
    one = next(one for one in recording.requests if one.api_key == ApiKey.SYNC_GROUP)
    found.learned.identities.members[one.body().member_id] = "its-new-id"
    ready = found.rewrite(one)
    assert one.request.message is not None
    assert one.request.message.decode(ready.encoded.version, ready.encoded.body).member_id == "its-new-id"
    assert ready.encoded.body == encoded_again(one, ready).encoded.body


def test_no_more_replicas_are_asked_for_than_there_are_brokers() -> None:
    recording = recorded(10)
    one = next(
        one
        for one in recording.requests
        if one.api_key == ApiKey.CREATE_TOPICS and any(topic.replication_factor > 1 for topic in one.body().topics)
    )
    asked: Any = one.body()
    found = rewriter(recording)
    body = found.rewrite(one).body
    assert [topic.replication_factor for topic in body.topics] == [1] * len(asked.topics)
    assert all("lowered to 1" in note for note in found.notes) and sum(found.notes.values()) == len(asked.topics)
    as_many = rewriter(recording, nodes=3)
    assert as_many.rewrite(one).encoded.body == one.request.data[one.request.body_start :] and not as_many.notes
