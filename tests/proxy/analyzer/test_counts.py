"""What the analyzer counts of events, and that no traffic makes it count without bound (attack 19)."""

from collections import Counter

import msgspec
import pytest

from kproxy.output.escaping import LONGEST_NAME, printable
from kproxy.pipeline.output import End
from kproxy.proxy.analyzer.counts import MOST_BEGUN, OTHER, AnalysisCounts, Logins
from kproxy.proxy.analyzer.series import MOST_SERIES, BoundedCounter, Row
from kproxy.proxy.messages import LONGEST_LINE, AnalyzerCounts
from kproxy.session import Connection, Cut
from kproxy.session.events import TlsFacts
from tests.support.conversation import broker, client, closing, events_of, new_session
from tests.support.corpus import golden_exchanges
from tests.support.frames import (
    array,
    fetch,
    fetch_answer,
    frame,
    heartbeat,
    heartbeat_answer,
    produce,
    request,
    response,
    sasl_authenticate,
    sasl_authenticate_answer,
    sasl_handshake,
    sasl_handshake_answer,
    string,
)
from tests.support.sampled import sampled

PRODUCE, FETCH, JOIN_GROUP, API_VERSIONS = 0, 1, 11, 18
GROUP_APIS = {8, 9, 11, 12, 13, 14, 28, 68, 76, 88}


def counts_of(*steps: object) -> AnalysisCounts:
    counts = AnalysisCounts()
    for event in events_of(*steps, closing, session=new_session()):
        counts.write(event, None)
    return counts


def counted(*steps: object) -> AnalyzerCounts:
    return counts_of(*steps).message(0)


def series(counts: AnalysisCounts, kind: str) -> list[Row]:
    return next(message.rows for message in counts.series() if message.kind == kind)


def topics(counts: AnalysisCounts) -> list[tuple[str, ...]]:
    """Topic, operation and bytes."""
    return [(*labels[1:], numbers[1]) for labels, numbers in series(counts, "topics")]


def rebalances(counts: AnalysisCounts) -> list[tuple[str, int]]:
    return [(labels[1], numbers[2]) for labels, numbers in series(counts, "groups")]


def join(correlation_id: int, group: str) -> bytes:
    """JoinGroup v0: group, session timeout, member, protocol type, protocols."""
    body = string(group) + (10_000).to_bytes(4, "big") + string("") + string("consumer") + array()
    return request(JOIN_GROUP, 0, correlation_id, body)


def joined(correlation_id: int, generation: int, error_code: int = 0) -> bytes:
    """Its response: error, generation, protocol, leader, member, members."""
    head = error_code.to_bytes(2, "big", signed=True) + generation.to_bytes(4, "big", signed=True)
    return response(correlation_id, head + string("range") + string("m") + string("m") + array())


def test_errors_are_counted_by_api_and_name() -> None:
    said = counted(
        client >> heartbeat(1),
        broker >> heartbeat_answer(1, 27),
        client >> heartbeat(2),
        broker >> heartbeat_answer(2, 27),
        client >> heartbeat(3),
        broker >> heartbeat_answer(3),
    )
    assert said.errors == [("Heartbeat", "REBALANCE_IN_PROGRESS", 2)]
    assert (said.exchanges, said.frames, said.unanswered) == (3, 6, 0)


def test_what_is_not_answered_or_not_read_is_counted() -> None:
    said = counted(client >> heartbeat(1), client >> request(12, 0, 2, b"\xff\xff\xff"))
    assert said.unanswered == 2
    assert said.undecoded == [("Heartbeat", 1)]


def test_frames_that_are_more_or_less_than_a_message_are_counted_by_side() -> None:
    """The Produce's topic and bytes count although its records are cut: what is here of it says them."""
    asked = frame(bytes.fromhex("0003 000d 00000002 0007 72646b61666b61 00 00000000 010000"))
    records = request(PRODUCE, 7, 3, bytes.fromhex("ffff 0001 00000000 00000001 0001 74 00000001 00000000 000003e8"))
    cut = (len(records) - 4 + 1000).to_bytes(4, "big") + records[4:]
    counts = counts_of(client >> asked, client >> asked, client >> cut, client.loses(1000, Cut.LEFT_OUT))
    said = counts.message(0)
    assert said.trailing == [("Metadata", "request", 2)]
    assert said.cut == [("Produce", "request", 1)]
    assert said.undecoded == []
    assert topics(counts) == [("t", "produce", 1000)]


