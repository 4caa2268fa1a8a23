"""Scripted conversations: what a session says of them."""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.session import (
    BadFrame,
    ClusterView,
    Cut,
    Direction,
    Event,
    Exchange,
    Gap,
    Limits,
    NotKafka,
    SaslToken,
    Session,
)
from tests.support.conversation import broker, client, closing, converse, events_of, new_session, tell
from tests.support.frames import (
    FRANZ_GO_API_VERSIONS,
    KAFKA_4_3_REFUSAL,
    api_versions,
    api_versions_answer,
    api_versions_refusal,
    compact_array,
    delete_topic,
    delete_topic_answer,
    fetch,
    fetch_answer,
    frame,
    heartbeat,
    heartbeat_answer,
    metadata,
    metadata_answer,
    produce,
    produce_answer,
    request,
    response,
    sasl_authenticate,
    sasl_authenticate_answer,
    sasl_handshake,
    sasl_handshake_answer,
    string,
)

UNASKED = "which no request in flight has: the request may be missing in the capture"
GOLDEN_FRAMES = Path(__file__).parents[1] / "golden" / "frames.jsonl.gz"


def exchanges(*steps: Any, session: Session | None = None) -> list[Exchange]:
    return [event for event in events_of(*steps, session=session) if isinstance(event, Exchange)]


# Pairing


def test_a_request_and_its_response_are_one_exchange_with_both_times() -> None:
    (exchange,) = exchanges(client >> heartbeat(7), broker >> heartbeat_answer(7, 27))
    assert (exchange.api_key, exchange.api_version, exchange.correlation_id, exchange.client_id) == (12, 0, 7, "app")
    assert exchange.request is not None and exchange.response is not None
    assert (exchange.request.started_at, exchange.request.ended_at) == (1_000, 1_000)
    assert exchange.response.ended_at == exchange.at == 2_000
    assert exchange.request.wire_size == len(heartbeat(7))
    assert exchange.undecoded is exchange.unanswered is None
    assert exchange.connection.client == "10.0.0.5:51234"


def test_pipelined_requests_are_answered_in_order() -> None:
    said = converse(
        client >> heartbeat(1) + heartbeat(2) + heartbeat(3),
        broker >> heartbeat_answer(1),
        broker >> heartbeat_answer(2) + heartbeat_answer(3),
        closing,
    )
    assert said == ["Heartbeat v0 #1 answered", "Heartbeat v0 #2 answered", "Heartbeat v0 #3 answered"]


def test_a_produce_with_acks_0_is_complete_at_once_and_leaves_nothing_behind() -> None:
    said = converse(client >> produce(1, 0) + produce(2, 1) + produce(3, 0), broker >> produce_answer(2), closing)
    assert said == ["Produce v3 #1 needs no answer", "Produce v3 #3 needs no answer", "Produce v3 #2 answered"]


def test_a_flood_of_acks_0_keeps_no_request() -> None:
    session = new_session(limits=Limits(in_flight=2))
    said = converse(*[client >> produce(number, 0) for number in range(50)], closing, session=session)
    assert said == [f"Produce v3 #{number} needs no answer" for number in range(50)]


def test_a_response_that_nobody_asked_for_pairs_with_nothing() -> None:
    said = converse(broker >> heartbeat_answer(1), client >> heartbeat(1), broker >> heartbeat_answer(1))
    assert said == [f"bad response: a response with correlation id 1, {UNASKED}", "Heartbeat v0 #1 answered"]


def test_an_unknown_correlation_id_leaves_the_request_in_flight() -> None:
    said = converse(client >> heartbeat(1), broker >> heartbeat_answer(99), broker >> heartbeat_answer(1))
    assert said == [f"bad response: a response with correlation id 99, {UNASKED}", "Heartbeat v0 #1 answered"]


def test_a_duplicate_response_is_no_exchange() -> None:
    twice = heartbeat_answer(1) * 2
    said = converse(client >> heartbeat(1) + heartbeat(2), broker >> twice + heartbeat_answer(2))
    assert said == [
        "Heartbeat v0 #1 answered",
        "note on the response: a second answer to Heartbeat request 1, which was answered before",
        "Heartbeat v0 #2 answered",
    ]


def test_swapped_responses_never_pair_with_the_other_request() -> None:
    events = events_of(client >> heartbeat(1) + produce(2, 1), broker >> produce_answer(2) + heartbeat_answer(1))
    assert [tell(event) for event in events] == [
        "bad response: the response to request 2 came before that to request 1, which was sent earlier: brokers answer in order",
        "Heartbeat v0 #1 unanswered",
        "Produce v3 #2 answered",
        "bad response: the response to request 1 came too late: that to a later request came before it",
    ]
    assert isinstance(events[1], Exchange)
    assert events[1].unanswered == (
        "the response to a later request came first, where brokers answer in the order of the requests"
    )


def test_a_later_request_is_not_taken_when_the_body_does_not_fit() -> None:
    said = converse(client >> heartbeat(1) + heartbeat(2), broker >> produce_answer(2) + heartbeat_answer(1))
    assert said[1:] == ["Heartbeat v0 #1 answered"]


def test_a_body_that_does_not_fit_is_paired_and_says_why() -> None:
    (exchange,) = exchanges(client >> heartbeat(1), broker >> response(1, b"\0"))
    assert exchange.response is not None and exchange.response.message is None
    assert exchange.undecoded is not None and exchange.undecoded.startswith("response: HeartbeatResponse v0: errorCode")


def test_too_many_in_flight_lets_the_oldest_go_and_says_so() -> None:
    session = new_session(limits=Limits(in_flight=2))
    events = events_of(*[client >> heartbeat(number) for number in (1, 2, 3)], session=session)
    assert [tell(event) for event in events] == ["Heartbeat v0 #1 unanswered"]
    assert converse(broker >> heartbeat_answer(2), session=session) == ["Heartbeat v0 #2 answered"]


def test_bytes_in_flight_are_bounded_too() -> None:
    session = new_session(limits=Limits(in_flight_size=3 * (len(heartbeat(0)) - 4)))
    said = converse(*[client >> heartbeat(number) for number in range(5)], session=session)
    assert said == ["Heartbeat v0 #0 unanswered", "Heartbeat v0 #1 unanswered"]


# Ends


def test_what_is_unanswered_at_the_end_of_the_capture_says_so() -> None:
    (exchange,) = exchanges(client >> heartbeat(1), closing)
    assert exchange.unanswered == "the capture ended before the response"


