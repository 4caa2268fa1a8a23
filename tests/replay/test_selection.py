"""Which requests are not sent: by what the manifest and captures/README.md say is in the captures."""

from collections import Counter
from pathlib import Path

import pytest

from kproxy.protocol import ApiKey, facts
from kproxy.replay.plan import make_plan
from kproxy.replay.recording import read_recording
from kproxy.replay.report import plan_lines
from kproxy.replay.selection import DECLINED, INTERNAL, LOGIN, REPLICA, is_internal, reason_not_sent
from tests.replay.test_plan import cluster
from tests.support.built_captures import Conversation, pcap
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
from tests.support.replayed import recorded


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


@pytest.mark.parametrize("api_key", [api.key for api in facts().apis.values() if api.listeners == ("controller",)])
def test_no_api_of_controllers_is_for_clients(api_key: int) -> None:
    assert is_internal(api_key, 0)


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