def test_a_rebalance_is_a_generation_not_heard_of_before() -> None:
    steps = []
    for correlation_id, (group, generation, error) in enumerate(
        [("a", 1, 0), ("a", 1, 0), ("b", 1, 0), ("a", 2, 0), ("a", -1, 25)], 1
    ):
        steps += [client >> join(correlation_id, group), broker >> joined(correlation_id, generation, error)]
    counts = counts_of(*steps)
    assert rebalances(counts) == [("a", 2), ("b", 1)]
    assert series(counts, "groups") == [(("", "a"), [4, 1, 2]), (("", "b"), [1, 0, 1])]  # requests, errors, rebalances


def test_groups_of_one_name_in_two_clusters_rebalance_each_for_itself() -> None:
    counts = AnalysisCounts()
    for cluster in ["one", "other"] * 3:
        for event in events_of(client >> join(1, "g"), broker >> joined(1, 5 if cluster == "one" else 9)):
            event.connection.cluster = cluster
            counts.write(event, None)
    assert series(counts, "groups") == [(("one", "g"), [3, 0, 1]), (("other", "g"), [3, 0, 1])]


def test_bytes_of_records_by_topic_are_those_that_kafka_encoded() -> None:
    """The sizes are taken from Kafka's own JSON of the same frames."""
    seen: Counter[int | None] = Counter()
    for asked, answered, exchange in golden_exchanges():
        if exchange.api_key not in (PRODUCE, FETCH) or exchange.undecoded:
            continue
        counts = AnalysisCounts()
        counts.write(exchange, None)
        body = asked["json"] if exchange.api_key == PRODUCE else answered["json"]
        expected = sum(sizes(body))
        assert sum(size for *_, size in topics(counts)) == expected, exchange.api_version
        seen[exchange.api_key] += expected > 0
    assert min(seen[PRODUCE], seen[FETCH]) > 5


def test_groups_are_those_of_kafkas_json_in_every_version() -> None:
    seen: set[tuple[int | None, int | None]] = set()
    for asked, _, exchange in golden_exchanges():
        body = asked["json"]
        if exchange.api_key not in GROUP_APIS or exchange.undecoded:
            continue
        counts = AnalysisCounts()
        counts.write(exchange, None)
        groups = [body["groupId"]] if "groupId" in body else [group["groupId"] for group in body["groups"]]
        found = {labels[1]: numbers[0] for labels, numbers in series(counts, "groups")}
        assert found == Counter(map(printable, groups)), (exchange.api_key, exchange.api_version)
        seen.add((exchange.api_key, exchange.api_version))
    assert {api for api, _ in seen} == GROUP_APIS and len(seen) > 50


def test_requests_and_connections_by_client_and_software() -> None:
    exchanges = [exchange for *_, exchange in golden_exchanges() if exchange.api_key in (API_VERSIONS, 12)]
    first = exchanges[0]
    first.connection.client_software_name, first.connection.client_software_version = "librdkafka", "2.5.0\x1b"
    counts = AnalysisCounts()
    for number in range(3):
        counts.write(first.copy(api_key=(API_VERSIONS, 12, API_VERSIONS)[number], client_id="old\n"), None)
    labels = "", "librdkafka", "2.5.0\\x1b"
    assert dict(series(counts, "software"))[labels] == [3, 1]
    counts.end(End(first.connection.number, 0))
    counts.write(first.copy(api_key=API_VERSIONS), None)
    assert dict(series(counts, "software"))[labels] == [4, 2]
    assert first.request is not None and first.response is not None
    requests, asked, answered, *_ = dict(series(counts, "clients"))[("", "old\\n")]
    assert (requests, asked, answered) == (3, 3 * (4 + len(first.request.data)), 3 * (4 + len(first.response.data)))