@pytest.mark.parametrize("ends", [(), (client.finishes(),), (client.finishes(), broker.finishes())])
def test_requests_without_a_byte_of_the_broker_say_that_it_was_not_recorded(ends: tuple[Any, ...]) -> None:
    words = "nothing the broker sent is in the capture: was only one direction recorded?"
    found = exchanges(client >> heartbeat(1), client >> heartbeat(2), *ends, closing)
    assert [exchange.unanswered for exchange in found] == [words, words]


def test_one_request_without_an_answer_may_be_a_silent_broker() -> None:
    (exchange,) = exchanges(client >> heartbeat(1), client.finishes(), closing)
    assert exchange.unanswered == "the client closed the connection before the response"


def test_a_broker_that_was_heard_was_recorded() -> None:
    asked = client >> heartbeat(1) + heartbeat(2) + heartbeat(3)
    found = exchanges(asked, broker >> heartbeat_answer(1), closing)
    assert [exchange.unanswered for exchange in found] == [None, *2 * ["the capture ended before the response"]]


def test_too_many_in_flight_of_a_broker_that_was_not_recorded_says_that() -> None:
    session = new_session(limits=Limits(in_flight=2))
    found = exchanges(*[client >> heartbeat(number) for number in range(3)], session=session)
    assert found[0].unanswered == "nothing the broker sent is in the capture: was only one direction recorded?"


def test_a_request_lost_under_tls_is_told_later_so_its_response_says_what_may_be() -> None:
    """The loss shows in the client's direction only with the next record of it, after the broker's answer."""
    said = converse(
        broker >> heartbeat_answer(4), client.loses(None), client >> heartbeat(5), broker >> heartbeat_answer(5)
    )
    assert said[0].endswith(f"correlation id 4, {UNASKED}")
    assert said[-1] == "Heartbeat v0 #5 answered"


def test_what_is_unanswered_when_the_broker_closes_says_so() -> None:
    (exchange,) = exchanges(client >> heartbeat(1), broker.finishes(), closing)
    assert exchange.unanswered == "the broker closed the connection before the response"


def test_a_broker_that_skips_api_versions_is_old_and_nothing_is_out_of_order() -> None:
    asked = client >> api_versions(0) + heartbeat(1)
    skipped, answered = events_of(asked, broker >> heartbeat_answer(1), closing)
    assert isinstance(skipped, Exchange) and skipped.api_name == "ApiVersions"
    assert skipped.unanswered == "the broker skipped it, as those before 0.10 do, which do not know ApiVersions"
    assert tell(answered) == "Heartbeat v0 #1 answered"


@pytest.mark.parametrize("more", [b"", heartbeat(1)])
def test_a_broker_that_closes_on_api_versions_may_be_old(more: bytes) -> None:
    first = exchanges(client >> api_versions(0) + more, broker.finishes(), closing)[0]
    assert first.unanswered == (
        "the broker closed the connection before the response; those before 0.10 do so, as they do not know ApiVersions"
    )


def test_a_client_may_finish_before_it_is_answered() -> None:
    said = converse(client >> heartbeat(1), client.finishes(), broker >> heartbeat_answer(1), closing)
    assert said == ["Heartbeat v0 #1 answered"]


@pytest.mark.parametrize(("ends", "cut"), [((), Cut.CAPTURE_ENDED), ((client.finishes(),), Cut.RESET)])
def test_the_end_inside_a_size_field_is_no_hunt_for_a_frame(ends: tuple[Any, ...], cut: Cut) -> None:
    (gap,) = [event for event in events_of(client >> b"\0\0\0", *ends, closing) if isinstance(event, Gap)]
    assert gap.ends_in_size_field and (gap.skipped, gap.cut) == (3, cut)


def test_a_frame_that_never_ended_is_told() -> None:
    (exchange,) = exchanges(client >> heartbeat(1)[:9], closing)
    assert (exchange.api_name, exchange.api_version, exchange.correlation_id) == ("Heartbeat", 0, None)
    assert exchange.request is not None and exchange.request.wire_size == len(heartbeat(1))
    assert exchange.bodies == "the capture ended inside the request"
    assert converse(client >> heartbeat(1)[:3], closing) == ["gap in requests: None missing, 3 skipped, 1 lost"]


# Versions and APIs


def test_an_api_versions_refusal_is_read_as_version_0() -> None:
    (exchange,) = exchanges(client >> api_versions(0), broker >> api_versions_refusal(0))
    assert exchange.response is not None and exchange.response.message is not None
    assert (exchange.response.body_version, exchange.undecoded) == (0, None)


def test_an_api_versions_answer_at_its_own_version() -> None:
    (exchange,) = exchanges(client >> api_versions(0), broker >> api_versions_answer(0))
    assert exchange.response is not None
    assert (exchange.response.body_version, exchange.undecoded) == (3, None)


def test_an_api_versions_request_that_the_broker_lacks_is_read_as_far_as_the_broker_reads_it() -> None:
    session = new_session()
    (exchange,) = events_of(client >> FRANZ_GO_API_VERSIONS, broker >> KAFKA_4_3_REFUSAL, session=session)
    assert isinstance(exchange, Exchange) and exchange.request is not None
    assert (exchange.api_version, exchange.undecoded, exchange.request.unread) == (5, None, True)
    assert session.connection.client_software_name == "kgo"
    assert session.connection.client_software_version == "v1.22.2"


def test_an_api_versions_request_that_only_the_broker_knows_says_that_it_was_not_read() -> None:
    answer = response(0, bytes([0, 0, 1, 0, 0, 0, 0, 0]))  # v3+: error_code, no api_keys, throttle_time_ms, no tags
    (exchange,) = events_of(client >> FRANZ_GO_API_VERSIONS, broker >> answer)
    assert isinstance(exchange, Exchange) and exchange.request is not None and exchange.response is not None
    assert exchange.response.message is not None and not exchange.request.unread
    assert exchange.undecoded == "request: ApiVersionsRequest v4: 5 bytes are left over after the message (at byte 13)"


def test_a_known_version_that_an_older_broker_lacks_is_not_read_either() -> None:
    (exchange,) = events_of(client >> api_versions(0, "app", "1"), broker >> KAFKA_4_3_REFUSAL)
    assert isinstance(exchange, Exchange) and exchange.request is not None
    assert exchange.request.unread and exchange.undecoded is None


