"""Recordings and plans: what is read, against the manifest; what is sent, what is not, and what has to be prepared."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kproxy.errors import UpstreamError, UsageError
from kproxy.protocol import ApiKey, facts
from kproxy.protocol.addresses import Address
from kproxy.protocol.constants import ZERO_UUID
from kproxy.proxy.network.upstream import Upstream
from kproxy.replay.cluster import Cluster, Topic
from kproxy.replay.effects import Effects, Verb
from kproxy.replay.identities import Identities
from kproxy.replay.plan import (
    DECLINED,
    INTERNAL,
    LOGIN,
    REPLICA,
    AutomaticTopics,
    is_internal,
    make_plan,
    reason_not_sent,
)
from kproxy.replay.preparing import learn_topic_ids, prepare
from kproxy.replay.recording import read_recording
from kproxy.replay.report import plan_lines
from tests.support.built_captures import Conversation, pcap
from tests.support.corpus import CAPTURES
from tests.support.frames import (
    api_versions_refusal,
    compact,
    frame,
    heartbeat,
    heartbeat_answer,
    request,
    sasl_handshake,
    sasl_handshake_answer,
)
from tests.support.messages import make
from tests.support.replayed import RecordedBroker, before, capture, recorded

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
    return make("MetadataRequest", topics=[{"name": "a"}], **fields)


def test_by_metadata() -> None:
    assert created(ApiKey.METADATA, metadata()) == ["topic a, where auto.create.topics.enable is true, by Metadata"]
    assert created(ApiKey.METADATA, metadata(), "a") == []
    assert created(ApiKey.METADATA, metadata(allow_auto_topic_creation=False)) == []
    assert created(ApiKey.METADATA, make("MetadataRequest", topics=None)) == []  # of all


@pytest.mark.parametrize(
    ("key_type", "topic"), [(0, "__consumer_offsets"), (1, "__transaction_state"), (2, "__share_group_state")]
)
def test_by_find_coordinator(key_type: int, topic: str) -> None:
    body = make("FindCoordinatorRequest", key="g", key_type=key_type)
    assert created(ApiKey.FIND_COORDINATOR, body) == [f"topic {topic}, by FindCoordinator"]
    assert created(ApiKey.FIND_COORDINATOR, body, topic) == []


def test_by_a_streams_group() -> None:
    sub = {
        "repartition_source_topics": [{"name": "g-repartition"}],
        "state_changelog_topics": [{"name": "g-changelog"}],
        "source_topics": ["input"],  # which is the application's own
    }
    body = make("StreamsGroupHeartbeatRequest", group_id="g", topology={"subtopologies": [sub]})
    by = ", internal of streams group g, by StreamsGroupHeartbeat"
    assert created(ApiKey.STREAMS_GROUP_HEARTBEAT, body) == [f"topic g-repartition{by}", f"topic g-changelog{by}"]
    without = make("StreamsGroupHeartbeatRequest", group_id="g", topology=None)
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


def reasons(number: int) -> Counter[tuple[str, str | None]]:
    return Counter((one.api_name, reason_not_sent(one)) for one in recorded(number).requests)


def test_what_brokers_do_for_transactions() -> None:
    found = reasons(4)
    assert found["AddPartitionsToTxn", INTERNAL] == 12 and found["WriteTxnMarkers", INTERNAL] == 5
    assert sum(count for (_, reason), count in found.items() if reason is None) == 107  # of 124


def test_logins() -> None:
    found = reasons(6)
    assert found["SaslHandshake", LOGIN] == 5 and found["SaslAuthenticate", LOGIN] == 10


def test_replicas_and_controllers() -> None:
    found = reasons(10)
    assert found["Fetch", REPLICA] == 87 and found["BrokerHeartbeat", INTERNAL] == 12
    assert found["Envelope", INTERNAL] == 1 and found["AllocateProducerIds", INTERNAL] == 1
    assert found["Produce", None] == 3


def test_a_request_that_cannot_be_decoded() -> None:
    one = recorded(1).requests[1]
    one.request = one.request.copy(data=one.request.data[:-3] + b"\xff\xff\xff")
    assert (reason_not_sent(one) or "").startswith("it cannot be decoded: ")
    one.request.message = None
    assert reason_not_sent(one) == "it cannot be decoded: the API is not known"


def test_no_api_of_controllers_is_for_clients() -> None:
    of_controllers = [api for api in facts().apis.values() if api.listeners == ("controller",)]
    assert of_controllers and [api.name for api in of_controllers if not is_internal(api.key, 0)] == []


def test_a_client_adds_partitions_to_its_transaction_up_to_version_3() -> None:
    assert not is_internal(ApiKey.ADD_PARTITIONS_TO_TXN, 3)
    assert is_internal(ApiKey.ADD_PARTITIONS_TO_TXN, 4)


def test_a_version_that_the_recorded_broker_did_not_know() -> None:
    one = next(one for one in recorded(1).requests if one.api_key == ApiKey.API_VERSIONS)
    one.request.unread = True
    assert reason_not_sent(one) == DECLINED


def test_a_login_by_raw_tokens_is_left_out_and_said(tmp_path: Path) -> None:
    """SaslHandshake v0 is followed by tokens without a Kafka header (KIP-43); then come the requests, which are sent."""
    talk = Conversation().handshake()
    talk.send(0, sasl_handshake(1, 0)).send(1, sasl_handshake_answer(1))
    talk.send(0, frame(b"\0alice\0secret")).send(1, frame(b""))
    talk.send(0, heartbeat(2)).send(1, heartbeat_answer(2)).finish()
    file = tmp_path / "raw.pcap"
    file.write_bytes(pcap(talk.packets))
    plan = make_plan(read_recording([file]), cluster())
    assert [one.api_name for one in plan.sent] == ["Heartbeat"]
    assert plan.unsent == {("SaslHandshake", LOGIN): 1}
    said = "\n".join(plan_lines(plan, dry=True))
    assert "2 × raw SASL token, as follows SaslHandshake v0: it is not sent" in said and "--command-config" in said
    assert "secret" not in said


def test_versions_that_the_recorded_broker_declined(tmp_path: Path) -> None:
    """As of franz-go, which asks at the newest version of ApiVersions, with fields that older ones do not have (KIP-511)."""
    newer = facts().apis[ApiKey.API_VERSIONS].versions.highest + 1
    body = compact("kgo") + compact("v1.22.2") + compact("a-cluster") + b"\0\0\0\1" + b"\0"
    talk = Conversation().handshake()
    talk.send(0, request(ApiKey.API_VERSIONS, newer, 1, body, tags=b"\0")).send(1, api_versions_refusal(1))
    talk.send(0, request(ApiKey.API_VERSIONS, newer, 2, body, tags=b"\0")).finish()  # which nothing answers
    file = tmp_path / "newer.pcap"
    file.write_bytes(pcap(talk.packets))
    reasons = [reason_not_sent(one) for one in read_recording([file]).requests]
    assert reasons == [DECLINED, f"version {newer} is newer than kproxy knows"]


MANIFEST = {
    line["file"][:2]: line for line in map(json.loads, (CAPTURES / "MANIFEST.jsonl").read_text("utf-8").splitlines())
}
PLAIN = ("01", "02", "03", "04", "05", "08", "09", "10", "11", "12")


@pytest.mark.parametrize("number", PLAIN)
def test_every_request_is_there(number: str) -> None:
    found = recorded(int(number))
    counts = Counter(f"{one.api_key} v{one.api_version}" for one in found.requests)
    assert counts == MANIFEST[number]["requests_by_api_and_version"]
    assert found.seen == len(found.requests)


def test_requests_are_in_the_order_of_their_times() -> None:
    found = recorded(3).requests
    assert [one.number for one in found] == list(range(1, 127))
    assert [one.sent_at for one in found] == sorted(one.sent_at for one in found)
    assert all(one.answered_at > one.sent_at for one in found if one.answered_at)


def test_the_cluster_is_learned_of_all_requests_whatever_is_selected() -> None:
    found = recorded(1, where='apiName == "Produce"')
    assert [one.api_key for one in found.requests] == [ApiKey.PRODUCE]
    assert found.topics == {"orders": 3}  # as captures/README.md has it
    assert list(found.names.values()) == ["orders"]
    assert found.nodes == {"127.0.0.1:9092": 1}


def test_a_fetch_session_is_kept_in_full_where_it_was_not_selected_whole() -> None:
    every = [one for one in recorded(3).requests if one.api_key == ApiKey.FETCH]
    assert not any(one.session for one in every)
    later = recorded(3, where='apiName == "Fetch" && request.sessionEpoch > 3')
    broken = [one for one in later.requests if one.session is not None]
    assert broken
    assert all(one.body().session_epoch == 4 for one in broken)  # those after it follow it
    assert {p.partition for one in broken for p in one.session.partitions if one.session} <= set(range(6))


def test_a_decoded_log_has_nothing_to_send() -> None:
    with pytest.raises(UsageError, match="is a decoded log, which has no records"):
        read_recording([next((CAPTURES / "decoded").glob("01-*"))])


def test_what_is_held_is_bounded() -> None:
    with pytest.raises(UsageError, match=r"more than 20\.0 KB .*: select some of them with --where"):
        read_recording([capture(1)], most_held=20_000)