def test_requests_by_principal() -> None:
    """A name that logged in, else the subject of the certificate; clients without either are not counted."""
    first = next(golden_exchanges())[-1]
    counts, connection = AnalysisCounts(), first.connection
    connection.user_name = connection.tls_to_proxy = None
    counts.write(first, None)
    connection.tls_to_proxy = TlsFacts("1.3", client_certificate="CN=app", decrypted=True)
    counts.write(first, None)
    connection.user_name = "alice\n"
    counts.write(first, None)
    counts.write(first, None)
    assert {labels: numbers[0] for labels, numbers in series(counts, "principals")} == {
        ("", "CN=app"): 1,
        ("", "alice\\n"): 2,
    }


def sizes(value: object) -> list[int]:
    """Of all records fields in Kafka's JSON."""
    if isinstance(value, dict):
        here = [int(inner) for name, inner in value.items() if name.endswith("ecordsSizeInBytes")]
        return here + [size for inner in value.values() for size in sizes(inner)]
    return [size for inner in value for size in sizes(inner)] if isinstance(value, list) else []


def test_throttling_is_that_of_kafkas_json() -> None:
    """Kafka's own encoder wrote the responses, and its own JSON says how long the client is to wait."""
    counts = AnalysisCounts()
    expected: Counter[str] = Counter()
    for _, answered, exchange in golden_exchanges():
        throttle_ms = int(answered["json"].get("throttleTimeMs", 0))
        if not exchange.undecoded and throttle_ms > 0:
            expected[str(exchange.api_name)] += throttle_ms
            counts.write(exchange, None)
    said = counts.message(0)
    assert dict(said.throttle_ms) == expected and len(expected) > 20
    assert sum(count for _, count in said.throttled) == said.exchanges
    assert sum(numbers[4] for _, numbers in series(counts, "clients")) == expected.total()


def test_acks_0_is_no_unanswered_request() -> None:
    said = counted(client >> produce(1, acks=0))
    assert (said.exchanges, said.unanswered) == (1, 0)


def test_every_golden_exchange_is_counted_without_a_fault() -> None:
    counts = AnalysisCounts()
    total = 0
    for *_, exchange in golden_exchanges():
        counts.write(exchange, None)
        total += 1
    said = counts.message(7)
    assert said.exchanges == total > 300
    assert said.at == 7
    assert msgspec.json.decode(msgspec.json.encode(said), type=AnalyzerCounts) == said


def test_attack_19_any_number_of_names_is_a_thousand_series() -> None:
    counter = BoundedCounter()
    for number in range(100_000):
        counter.add(f"topic-{number}", "produce")
    rows = counter.rows()
    assert len(rows) == MOST_SERIES
    assert rows[-1] == (OTHER, OTHER, 100_000 - MOST_SERIES + 1)
    counter.add("topic-5", "produce", n=10)
    assert ("topic-5", "produce", 11) in counter.rows()


def test_attack_19_the_counts_fit_the_channel_whatever_the_names() -> None:
    """A message that is too long is dropped, each second anew."""
    counts = AnalysisCounts()
    for counter, labels in ((counts.undecoded, 1), (counts.errors, 2), (counts.trailing, 2), (counts.cut, 2)):
        for number in range(3_000):
            counter.add(f"{number}" + "\U0001f9ea\0" * 300, *["x" * 100] * (labels - 1))
    message = counts.message(2**63)
    assert len(msgspec.json.encode(message)) + 10_000 < LONGEST_LINE  # with the rest of it
    for rows in (message.undecoded, message.errors, message.trailing, message.cut):
        assert len(rows) > 50 and sum(row[-1] for row in rows) == 3_000 and rows[-1][0] == OTHER


@pytest.mark.parametrize("name", sampled(["\U000e0001", "\udcff", '"', "\0"], ["\udcff"]))
def test_attack_19_each_kind_of_series_fits_the_channel_whatever_the_names(name: str) -> None:
    counts = AnalysisCounts()
    for number in range(1_000):
        hostile = f"{number}" + name * 150
        counts.clients.add((hostile, hostile), *[2**50] * 5)
        counts.principals.add((hostile, hostile), *[2**50] * 5)
        counts.software.add((hostile, hostile, hostile), *[2**50] * 2)
        counts.groups.add((hostile, hostile), *[2**50] * 3)
        counts.topics.add((hostile, hostile, "produce"), *[2**50] * 2)
        counts.lag._note_end(("c", hostile[:200], 0), 2**50)
        counts.lag._note_commits((hostile, hostile), {("c", hostile[:200], 0): number})
    for message in counts.series():
        assert len(message.rows) == MOST_SERIES
        assert len(msgspec.json.encode(message)) < LONGEST_LINE