def test_the_client_says_what_software_it_is() -> None:
    session = new_session()
    converse(client >> api_versions(0, "apache-kafka-java", "4.3.1"), session=session)
    assert session.connection.client_software_name == "apache-kafka-java"
    assert session.connection.client_software_version == "4.3.1"


def test_a_version_above_the_facts_is_read_when_the_newest_layout_fits() -> None:
    body = (
        b"\x02g" + b"\0\0\0\5" + b"\x02m" + b"\0" + b"\0"
    )  # group_id, generation_id, member_id, group_instance_id, tags
    (exchange,) = exchanges(
        client >> request(12, 5, 1, body, tags=b"\0"), broker >> response(1, b"\0\0\0\0\0\0\0", tags=b"\0")
    )
    assert exchange.request is not None and exchange.response is not None
    assert (exchange.api_version, exchange.request.assumed_version, exchange.response.assumed_version) == (5, 4, 4)
    assert exchange.undecoded is None


def test_an_api_above_the_facts_is_paired_and_told_as_unknown() -> None:
    (exchange,) = exchanges(client >> request(300, 0, 9, b"??", tags=b"\0"), broker >> response(9, b"??"))
    assert exchange.response is not None and exchange.response.message is None
    assert exchange.undecoded == "API key 300 is not known"


# SASL


TOKENS = (
    client >> sasl_handshake(1, 0),
    broker >> sasl_handshake_answer(1),
    client >> frame(b"\0alice\0secret"),
    broker >> frame(b""),
)


def test_12_after_sasl_handshake_v0_tokens_follow_until_a_request() -> None:
    session = new_session()
    said = converse(*TOKENS, client >> heartbeat(2), broker >> heartbeat_answer(2), closing, session=session)
    assert said == [
        "SaslHandshake v0 #1 answered",
        "token of 13 bytes in the request",
        "token of 0 bytes in the response",
        "Heartbeat v0 #2 answered",
    ]
    assert session.connection.sasl_mechanism == "PLAIN"


def test_no_event_holds_the_bytes_of_a_token() -> None:
    assert not any("secret" in repr(event) for event in events_of(*TOKENS))


def test_a_token_that_parses_as_a_request_before_any_answer_is_a_token() -> None:
    said = converse(*TOKENS[:2], client >> heartbeat(2), broker >> frame(b"challenge"))
    assert said[1:] == ["token of 25 bytes in the request", "token of 9 bytes in the response"]


def test_12_a_token_that_parses_as_a_request_of_another_client_is_a_token() -> None:
    said = converse(*TOKENS, client >> heartbeat(2, client_id="other"))
    assert said[3:] == ["token of 27 bytes in the request"]


@pytest.mark.parametrize("client_id", ["", None])
def test_a_consumer_of_0_10_names_itself_only_after_the_tokens(client_id: str | None) -> None:
    """As Java's consumer of Kafka 0.10.0 without client.id did with GSSAPI: the handshake is by "", the rest by "consumer-1"."""
    said = converse(
        client >> request(17, 0, 1, string("GSSAPI"), client_id=client_id),
        broker >> sasl_handshake_answer(1),
        client >> frame(b"\x60\x82\x02\xc8 and so on"),
        broker >> frame(b"\x60\x1e challenge"),
        client >> frame(b"\x05\x04\x04\xff wrapped"),
        client >> heartbeat(2, client_id="consumer-1"),
        broker >> heartbeat_answer(2),
        client >> heartbeat(3, client_id="consumer-1"),
        broker >> heartbeat_answer(3),
    )
    assert [line for line in said if "token" not in line] == [
        "SaslHandshake v0 #1 answered",
        "Heartbeat v0 #2 answered",
        "Heartbeat v0 #3 answered",
    ]


def test_12_several_rounds_of_tokens_and_empty_ones() -> None:
    rounds = [step for _ in range(3) for step in (client >> frame(b""), broker >> frame(b"r=1"))]
    said = converse(*TOKENS[:2], *rounds, client >> heartbeat(2), broker >> heartbeat_answer(2))
    assert said[1:] == 3 * ["token of 0 bytes in the request", "token of 3 bytes in the response"] + [
        "Heartbeat v0 #2 answered"
    ]


def test_12_a_refused_mechanism_begins_no_token_phase() -> None:
    said = converse(
        client >> sasl_handshake(1, 0), broker >> sasl_handshake_answer(1, 33), client >> heartbeat(2), closing
    )
    assert said == ["SaslHandshake v0 #1 answered", "Heartbeat v0 #2 unanswered"]


def test_a_client_of_0_9_begins_with_a_gssapi_token() -> None:
    session = new_session()
    said = converse(
        client >> frame(b"\x60\x82\x02\x0b\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"),
        broker >> frame(b"\x60\x01"),
        client >> heartbeat(0),
        broker >> heartbeat_answer(0),
        session=session,
    )
    assert said == ["token of 15 bytes in the request", "token of 2 bytes in the response", "Heartbeat v0 #0 answered"]
    assert session.connection.sasl_mechanism == "GSSAPI"


GSSAPI_ROUNDS = (  # RFC 4752 section 3.1; the broker has no answer to the last (GssKrb5Server.doHandshake2 gives null)
    client >> frame(b"\x60\x82\x02\x0b\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"),
    broker >> frame(b"\x60\x01"),
    client >> frame(b""),
    broker >> frame(b"\x05\x04\x01\xff" + bytes(28)),
    client >> frame(b"\x05\x04\x00\xff" + bytes(28)),
)


@pytest.mark.parametrize("begin", [(), (client >> sasl_handshake(0, 0, "GSSAPI"), broker >> sasl_handshake_answer(0))])
def test_the_last_token_of_gssapi_is_not_answered(begin: tuple[Any, ...]) -> None:
    said = converse(
        *begin,
        *GSSAPI_ROUNDS,
        client >> heartbeat(1) + heartbeat(2),
        broker >> heartbeat_answer(1) + heartbeat_answer(2),
        closing,
    )
    assert [line for line in said if line.startswith("token")] == [
        "token of 15 bytes in the request",
        "token of 2 bytes in the response",
        "token of 0 bytes in the request",
        "token of 32 bytes in the response",
        "token of 32 bytes in the request",
    ]
    assert said[-2:] == ["Heartbeat v0 #1 answered", "Heartbeat v0 #2 answered"]
    assert len(said) == len(begin) // 2 + 7


def test_after_the_last_token_of_gssapi_a_large_request_is_taken() -> None:
    """What it is at most before authentication is done no longer holds, though no answer said that it is done."""
    said = converse(*GSSAPI_ROUNDS, client >> heartbeat(1), client >> big_request(2), closing)
    assert said[-1].startswith("? v0 #2 unanswered")


def test_sasl_authenticate_is_ordinary_and_may_come_again() -> None:
    once = (
        client >> sasl_handshake(1, 1),
        broker >> sasl_handshake_answer(1),
        client >> sasl_authenticate(2, b"\0alice\0secret"),
        broker >> sasl_authenticate_answer(2),
        client >> heartbeat(3),
        broker >> heartbeat_answer(3),
    )
    told = ["SaslHandshake v1 #1 answered", "SaslAuthenticate v0 #2 answered", "Heartbeat v0 #3 answered"]
    assert converse(*once, *once, closing) == told + told


PASSWORD = "S3cr3tPassw0rd" + 9 * "0123456789ABCDEF"
PLAIN_TOKENS = [b"\0bob\0", b"\0A234567\0", b"\0\0", b"\0A\0", b"\0$\0", b"\0$Shared\0"]


@pytest.mark.parametrize("begin", PLAIN_TOKENS)
@pytest.mark.parametrize("api_version", [0, 1])
@pytest.mark.parametrize("error_code", [0, 33])
@pytest.mark.parametrize("framed", [True, False])
def test_a_token_where_none_belongs_is_not_told_even_as_a_number(
    begin: bytes, api_version: int, error_code: int, framed: bool
) -> None:
    token = begin + PASSWORD.encode()
    events = events_of(
        client >> sasl_handshake(1, api_version),
        broker >> sasl_handshake_answer(1, error_code),
        client >> (frame(token) if framed else token),
        closing,
    )
    numbers = {int.from_bytes(token[i : i + size], "big") for size in (2, 4) for i in range(1, 40)}
    for event in events[1:]:
        assert isinstance(event, SaslToken | BadFrame | Gap)
        said = "" if isinstance(event, SaslToken | Gap) else event.reason
        assert not numbers & {int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", said)} - {524_288}
        assert "cr3t" not in said


def test_a_frame_where_a_token_may_come_says_that() -> None:
    begin = (client >> sasl_handshake(1, 1), broker >> sasl_handshake_answer(1))
    said = converse(*begin, client >> frame(b"\0bob\0" + PASSWORD.encode()))
    assert said[1:] == [
        "bad request: no request where authentication is not done; it may be a SASL token, so nothing in it is shown"
    ]
    said = converse(*begin, client >> b"\x7fbob" + PASSWORD.encode())
    assert said[1:] == [
        "bad request: the size field is of no frame; frames are of at most 524,288 bytes before authentication is done"
    ]


def test_a_sasl_authenticate_that_cannot_be_read_tells_no_size_of_it() -> None:
    begin = (client >> sasl_handshake(1, 1), broker >> sasl_handshake_answer(1))
    (_, exchange) = exchanges(*begin, client >> request(36, 0, 2, b"\0bob\0" + PASSWORD.encode()), closing)
    assert exchange.undecoded == (
        "request: SaslAuthenticateRequest v0: the body is not laid out so; it may hold a SASL token, "
        "so nothing in it is shown (at byte 0)"
    )
    assert exchange.request is not None and str(exchange.request.error) in exchange.undecoded


def test_a_token_cut_short_by_a_gap_is_not_taken_for_a_request() -> None:
    token = frame(b"\0bob\0" + PASSWORD.encode())
    said = converse(*TOKENS[:2], client >> token[:8], client.loses(len(token) - 8), client >> heartbeat(3), closing)
    assert said[1:] == [
        f"gap in requests: {len(token) - 8} missing, 0 skipped, 1 lost",
        f"token of {len(token) - 4} bytes in the request",
        "Heartbeat v0 #3 unanswered",
    ]


def test_a_cut_request_ends_raw_tokens_by_its_header() -> None:
    asked = heartbeat(3)
    cut = [client >> asked[:20], client.loses(len(asked) - 20, Cut.SNAPLEN)]
    token = frame(b"\0bob\0" + PASSWORD.encode())
    said = converse(*TOKENS[:2], client >> token, broker >> frame(b""), *cut, broker >> heartbeat_answer(3))
    assert said[-1] == "Heartbeat v0 #3 answered"


def test_with_the_broker_out_of_sight_a_request_ends_the_tokens() -> None:
    said = converse(
        client >> sasl_handshake(1, 0), client >> frame(b"\0alice\0secret"), client >> heartbeat(2), closing
    )
    assert said == ["token of 13 bytes in the request", "SaslHandshake v0 #1 unanswered", "Heartbeat v0 #2 unanswered"]


def test_who_does_not_wait_for_the_answer_to_a_token_is_still_paired() -> None:
    said = converse(
        client >> sasl_handshake(1, 0) + frame(b"\0alice\0secret") + heartbeat(2),
        broker >> sasl_handshake_answer(1) + frame(b"") + heartbeat_answer(2),
        closing,
    )
    assert said == [
        "token of 13 bytes in the request",
        "SaslHandshake v0 #1 answered",
        "token of 0 bytes in the response",
        "Heartbeat v0 #2 answered",
    ]


def test_an_ordinary_request_says_that_authentication_is_done_when_the_answer_was_not_captured() -> None:
    said = converse(
        client >> sasl_handshake(1, 1),
        broker >> sasl_handshake_answer(1),
        client >> sasl_authenticate(2, b"x"),
        broker.loses(20),
        client >> heartbeat(3) + big_request(4),
        closing,
    )
    assert said[-2:] == ["Heartbeat v0 #3 unanswered", "? v0 #4 unanswered, undecoded"]


def test_a_handshake_of_version_0_in_an_authenticated_connection_is_refused_and_changes_nothing() -> None:
    again = (client >> sasl_handshake(8, 0), broker >> sasl_handshake_answer(8, 34))  # ILLEGAL_SASL_STATE
    said = converse(
        *TOKENS, client >> heartbeat(2), broker >> heartbeat_answer(2), *again, client >> heartbeat(9), closing
    )
    assert said[3:] == ["Heartbeat v0 #2 answered", "SaslHandshake v0 #8 answered", "Heartbeat v0 #9 unanswered"]


def big_request(correlation_id: int) -> bytes:
    return (
        heartbeat(correlation_id, "g" * 30_000)
        if correlation_id < 0
        else request(255, 0, correlation_id, bytes(600_000))
    )


def test_before_authentication_a_frame_of_512_kib_is_the_largest() -> None:
    begin = (client >> sasl_handshake(1, 1), broker >> sasl_handshake_answer(1))
    events = events_of(*begin, client >> big_request(2))
    assert isinstance(events[1], BadFrame)
    assert "of at most 524,288 bytes before authentication is done" in events[1].reason


def test_after_authentication_and_without_sasl_it_is_not() -> None:
    authenticated = (
        client >> sasl_handshake(1, 1),
        broker >> sasl_handshake_answer(1),
        client >> sasl_authenticate(2, b"x"),
        broker >> sasl_authenticate_answer(2),
    )
    for begin in ((), authenticated):
        assert converse(*begin, client >> big_request(3), closing)[-1].startswith("? v0 #3 unanswered")


# Gaps and mid-stream


def test_a_gap_inside_a_frame_loses_no_exchange() -> None:
    first = heartbeat(1, "g" * 100)
    said = converse(
        client >> first[:50],
        client.loses(20),
        client >> first[70:] + heartbeat(2),
        broker >> heartbeat_answer(1) + heartbeat_answer(2),
    )
    assert said == [
        "gap in requests: 20 missing, 0 skipped, 1 lost",
        "Heartbeat v0 #1 answered",
        "Heartbeat v0 #2 answered",
    ]


def test_after_a_gap_of_unknown_size_the_next_plausible_frame_is_found() -> None:
    said = converse(
        client >> heartbeat(1)[:12],
        client.loses(None),
        client >> b"rest of some frame" + heartbeat(2),
        broker >> heartbeat_answer(2),
    )
    assert said == [
        "gap in requests: None missing, 0 skipped, 1 lost",
        "gap in requests: 0 missing, 18 skipped, 0 lost",
        "Heartbeat v0 #1 unanswered",
        "Heartbeat v0 #2 answered",
    ]


@pytest.mark.parametrize("cut", [Cut.SNAPLEN, Cut.LEFT_OUT])
def test_a_cut_frame_pairs_and_has_its_sizes_times_and_latency(cut: Cut) -> None:
    """One packet for each frame, of which 30 bytes were captured; the next frame begins with the next packet."""
    asked, answer = heartbeat(1, "g" * 300), response(1, b"x" * 500)
    events = events_of(
        client >> asked[:30],
        client.loses(len(asked) - 30, cut),
        client >> heartbeat(2),
        broker >> answer[:30],
        broker.loses(len(answer) - 30, cut),
        broker >> heartbeat_answer(2),
    )
    assert [tell(event) for event in events] == ["Heartbeat v0 #1 answered", "Heartbeat v0 #2 answered"]
    exchange = events[0]
    assert isinstance(exchange, Exchange) and exchange.request is not None and exchange.response is not None
    assert (exchange.request.wire_size, exchange.response.wire_size) == (len(asked), len(answer))
    assert (exchange.request.cut, exchange.response.cut, exchange.undecoded) == (cut, cut, None)
    assert (exchange.request.started_at, exchange.response.ended_at, exchange.latency_ms) == (1_000, 5_000, 0.004)
    assert exchange.request.message is not None and exchange.request_body() is None and exchange.bodies == cut.text


def test_packets_in_which_no_frame_begins_are_one_gap_and_a_frame_that_fills_its_packet_is_found() -> None:
    """A request ends inside what a snaplen hid of a packet, so that where the next one begins is not known."""
    asked, small = heartbeat(1, "g" * 300), heartbeat(7, "g" * 99)
    hidden = [client >> bytes(60), client.loses(1_400, Cut.SNAPLEN)]
    events = events_of(
        client >> asked[:50],
        client.loses(len(asked) + 50, Cut.SNAPLEN),
        *hidden,
        *hidden,
        client >> small[:20],
        client.loses(len(small) - 20, Cut.SNAPLEN),
        broker >> heartbeat_answer(1) + heartbeat_answer(7),
    )
    assert [tell(event) for event in events] == [
        f"gap in requests: {len(asked) + 50 + 2_800} missing, 120 skipped, 1 lost",
        "Heartbeat v0 #1 answered",
        "Heartbeat v0 #7 answered",
    ]
    assert isinstance(events[0], Gap) and events[0].cut is Cut.SNAPLEN


def test_frames_left_out_whole_disturb_nothing() -> None:
    said = converse(
        client >> heartbeat(1),
        client.loses(len(heartbeat(2)), Cut.LEFT_OUT),
        client >> heartbeat(3),
        broker >> heartbeat_answer(1),
        broker.loses(len(heartbeat_answer(2)), Cut.LEFT_OUT),
        broker >> heartbeat_answer(3),
    )
    assert said == ["Heartbeat v0 #1 answered", "Heartbeat v0 #3 answered"]


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (4, (None, None, None)),
        (6, (12, None, None)),
        (9, (12, 0, None)),
        (12, (12, 0, 1)),
        (16, (12, 0, 1)),
        (17, (12, 0, 1)),
    ],
)
def test_a_request_cut_inside_its_header_is_shown_as_far_as_it_goes(size: int, told: tuple[int | None, ...]) -> None:
    asked = heartbeat(1)
    cut = [client >> asked[:size], client.loses(len(asked) - size, Cut.SNAPLEN), client >> heartbeat(2)]
    first, second = exchanges(*cut, broker >> heartbeat_answer(1) + heartbeat_answer(2))
    assert first.request is not None and first.request.wire_size == len(asked)
    assert (first.api_key, first.api_version, first.request.header is not None) == (*told[:2], size == 17)
    assert first.response is not None and first.correlation_id == 1  # the response's, where the request's is cut
    assert (second.correlation_id, second.request_body() is not None) == (2, True)
    (alone,) = exchanges(*cut[:2], closing)
    assert (alone.api_key, alone.api_version, alone.correlation_id) == told