def test_attack_19_many_groups_are_bounded_and_their_names_are_cut() -> None:
    steps = []
    for number in range(1, 1_200):
        steps += [client >> join(number, f"{'g' * 500}\n{number}"[-400:]), broker >> joined(number, 1)]
    found = rebalances(counts_of(*steps))
    assert len(found) <= MOST_SERIES and sum(count for _, count in found) == 1_199
    assert all(len(name) <= LONGEST_NAME and "\n" not in name for name, _ in found)


def test_a_fetch_that_brings_nothing_names_no_topic() -> None:
    assert topics(counts_of(client >> fetch(1, 0, -1, partitions=((0, 5),)), broker >> fetch_answer(1, 0))) == []


UNSUPPORTED, FAILED = 33, 58  # UNSUPPORTED_SASL_MECHANISM, SASL_AUTHENTICATION_FAILED


def logins(*steps: object) -> list[tuple[str, str, int]]:
    counts = AnalysisCounts()
    for event in events_of(*steps, closing, session=new_session()):
        counts.write(event, None)
    counts.end(End(new_session().connection.number, 0))
    return counts.message(0).sasl


def handshake(mechanism: str, version: int = 1, error: int = 0) -> list[object]:
    return [client >> sasl_handshake(1, version, mechanism), broker >> sasl_handshake_answer(1, error)]


def round_of(correlation_id: int, error: int = 0) -> list[object]:
    return [
        client >> sasl_authenticate(correlation_id, b"token"),
        broker >> sasl_authenticate_answer(correlation_id, error),
    ]


NEXT = [client >> heartbeat(9), broker >> heartbeat_answer(9)]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([*handshake("PLAIN"), *round_of(2)], [("PLAIN", "succeeded", 1)]),
        ([*handshake("PLAIN"), *round_of(2, FAILED)], [("PLAIN", "failed", 1)]),
        ([*handshake("SCRAM-SHA-256"), *round_of(2), *round_of(3)], [("SCRAM-SHA-256", "succeeded", 1)]),
        ([*handshake("SCRAM-SHA-256"), *round_of(2), *round_of(3, FAILED)], [("SCRAM-SHA-256", "failed", 1)]),
        ([*handshake("SCRAM-SHA-256"), *round_of(2)], [("SCRAM-SHA-256", "not_completed", 1)]),
        ([*handshake("OAUTHBEARER"), *round_of(2), *NEXT], [("OAUTHBEARER", "succeeded", 1)]),
        ([*handshake("OAUTHBEARER"), *round_of(2), *round_of(3, FAILED)], [("OAUTHBEARER", "failed", 1)]),
        (handshake("NONE\x1b", error=UNSUPPORTED), [("NONE\\x1b", "failed", 1)]),
        ([client >> sasl_handshake(1, 1, "PLAIN")], [("PLAIN", "not_completed", 1)]),
        # raw tokens: the next request is answered, or the broker closes
        (
            [*handshake("PLAIN", 0), client >> frame(b"\0a\0b"), broker >> frame(b""), *NEXT],
            [("PLAIN", "succeeded", 1)],
        ),
        ([*handshake("PLAIN", 0), client >> frame(b"\0a\0b")], [("PLAIN", "not_completed", 1)]),
        # again on the same connection (KIP-368)
        (
            [*handshake("PLAIN"), *round_of(2), *NEXT, *handshake("PLAIN"), *round_of(2, FAILED)],
            [("PLAIN", "succeeded", 1), ("PLAIN", "failed", 1)],
        ),
        (NEXT, []),
    ],
)
def test_what_came_of_a_login(steps: list[object], expected: list[tuple[str, str, int]]) -> None:
    assert logins(*steps) == expected


def test_logins_that_go_on_are_bounded() -> None:
    followed = Logins()
    for number in range(MOST_BEGUN + 500):
        followed.begin((0, number), Connection(number, "a:1", "b:2", sasl_mechanism="GSSAPI"))
    for number in range(MOST_BEGUN + 500):
        followed.end((0, number))
    assert followed.counts.rows() == [("GSSAPI", "not_completed", MOST_BEGUN)]
    assert not followed.begun