def test_a_response_cut_inside_its_correlation_id_is_the_next_one() -> None:
    answer = heartbeat_answer(1)
    for size in range(4, len(answer)):
        cut = [broker >> answer[:size], broker.loses(len(answer) - size, Cut.SNAPLEN)]
        said = converse(client >> heartbeat(1) + heartbeat(2), *cut, broker >> heartbeat_answer(2))
        assert said == ["Heartbeat v0 #1 answered", "Heartbeat v0 #2 answered"]


def test_a_produce_of_which_the_acks_are_cut_is_not_called_unanswered() -> None:
    asked = produce(1, acks=0)
    cut = [client >> asked[:20], client.loses(len(asked) - 20, Cut.SNAPLEN), client >> heartbeat(2)]
    assert converse(*cut, broker >> heartbeat_answer(2)) == [
        "Produce v3 #1 needs no answer",
        "Heartbeat v0 #2 answered",
    ]
    (alone, _) = exchanges(*cut, closing)
    assert alone.unanswered == "whether it is answered at all is not known: its acks are not in the capture"


def test_responses_lost_in_a_gap_are_skipped() -> None:
    events = events_of(
        client >> heartbeat(1001) + heartbeat(1002) + heartbeat(1003),
        broker >> heartbeat_answer(1001)[:6],
        broker.loses(14),
        broker >> heartbeat_answer(1003),
    )
    assert [tell(event) for event in events] == [
        "gap in responses: 14 missing, 0 skipped, 1 lost",
        "Heartbeat v0 #1001 answered",
        "Heartbeat v0 #1002 unanswered",
        "Heartbeat v0 #1003 answered",
    ]


def test_joining_in_mid_stream_reports_what_is_left_and_invents_nothing() -> None:
    session = new_session(from_start=False)
    said = converse(
        broker >> heartbeat_answer(900) + b"\0\0\0",
        client >> heartbeat(901)[9:] + heartbeat(902) + heartbeat(903),
        broker >> heartbeat_answer(901)[3:] + heartbeat_answer(902),
        broker >> heartbeat_answer(903),
        closing,
        session=session,
    )
    assert said == [
        "gap in requests: 0 missing, 20 skipped, 0 lost",
        "gap in responses: 0 missing, 20 skipped, 0 lost",
        "Heartbeat v0 #902 answered",
        "Heartbeat v0 #903 answered",
    ]


def test_with_the_broker_out_of_sight_the_client_still_begins_at_its_beginning() -> None:
    session = new_session(from_start=(True, False))
    said = converse(
        client >> frame(b"\x60 a token of GSSAPI"),
        client >> frame(b"\x60 another"),
        client >> heartbeat(2),
        closing,
        session=session,
    )
    assert said == ["token of 19 bytes in the request", "token of 9 bytes in the request", "Heartbeat v0 #2 unanswered"]


def test_in_mid_stream_an_api_versions_request_newer_than_the_facts_is_found() -> None:
    said = converse(
        client >> bytes(7) + FRANZ_GO_API_VERSIONS, broker >> KAFKA_4_3_REFUSAL, session=new_session(from_start=False)
    )
    assert said == ["gap in requests: 0 missing, 7 skipped, 0 lost", "ApiVersions v5 #0 answered"]


def test_why_nothing_was_answered_is_who_sent_fin_or_rst_first() -> None:
    asked = client >> heartbeat(1)
    for words, steps in (
        ("the client closed", [asked, client.finishes(), broker.finishes()]),
        ("the client closed", [asked, client.finishes(), client.resets(), broker.is_reset()]),
        ("the client reset", [asked, broker.is_reset(), client.resets()]),
        ("the broker closed", [asked, broker.finishes(), client.finishes()]),
        ("the broker closed", [broker.finishes(), asked, client.finishes()]),
        ("the broker reset", [asked, client.is_reset(), broker.resets()]),
    ):
        (exchange,) = exchanges(*steps, closing)
        assert exchange.unanswered == f"{words} the connection before the response"
        assert exchange.connection.closed == f"{words} the connection"


def test_a_response_that_a_reset_ends_is_there_and_is_no_gap() -> None:
    answer = heartbeat_answer(1)
    events = events_of(client >> heartbeat(1), broker >> answer[:9], client.resets(), broker.is_reset(), closing)
    assert [tell(event) for event in events] == ["Heartbeat v0 #1 answered"]
    (exchange,) = events
    assert isinstance(exchange, Exchange) and exchange.response is not None
    assert (exchange.response.cut, exchange.response.wire_size) == (Cut.RESET, len(answer))
    assert exchange.bodies == "the client reset the connection inside the response"


def test_bytes_that_only_look_like_a_request_are_not_reported() -> None:
    almost = b"?" + request(12, 0, 5, b"\0\1g\0\0\0\5\0\x09m-1!")
    session = new_session(from_start=False)
    assert converse(client >> almost + heartbeat(6), broker >> heartbeat_answer(6), session=session) == [
        f"gap in requests: 0 missing, {len(almost)} skipped, 0 lost",
        "Heartbeat v0 #6 answered",
    ]


def test_a_frame_swallowed_by_a_false_one_is_found_at_once() -> None:
    false = request(12, 0, 5, b"").replace(b"\0\0\0\x0d", b"\0\0\x40\0", 1)
    session = new_session(from_start=False)
    assert converse(client >> false + heartbeat(6), closing, session=session) == [
        f"gap in requests: 0 missing, {len(false)} skipped, 0 lost",
        "Heartbeat v0 #6 unanswered",
    ]


# Not Kafka


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (bytes.fromhex("160301020001000001fc0303"), "tls"),
        (b"GET /metrics HTTP/1.1\r\n", "http"),
        (bytes.fromhex("0000002d00000000" + "00" * 8 + "00007530" + "00" * 8 + "00000010" + "00" * 17), "zookeeper"),
    ],
)
def test_6_other_protocols_are_named_and_then_left_alone(first: bytes, kind: str) -> None:
    assert converse(client >> first, client >> heartbeat(1), broker >> b"whatever", closing) == [
        f"not Kafka but {kind} in the request"
    ]


def test_6_a_tls_alert_answers_a_request_in_the_clear() -> None:
    asked, answered = events_of(client >> heartbeat(1), broker >> bytes.fromhex("15030300020246"), closing)
    assert isinstance(asked, Exchange) and isinstance(answered, NotKafka)
    assert asked.unanswered == answered.what
    assert "security.protocol=SSL" in answered.what


@pytest.mark.parametrize("size", [-1, -(1 << 31), (1 << 31) - 1, 104_857_601])
def test_6_a_size_no_peer_accepts_is_bad_and_the_next_frame_is_found(size: int) -> None:
    said = converse(
        client >> heartbeat(1) + size.to_bytes(4, "big", signed=True) + heartbeat(2),
        broker >> heartbeat_answer(1) + heartbeat_answer(2),
    )
    assert said == [
        f"bad request: the size field says {size:,}; frames are of at most 104,857,600 bytes",
        "Heartbeat v0 #1 answered",
        "gap in requests: 0 missing, 4 skipped, 0 lost",
        "Heartbeat v0 #2 answered",
    ]


@pytest.mark.parametrize("size", range(8))
def test_6_a_frame_too_small_for_a_header_is_bad_and_the_next_is_found(size: int) -> None:
    said = converse(client >> heartbeat(1) + frame(bytes(size)) + heartbeat(2), closing)
    assert said[0].startswith("bad request: no request: ")
    assert said[1:] == [
        f"gap in requests: 0 missing, {size + 4} skipped, 0 lost",
        "Heartbeat v0 #1 unanswered",
        "Heartbeat v0 #2 unanswered",
    ]


def test_a_response_too_small_for_a_correlation_id_is_bad() -> None:
    said = converse(client >> heartbeat(1), broker >> frame(b"\0\0\0") + heartbeat_answer(1))
    assert said[0].startswith("bad response: no response: ")
    assert said[1:] == ["Heartbeat v0 #1 answered"]


# What is learned


ORDERS = bytes(range(16))


def test_topic_ids_get_the_names_that_another_connection_saw() -> None:
    cluster = ClusterView()
    converse(
        client >> metadata(1),
        broker >> metadata_answer(1, {"orders": ORDERS}, {1: ("broker-1", 9092)}),
        session=new_session(cluster=cluster),
    )
    (exchange,) = exchanges(
        client >> delete_topic(1, ORDERS),
        broker >> delete_topic_answer(1, ORDERS),
        session=new_session(cluster=cluster),
    )
    assert exchange.undecoded is None
    assert dict(exchange.topic_names) == {"AAECAwQFBgcICQoLDA0ODw": "orders"}
    assert (dict(cluster.brokers), cluster.cluster_id) == ({1: "broker-1:9092"}, "cluster-1")


def test_an_incremental_fetch_can_be_read_in_full() -> None:
    full, changed, fewer = exchanges(
        client >> fetch(1, 0, 0, partitions=((0, 100), (1, 200), (2, 300))),
        broker >> fetch_answer(1, 77),
        client >> fetch(2, 77, 1, partitions=((1, 250),)),
        broker >> fetch_answer(2, 77),
        client >> fetch(3, 77, 2, forgotten=(0,)),
        broker >> fetch_answer(3, 77),
    )
    offsets = []
    for exchange in (full, changed, fewer):
        assert exchange.fetch_session is not None and exchange.fetch_session.whole
        assert exchange.fetch_session.session_id == 77
        offsets.append({entry.partition: entry.fetch_offset for entry in exchange.fetch_session.partitions})
    assert offsets == [{0: 100, 1: 200, 2: 300}, {0: 100, 1: 250, 2: 300}, {1: 250, 2: 300}]


# Kafka's own frames


def golden_pairs() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    asked: dict[tuple[int, int, int], dict[str, Any]] = {}
    with gzip.open(GOLDEN_FRAMES, "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            key = (line["apiKey"], line["version"], line["sample"])
            if line["direction"] == "request":
                asked[key] = line
            else:
                yield asked[key], line


def test_every_pair_of_frames_that_kafka_made_is_one_exchange() -> None:
    seen = 0
    for asked, answer in golden_pairs():
        sent, came = bytes.fromhex(asked["frameHex"]), bytes.fromhex(answer["frameHex"])
        came = came[:4] + sent[8:12] + came[8:]  # the corpus gives each frame a correlation id of its own
        acks_0 = asked["json"].get("acks") == 0
        found = exchanges(client >> sent, *([] if acks_0 else [broker >> came]), closing)
        assert len(found) == 1, asked["message"]
        (exchange,) = found
        assert (exchange.api_key, exchange.api_version) == (asked["apiKey"], asked["version"])
        assert exchange.correlation_id == asked["header"]["correlationId"]
        assert exchange.client_id == asked["header"].get("clientId")
        assert exchange.request is not None and exchange.request.body_start == asked["bodyOffset"] - 4
        assert exchange.expects_response is not acks_0
        assert exchange.undecoded is None
        if not acks_0:
            assert exchange.response is not None and exchange.response.message is not None
            assert exchange.response.body_start == answer["bodyOffset"] - 4
            assert exchange.response.body_version == answer.get("bodyVersion", answer["version"])
            seen += 1
    assert seen > 700


# Any bytes, any chunking, either side


CONVERSATION = [
    (Direction.REQUEST, api_versions(0)),
    (Direction.RESPONSE, api_versions_refusal(0)),
    (Direction.REQUEST, sasl_handshake(1, 0)),
    (Direction.RESPONSE, sasl_handshake_answer(1)),
    (Direction.REQUEST, frame(b"\0alice\0secret")),
    (Direction.RESPONSE, frame(b"")),
    (Direction.REQUEST, metadata(2) + produce(3, 0) + heartbeat(4)),
    (Direction.RESPONSE, metadata_answer(2, {"orders": ORDERS}, {1: ("b", 1)}) + heartbeat_answer(4)),
    (Direction.REQUEST, b"\xff\xff\xff\xff" + heartbeat(5) + fetch(6, 0, 0, partitions=((0, 1),))),
    (Direction.RESPONSE, heartbeat_answer(9) + heartbeat_answer(5) + fetch_answer(6, 7)),
    (Direction.REQUEST, frame(b"zz") + heartbeat(7) + delete_topic(8, ORDERS)),
    (Direction.RESPONSE, b"\x7f\xff\xff\xff????" + heartbeat_answer(7) + delete_topic_answer(8, ORDERS)),
]

pieces = st.lists(st.integers(0, 40), max_size=60)


def play(
    script: list[tuple[Direction, bytes]], sizes: list[int], *, from_start: bool, start: int = 0
) -> tuple[list[str], list[Event]]:
    """What is said of the script when each part comes in pieces of these sizes, all at one time."""
    session = new_session(from_start=from_start)
    events: list[Event] = []
    cuts = iter(sizes)
    for direction, data in script[start:]:
        left = data
        while left:
            size = next(cuts, len(left)) or 1
            events += session.receive(direction, left[:size], 5)
            left = left[size:]
    events += session.close(5)
    return list(map(tell, events)), events


def contents(event: Event) -> object:
    """What an event carries, as far as it can be compared."""
    if not isinstance(event, Exchange):
        return event
    frames = [(frame.data, frame.body_start, frame.body_version) for frame in (event.request, event.response) if frame]
    return frames, event.at, event.unanswered, event.undecoded, dict(event.topic_names)


@given(pieces, st.booleans(), st.integers(0, 5))
def test_chunking_does_not_change_the_events(sizes: list[int], from_start: bool, start: int) -> None:
    """Chunking does not change the events."""
    in_pieces = play(CONVERSATION, sizes, from_start=from_start, start=start)
    whole = play(CONVERSATION, [], from_start=from_start, start=start)
    assert in_pieces[0] == whole[0]
    assert list(map(contents, in_pieces[1])) == list(map(contents, whole[1]))


def test_11_byte_by_byte_is_as_good_as_whole() -> None:
    whole, _ = play(CONVERSATION, [], from_start=True)
    assert play(CONVERSATION, [1] * 10_000, from_start=True)[0] == whole
    assert sum("answered" in line for line in whole) == 9


sides = st.sampled_from(list(Direction))
fragments = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([data for _, data in CONVERSATION] + [b"\0\0\0\x10", compact_array(b"x"), heartbeat(5)]),
)
steps = st.lists(st.tuples(sides, fragments, st.sampled_from(["bytes", "gap", "end"])), max_size=30)


@given(steps, st.booleans())
def test_any_bytes_give_events_and_nothing_else(script: list[tuple[Direction, bytes, str]], from_start: bool) -> None:
    """Any bytes, any chunking, either side: events, never an exception."""
    session = new_session(from_start=from_start, limits=Limits(in_flight=3))
    for number, (direction, data, what) in enumerate(script):
        if what == "gap":
            events = session.gap(direction, len(data) or None, number)
        elif what == "end":
            events = session.end(direction, number)
        else:
            events = session.receive(direction, data, number)
        assert all(tell(event) for event in events)
    assert all(tell(event) for event in session.close(len(script)))


@given(st.lists(st.tuples(sides, fragments), max_size=20), pieces, st.booleans())
def test_chunking_does_not_change_what_is_said_of_any_bytes(
    script: list[tuple[Direction, bytes]], sizes: list[int], from_start: bool
) -> None:
    in_pieces = play(script, sizes, from_start=from_start)
    whole = play(script, [], from_start=from_start)
    assert list(map(contents, in_pieces[1])) == list(map(contents, whole[1]))


# Bytes after a message: real software sends them, and what reads it ignores them


def frame_of(digits: str) -> bytes:
    """A frame given without its size field."""
    data = bytes.fromhex(digits)
    return len(data).to_bytes(4, "big") + data


# As captured: ApiVersions v0 of librdkafka up to 0.11 with four more bytes ("an empty array: all APIs"), and a broker's answer.
OLD_API_VERSIONS = bytes.fromhex("00000015 0012 0000 00000001 0007 72646b61666b61 00000000")
OLD_API_VERSIONS_ANSWER = frame_of("00000001 0000 00000001 0012 0000 0003")
# Metadata v13 of librdkafka 2.16 for topics = null, with three more bytes, and the answer of its mock cluster with one more.
NULL_TOPICS = frame_of("0003 000d 00000002 0007 72646b61666b61 00 00000000 010000")
NO_TOPICS_ANSWER = frame_of("00000002 00 00000000 01 00 ffffffff 01 0000 00 00")


def test_an_old_librdkafkas_first_request_is_kafka_and_read() -> None:
    (exchange,) = events_of(client >> OLD_API_VERSIONS, broker >> OLD_API_VERSIONS_ANSWER)
    assert isinstance(exchange, Exchange) and exchange.request is not None and exchange.response is not None
    assert (exchange.api_name, exchange.api_version, exchange.client_id) == ("ApiVersions", 0, "rdkafka")
    assert (exchange.undecoded, exchange.unanswered, exchange.connection.client_software_name) == (None, None, None)
    assert (exchange.request.trailing, exchange.response.trailing) == (4, 0)
    assert exchange.response_body().api_keys[0].max_version == 3


def test_bytes_after_a_request_and_after_its_response_are_counted() -> None:
    (exchange,) = events_of(client >> NULL_TOPICS, broker >> NO_TOPICS_ANSWER)
    assert isinstance(exchange, Exchange) and exchange.request is not None and exchange.response is not None
    assert exchange.undecoded is None
    assert (exchange.request.trailing, exchange.response.trailing) == (3, 1)
    assert exchange.request_body().topics is None
    assert exchange.response_body().controller_id == -1
    assert exchange.request.wire_size == len(NULL_TOPICS)


def test_whatever_comes_after_a_message_is_only_counted() -> None:
    garbage = bytes(range(256)) * 40
    frame = frame_of(NULL_TOPICS[4:-3].hex() + garbage.hex())
    (exchange,) = events_of(client >> frame, broker >> NO_TOPICS_ANSWER)
    assert isinstance(exchange, Exchange) and exchange.request is not None
    assert (exchange.undecoded, exchange.request.trailing) == (None, len(garbage))


def test_names_are_learned_from_a_response_with_bytes_after_it() -> None:
    topic_id = bytes(15) + b"\7"
    metadata = frame_of(
        "00000002 00 00000000 01 00 ffffffff 02 0000 07 6f7264657273" + topic_id.hex() + "00 01 80000000 00 0000 00 00"
    )
    fetch = frame_of(
        "0001 000d 00000003 ffff 00 ffffffff 00000000 00000000 7fffffff 00 00000000 00000000 02"
        + topic_id.hex()
        + "01 00 01 01 00"
    )
    events = events_of(client >> NULL_TOPICS, broker >> metadata, client >> fetch)
    assert isinstance(events[0], Exchange) and events[0].response is not None and events[0].response.trailing == 1
    last = events[-1]
    assert isinstance(last, Exchange) and last.undecoded is None
    assert list(last.topic_names.values()) == ["orders"]


def test_another_protocol_is_none_of_kafkas_requests_with_bytes_after_it() -> None:
    """ZooKeeper's ConnectRequest reads as Produce v0 with nothing in it, and more."""
    hello = frame_of("00000000 00000000 00000000 00007530 00000000 00000000 00000010" + "00" * 16 + "00")
    assert any(isinstance(event, NotKafka) and event.kind == "zookeeper" for event in events_of(client >> hello))


def test_a_null_assignment_of_the_mock_cluster_is_read() -> None:
    """While a group rebalances it answers SyncGroup v3 with null for bytes, which no version allows."""
    (exchange,) = events_of(
        client >> frame_of("000e 0003 00000005 ffff 0001 67 00000001 0001 6d ffff 00000000"),
        broker >> frame_of("00000005 00000000 001b ffffffff"),
    )
    assert isinstance(exchange, Exchange) and exchange.undecoded is None
    body = exchange.response_body()
    assert (body.error_code, body.assignment) == (27, b"")
