"""Deny: what a rule forbids, and nothing else."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kproxy.errors import UsageError
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Answer, Close, Direction, Outcome, RequestFacts, Send, Want
from kproxy.filters.loading import load_filter
from kproxy.protocol import message, response_message
from tests.support.filtering import GivenRuntime, connection, make, part, request_frame, response_frame, settled

BOTH = 'topic.startsWith("secret")'


class Bench:
    """A connection with rules."""

    def __init__(self, *rules: dict[str, Any], **options: Any) -> None:
        self.runtime = GivenRuntime()
        self.filter = load_filter("deny", {"rules": list(rules), **options})
        self.chain = Chain([self.filter], runtime=self.runtime)
        self.at = connection()
        self.frame = b""

    def ask(self, name: str, version: int, value: Any) -> Outcome:
        self.frame = request_frame(name, version, value)
        return settled(self.chain.on_request(self.at, self.frame))

    def answered(self, outcome: Outcome, name: str, value: Any) -> Any:
        """The broker's answer to what was forwarded, as the client gets it."""
        assert isinstance(outcome, Send) and outcome.request is not None
        asked = outcome.request
        frame = response_frame(asked.api_key, asked.api_version, message(name).encode(asked.api_version, value))
        sent = settled(self.chain.on_response(self.at, asked, frame))
        assert isinstance(sent, Send)
        return body(asked.api_key, asked.api_version, sent.frame)

    def create(self, *names: str) -> Outcome:
        topics = [part("CreateTopicsRequest", "CreatableTopic", name=name) for name in names]
        return self.ask("CreateTopicsRequest", 7, make("CreateTopicsRequest", topics=topics))

    def produce(self, *names: str, acks: int = -1) -> Outcome:
        def data(name: str) -> Any:
            partition = part("ProduceRequest", "PartitionProduceData", index=0, records=b"")
            return part("ProduceRequest", "TopicProduceData", name=name, partition_data=[partition])

        return self.ask("ProduceRequest", 9, make("ProduceRequest", acks=acks, topic_data=[data(n) for n in names]))


def body(api_key: int, version: int, frame: bytes) -> Any:
    codec = response_message(api_key)
    assert codec is not None
    return codec.decode(version, frame[9:])


def test_what_no_rule_forbids_is_forwarded_as_it_came() -> None:
    bench = Bench({"when": 'principal == "mallory"'}, {"when": BOTH})
    outcome = bench.create("a")
    assert outcome == Send(bench.frame)
    assert isinstance(outcome, Send) and outcome.frame is bench.frame


def test_a_rule_forbids_a_request_as_a_whole() -> None:
    bench = Bench({"when": 'apiName == "CreateTopics" && principal == null', "message": "who are you?"})
    outcome = bench.create("a", "b")
    assert isinstance(outcome, Answer)
    assert [(t.name, t.error_code, t.error_message) for t in body(19, 7, outcome.frame).topics] == [
        ("a", 29, "who are you?"),
        ("b", 29, "who are you?"),
    ]


def test_only_the_topics_that_a_rule_names_are_taken_out() -> None:
    bench = Bench({"when": BOTH})
    outcome = bench.produce("open", "secret-1")
    assert isinstance(outcome, Send)
    sent: Any = message("ProduceRequest").decode(9, outcome.frame, len(bench.frame) - len(bench.frame[4:]) + 14)
    assert [topic.name for topic in sent.topic_data] == ["open"]
    partition = part("ProduceResponse", "PartitionProduceResponse", index=0, base_offset=5)
    told = [part("ProduceResponse", "TopicProduceResponse", name="open", partition_responses=[partition])]
    frame = response_frame(0, 9, message("ProduceResponse").encode(9, make("ProduceResponse", responses=told)))
    assert outcome.request is not None
    answer = bench.chain.on_response(bench.at, outcome.request, frame)
    assert isinstance(answer, Send)
    found = body(0, 9, answer.frame).responses
    assert [(t.name, [(p.index, p.error_code, p.base_offset) for p in t.partition_responses]) for t in found] == [
        ("open", [(0, 0, 5)]),
        ("secret-1", [(0, 29, -1)]),
    ]


def test_a_request_of_forbidden_topics_alone_is_answered_here() -> None:
    outcome = Bench({"when": BOTH}).produce("secret-1", "secret-2")
    assert isinstance(outcome, Answer)
    found = body(0, 9, outcome.frame).responses
    assert [(t.name, t.partition_responses[0].error_code) for t in found] == [("secret-1", 29), ("secret-2", 29)]


def sent_topics(outcome: Outcome) -> Any:
    assert isinstance(outcome, Send) and outcome.request is not None
    return outcome.request.message


@pytest.mark.parametrize("others", [0, 1_000])
def test_a_rule_is_asked_of_what_the_rules_before_it_left(others: int) -> None:
    """Two rules by topic: each of the two has its error, and the third topic alone gets to the broker."""
    rules = {"when": 'topic == "a"'}, {"when": 'topic == "b"', "error": "POLICY_VIOLATION"}
    names = [f"open-{number}" for number in range(others)] + ["c"]
    bench = Bench(*rules)
    outcome = bench.produce("a", "b", *names)
    assert [topic.name for topic in sent_topics(outcome).topic_data] == names
    told = [part("ProduceResponse", "TopicProduceResponse", name="c")]
    found = bench.answered(outcome, "ProduceResponse", make("ProduceResponse", responses=told)).responses
    assert [(t.name, [p.error_code for p in t.partition_responses]) for t in found] == [
        ("c", []),
        ("a", [29]),
        ("b", [44]),
    ]
    bench = Bench(*rules)
    outcome = bench.create("a", *names, "b")
    assert [topic.name for topic in sent_topics(outcome).topics] == names
    told = [part("CreateTopicsResponse", "CreatableTopicResult", name="c")]
    found = bench.answered(outcome, "CreateTopicsResponse", make("CreateTopicsResponse", topics=told)).topics
    assert [(t.name, t.error_code) for t in found] == [("c", 0), ("a", 29), ("b", 44)]


def test_a_request_whose_topics_are_forbidden_by_several_rules_is_answered_here() -> None:
    outcome = Bench({"when": 'topic == "a"'}, {"when": 'topic == "b"', "error": "POLICY_VIOLATION"}).create("a", "b")
    assert isinstance(outcome, Answer)
    assert {t.name: t.error_code for t in body(19, 7, outcome.frame).topics} == {"a": 29, "b": 44}


@pytest.mark.parametrize(("error", "expected"), [(None, 29), ("POLICY_VIOLATION", 44)])
def test_a_rule_for_the_whole_request_is_asked_after_a_topic_was_taken_out(error: str | None, expected: int) -> None:
    bench = Bench({"when": 'topic == "a"'}, {"when": 'apiName == "CreateTopics"', "error": error})
    outcome = bench.create("a", "b", "c")
    assert isinstance(outcome, Answer)
    found = body(19, 7, outcome.frame).topics
    assert {t.name: t.error_code for t in found} == {"a": 29, "b": expected, "c": expected}
    closing = Bench({"when": 'topic == "a"'}, {"when": 'apiName == "CreateTopics"', "error": "CLOSE"})
    assert isinstance(closing.create("a", "b"), Close)


def test_a_produce_that_wants_no_answer_closes_as_with_a_broker() -> None:
    assert isinstance(Bench({"when": BOTH}).produce("secret-1", acks=0), Close)
    assert isinstance(Bench({"when": BOTH}).produce("open", "secret-1", acks=0), Close)


@pytest.mark.parametrize("version", [4, 7, 12, 13, 17])
def test_of_fetch_the_partitions_have_the_error(version: int) -> None:
    id_ = "AAAAAAAAAAAAAAAAAAAAAQ"
    bench = Bench({"when": BOTH})
    bench.runtime.kept["topic_names"] = {id_: "secret-1"}
    name = {"topic": "secret-1"} if version < 13 else {"topic_id": id_}
    topic = part("FetchRequest", "FetchTopic", partitions=[part("FetchRequest", "FetchPartition", partition=3)], **name)
    outcome = bench.ask("FetchRequest", version, make("FetchRequest", topics=[topic]))
    assert isinstance(outcome, Answer)
    start = 9 if version >= 12 else 8
    codec = message("FetchResponse")
    answer: Any = codec.decode(version, outcome.frame[start:])
    assert answer.error_code == 0
    assert [(p.partition_index, p.error_code) for t in answer.responses for p in t.partitions] == [(3, 29)]


@pytest.mark.parametrize(
    ("name", "version", "values", "expected"),
    [
        ("OffsetFetchRequest", 7, {"group_id": "g", "topics": None}, 30),
        ("InitProducerIdRequest", 4, {"transactional_id": "t"}, 53),
        ("ListGroupsRequest", 4, {}, 31),
    ],
)
def test_the_error_fits_what_is_asked_for(name: str, version: int, values: Any, expected: int) -> None:
    outcome = Bench({"when": "true"}).ask(name, version, make(name, **values))
    assert isinstance(outcome, Answer)
    api_key = message(name).api_key
    assert api_key is not None
    assert body(api_key, version, outcome.frame).error_code == expected


def test_an_error_of_ones_own_and_closing() -> None:
    outcome = Bench({"when": "true", "error": "POLICY_VIOLATION"}).create("a")
    assert isinstance(outcome, Answer)
    assert body(19, 7, outcome.frame).topics[0].error_code == 44
    assert isinstance(Bench({"when": "true", "error": "CLOSE", "name": "n"}).create("a"), Close)


def test_a_dry_run_only_says_what_it_would_deny() -> None:
    for bench in (Bench({"when": BOTH}, dry_run=True), Bench({"when": "size(topics) == 2", "dry_run": True})):
        assert bench.create("secret-1", "b") == Send(bench.frame)
        ((event, reason),) = bench.runtime.warnings
        assert event == "would be denied"
        assert '"api":"CreateTopics"' in reason and "secret-1" in reason


def test_decisions_go_to_a_journal() -> None:
    bench = Bench({"when": BOTH, "name": "no secrets"}, file={"path": "denied.jsonl"})
    bench.create("secret-1\n")
    (line,) = bench.runtime.journals["denied.jsonl"].fields()
    assert (line["event"], line["rule"], line["error"]) == ("denied", "no secrets", "TOPIC_AUTHORIZATION_FAILED")
    assert line["topics"] == ["secret-1\n"]


def test_decisions_wait_for_a_disk_that_is_late_and_are_dropped_where_it_takes_nothing() -> None:
    """In their order, 1,000 at most; each number is written or dropped."""
    bench = Bench({"when": BOTH, "api_name": ["CreateTopics"]}, file={"path": "denied.jsonl"})
    bench.create("secret-0")
    journal = bench.runtime.journals["denied.jsonl"]
    journal.is_writable, journal.is_late = False, True
    for number in range(1, 1_003):
        bench.create(f"secret-{number}")
    assert (journal.seen, journal.written, journal.dropped) == (1_003, 1, 2)
    journal.is_writable, journal.is_late = True, False
    bench.create("open")
    assert [line["topics"] for line in journal.fields()] == [["secret-0"], *([f"secret-{n}"] for n in range(3, 1_003))]
    journal.is_writable = False  # it has failed
    bench.create("secret-x")
    assert (journal.seen, journal.written, journal.dropped) == (1_004, 1_001, 3)
    journal.is_late = True
    bench.create("secret-y")
    bench.chain.stop()
    assert (journal.seen, journal.written, journal.dropped) == (1_005, 1_001, 4)


def test_a_condition_that_fails_refuses_the_request() -> None:
    outcome = Bench({"when": 'clientId + 1 == "x"'}).create("a")
    assert isinstance(outcome, Answer)
    assert body(19, 7, outcome.frame).topics[0].error_code == 44


def test_only_the_apis_of_the_rules_are_held() -> None:
    made = Bench({"when": "true", "api_name": ["CreateTopics"]}).filter
    assert {key for key in range(93) if made.wants(Direction.REQUEST, key, 1) is not Want.PASS} == {19}
    assert {key for key in range(93) if made.wants(Direction.RESPONSE, key, 1) is not Want.PASS} == set()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"when": "principl == 'x'"}, "did you mean principal"),
        ({"when": "true", "error": "NOPE"}, 'there is no error "NOPE"'),
        ({"when": "true", "error": "NONE"}, 'there is no error "NONE"'),
        ({"when": "true", "api_name": ["Nope"]}, 'there is no API "Nope"'),
        ({}, "rules[0].when: it is missing"),
    ],
)
def test_mistakes_in_rules(rule: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_filter("deny", {"rules": [rule]})
    assert words in str(caught.value)


def test_a_topic_id_that_is_not_known_is_no_way_past_a_rule() -> None:
    """The client gets UNKNOWN_TOPIC_ID and asks for Metadata, from which the name is learned."""
    id_ = "AAAAAAAAAAAAAAAAAAAAAQ"
    topic = part(
        "FetchRequest", "FetchTopic", topic_id=id_, partitions=[part("FetchRequest", "FetchPartition", partition=3)]
    )
    for rule in (BOTH, 'topics.exists(t, t.startsWith("secret"))'):
        bench = Bench({"when": rule})
        outcome = bench.ask("FetchRequest", 13, make("FetchRequest", topics=[topic]))
        assert isinstance(outcome, Answer)
        assert [(p.error_code) for t in body(1, 13, outcome.frame).responses for p in t.partitions] == [100]
        bench.runtime.kept["topic_names"][id_] = "open"
        asked = make("FetchRequest", topics=[topic], max_bytes=1_000)
        assert bench.ask("FetchRequest", 13, asked) == Send(bench.frame)


def test_many_topics_are_no_way_past_a_rule() -> None:
    names = [f"open-{number}" for number in range(3_000)]
    outcome = Bench({"when": BOTH}).create(*names, "secret-1")
    assert isinstance(outcome, Send) and outcome.request is not None
    sent: Any = outcome.request.message
    assert [topic.name for topic in sent.topics] == names
    for rule in ('"secret-1" in topics', 'resources.exists(r, r.name == "secret-1")'):
        assert isinstance(Bench({"when": rule}).create(*names, "secret-1"), Answer)


@pytest.mark.parametrize(
    "rule",
    ['!principal.startsWith("admin-")', '!clientId.startsWith("team-")', "!topics.exists(t, t.size() > principal)"],
)
def test_a_value_that_is_null_is_no_way_past_a_rule(rule: str) -> None:
    bench = Bench({"when": rule})
    topics = [part("CreateTopicsRequest", "CreatableTopic", name="a")]
    frame = request_frame("CreateTopicsRequest", 7, make("CreateTopicsRequest", topics=topics))
    after_client_id = 14 + int.from_bytes(frame[12:14], "big")
    nameless = frame[4:12] + b"\xff\xff" + frame[after_client_id:]
    outcome = bench.chain.on_request(bench.at, len(nameless).to_bytes(4, "big") + nameless)
    assert isinstance(outcome, Answer)
    assert body(19, 7, outcome.frame).topics[0].error_code == 44


@pytest.mark.parametrize("version", [12, 13, 17])
def test_a_version_without_names_is_no_way_past_a_rule_about_the_request(version: int) -> None:
    id_ = "AAAAAAAAAAAAAAAAAAAAAQ"
    bench = Bench({"when": 'request.topics.exists(t, t.topic == "secret")'})
    name = {"topic": "secret"} if version < 13 else {"topic_id": id_}
    topic = part("FetchRequest", "FetchTopic", partitions=[part("FetchRequest", "FetchPartition")], **name)
    asked = make("FetchRequest", topics=[topic])
    for known, error in (({}, 29 if version < 13 else 100), ({id_: "secret"}, 29)):
        bench.runtime.kept["topic_names"] = known
        outcome = bench.ask("FetchRequest", version, asked)
        assert isinstance(outcome, Answer)
        assert [p.error_code for t in body(1, version, outcome.frame).responses for p in t.partitions] == [error]


def test_what_a_version_lacks_is_no_way_past_a_rule() -> None:
    """validateOnly came with version 1 of CreateTopics; no version of it has groupId."""
    topics = [part("CreateTopicsRequest", "CreatableTopic", name="a")]
    bench = Bench({"when": "request.validateOnly == false"})
    outcome = bench.ask("CreateTopicsRequest", 0, make("CreateTopicsRequest", topics=topics))
    assert isinstance(outcome, Answer)
    bench = Bench({"when": 'request.groupId == "g"'})
    assert bench.create("a") == Send(bench.frame)


def fetch(bench: Bench, topics: list[str], **session: int) -> Outcome:
    named = [
        part("FetchRequest", "FetchTopic", topic=t, partitions=[part("FetchRequest", "FetchPartition")]) for t in topics
    ]
    return bench.ask("FetchRequest", 12, make("FetchRequest", topics=named, max_bytes=1_000, **session))


@pytest.mark.parametrize("rule", [BOTH, '"secret-1" in topics'])
def test_a_fetch_session_that_was_opened_elsewhere_is_no_way_past_a_rule(rule: str) -> None:
    """A request in a session names nothing; the client whose session is not found sends all names (KIP-227)."""
    bench = Bench({"when": rule})
    refused = fetch(bench, [], session_id=5, session_epoch=3)
    assert isinstance(refused, Answer)
    assert body(1, 12, refused.frame).error_code == 70
    opening = fetch(bench, ["open"], session_id=0, session_epoch=0)
    assert bench.answered(opening, "FetchResponse", make("FetchResponse", session_id=6)).session_id == 6
    assert fetch(bench, [], session_id=6, session_epoch=1) == Send(bench.frame)
    assert isinstance(fetch(bench, [], session_id=5, session_epoch=4), Answer)
    bench.chain.on_close(bench.at)
    assert isinstance(fetch(bench, [], session_id=6, session_epoch=2), Answer)


@pytest.mark.parametrize("version", [9, 13])
def test_metadata_of_forbidden_topics_alone_tells_the_brokers_all_the_same(version: int) -> None:
    """As brokers do. Clients take a broker that Metadata does not tell of for gone."""
    bench = Bench({"when": 'topic == "secret-1"'}, {"when": BOTH, "error": "INVALID_TOPIC_EXCEPTION"})
    asked = [part("MetadataRequest", "MetadataRequestTopic", name=f"secret-{number}") for number in (1, 2)]
    outcome = bench.ask("MetadataRequest", version, make("MetadataRequest", topics=asked))
    assert sent_topics(outcome).topics == []  # none; null would be all
    brokers = [part("MetadataResponse", "MetadataResponseBroker", node_id=5, host="kafka", port=9092)]
    found = bench.answered(outcome, "MetadataResponse", make("MetadataResponse", brokers=brokers, controller_id=5))
    assert ([each.node_id for each in found.brokers], found.controller_id) == ([5], 5)
    assert [(topic.name, topic.error_code) for topic in found.topics] == [("secret-1", 29), ("secret-2", 17)]


def test_metadata_of_version_0_with_no_topics_would_ask_for_all() -> None:
    asked = [part("MetadataRequest", "MetadataRequestTopic", name="secret-1")]
    outcome = Bench({"when": BOTH}).ask("MetadataRequest", 0, make("MetadataRequest", topics=asked))
    assert isinstance(outcome, Answer)
    told: Any = message("MetadataResponse").decode(0, outcome.frame[8:])
    assert [(topic.name, topic.error_code) for topic in told.topics] == [("secret-1", 29)]


def test_metadata_tells_nothing_of_a_topic_that_is_forbidden() -> None:
    """Asked for all topics it is left out, as brokers do; asked for by an id that nobody knew it has the error and no name."""
    id_ = "AAAAAAAAAAAAAAAAAAAAAQ"
    many = [f"open-{number}" for number in range(1_000)]
    for names in (["a"], many):
        bench = Bench({"when": BOTH})
        told = [part("MetadataResponse", "MetadataResponseTopic", name=name) for name in [*names, "secret-1"]]
        outcome = bench.ask("MetadataRequest", 12, make("MetadataRequest", topics=None))
        found = bench.answered(outcome, "MetadataResponse", make("MetadataResponse", topics=told))
        assert [topic.name for topic in found.topics] == names
    by_id = [part("MetadataRequest", "MetadataRequestTopic", name=None, topic_id=id_)]
    outcome = bench.ask("MetadataRequest", 12, make("MetadataRequest", topics=by_id))
    told = [part("MetadataResponse", "MetadataResponseTopic", name="secret-1", topic_id=id_)]
    found = bench.answered(outcome, "MetadataResponse", make("MetadataResponse", topics=told))
    assert [(topic.name, topic.error_code, topic.topic_id) for topic in found.topics] == [(None, 29, id_)]


def test_a_request_sent_behind_a_login_waits_for_its_answer() -> None:
    """bob logs in and asks at once; brokers read the request after the login."""
    bench = Bench({"when": 'principal == "bob"'})

    async def scenario() -> Outcome:
        def asked(name: str, version: int, **values: Any) -> RequestFacts | None:
            outcome = bench.chain.on_request(bench.at, request_frame(name, version, make(name, **values)))
            assert isinstance(outcome, Send)
            return outcome.request

        def answered(name: str, request: RequestFacts | None) -> None:
            assert request is not None
            frame = message(name).encode(request.api_version, make(name))
            bench.chain.on_response(bench.at, request, response_frame(request.api_key, request.api_version, frame))

        handshake = asked("SaslHandshakeRequest", 1, mechanism="PLAIN")
        login = asked("SaslAuthenticateRequest", 2, auth_bytes=b"\0bob\0x")
        pending = bench.chain.on_request(bench.at, request_frame("ListGroupsRequest", 4, make("ListGroupsRequest")))
        assert isinstance(pending, Awaitable)
        answered("SaslHandshakeResponse", handshake)
        answered("SaslAuthenticateResponse", login)
        return await pending

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, Answer)
    assert body(16, 4, outcome.frame).error_code == 31


def test_a_dry_run_refuses_nothing_that_it_cannot_answer() -> None:
    bench = Bench({"when": "!principal.startsWith('a')", "dry_run": True})
    assert bench.create("a") == Send(bench.frame)
    assert [event for event, _ in bench.runtime.warnings] == ["would be denied"]


def test_what_is_denied_again_and_again_is_counted_and_seldom_logged() -> None:
    bench = Bench(
        {"when": 'apiName == "CreateTopics"', "name": "none", "dry_run": True}, {"when": 'topic == "x"', "name": "x"}
    )
    for _ in range(80):
        bench.create("x")
        bench.runtime.at += 0.125
    # 10 s of it: a line of each rule a second
    assert [event for event, _ in bench.runtime.warnings] == ["would be denied", "denied"] * 10
    assert bench.runtime.warnings[2][1].startswith("7 more since the last line; {")
    assert {key: count.value for key, count in bench.runtime.counts.items()} == {
        ("deny", "would be denied", "none"): 80,
        ("deny", "denied", "x"): 80,
    }


def test_envelopes_are_refused_as_what_is_in_them_would_pass() -> None:
    bench = Bench({"when": 'apiName == "CreateTopics"', "api_name": ["CreateTopics"]})
    envelope = make("EnvelopeRequest", request_data=b"", client_host_address=b"\x7f\0\0\1")
    assert isinstance(bench.ask("EnvelopeRequest", 0, envelope), Close)
    apis = [part("ApiVersionsResponse", "ApiVersion", api_key=key, max_version=0) for key in (3, 58)]
    offered = response_frame(
        18, 0, message("ApiVersionsResponse").encode(0, make("ApiVersionsResponse", api_keys=apis))
    )
    narrowed = bench.chain.on_response(bench.at, RequestFacts(18, 0, 7), offered)
    assert isinstance(narrowed, Send)
    answer: Any = message("ApiVersionsResponse").decode(0, narrowed.frame[8:])
    assert [api.api_key for api in answer.api_keys] == [3]


def test_all_mistakes_of_a_rule_are_said_with_their_places() -> None:
    rule = {"when": 'api = "x"', "api_name": ["Fetsh", "Nothing like it"], "error": "TOPIC_AUTHORISATION_FAILED"}
    about_topic = {"when": 'topic == "x"', "api_name": ["Produce", "Heartbeat"]}
    with pytest.raises(UsageError) as caught:
        load_filter("deny", {"rules": [rule, about_topic]})
    for words in (
        "rules[0].when: when",
        'rules[0].api_name[0]: there is no API "Fetsh"; did you mean Fetch?',
        'rules[0].api_name[1]: there is no API "Nothing like it"; kproxy api lists them',
        'rules[0].error: there is no error "TOPIC_AUTHORISATION_FAILED"; did you mean TOPIC_AUTHORIZATION_FAILED',
        "rules[1].api_name[1]: Heartbeat names no topic",
    ):
        assert words in str(caught.value)
    with pytest.raises(UsageError, match="rules: the list is empty"):
        load_filter("deny", {"rules": []})


def test_what_is_asked_of_all_topics_tells_nothing_of_one_that_is_forbidden() -> None:
    def told(rules: list[dict[str, Any]], names: list[str]) -> list[str]:
        bench = Bench(*rules)
        topics = [part("DescribeLogDirsResponse", "DescribeLogDirsTopic", name=name) for name in names]
        folder = part("DescribeLogDirsResponse", "DescribeLogDirsResult", log_dir="/d", topics=topics)
        outcome = bench.ask("DescribeLogDirsRequest", 4, make("DescribeLogDirsRequest", topics=None))
        answer = bench.answered(outcome, "DescribeLogDirsResponse", make("DescribeLogDirsResponse", results=[folder]))
        return [topic.name for topic in answer.results[0].topics]

    names = ["open", "secret-1", "other"]
    many = [f"open-{number}" for number in range(2_000)]
    assert told([{"when": BOTH}], names) == ["open", "other"]
    assert told([{"when": BOTH}], [*many, "secret-1"]) == many
    assert told([{"when": BOTH, "dry_run": True}], names) == names
    assert told([{"when": BOTH, "dry_run": True}, {"when": BOTH}], names) == ["open", "other"]
    assert told([{"when": 'topic == "other"', "api_name": ["DescribeLogDirs"]}], names) == ["open", "secret-1"]


def member(of: str, *topics: str) -> Any:
    """A member of a group, which has partitions of topics."""
    assigned = [part(of, "TopicPartitions", topic_name=topic, partitions=[0]) for topic in topics]
    return part(of, "Member", member_id="m", assignment=part(of, "Assignment", topic_partitions=assigned))


@pytest.mark.parametrize("api", ["ConsumerGroupDescribe", "ShareGroupDescribe"])
def test_a_group_with_a_topic_that_is_forbidden_is_not_described(api: str) -> None:
    """As KafkaApis does: its id, TOPIC_AUTHORIZATION_FAILED, and no members; the other groups are told whole."""
    of = f"{api}Response"
    groups = [
        part(of, "DescribedGroup", group_id="g1", group_state="Stable", members=[member(of, "open", "secret-1")]),
        part(of, "DescribedGroup", group_id="g2", group_state="Stable", members=[member(of, "open")]),
    ]
    bench = Bench({"when": BOTH})
    outcome = bench.ask(f"{api}Request", 1, make(f"{api}Request", group_ids=["g1", "g2"]))
    told = bench.answered(outcome, of, make(of, groups=groups)).groups
    assert told == [part(of, "DescribedGroup", group_id="g1", error_code=29), groups[1]]


def test_a_group_of_streams_with_a_topic_that_is_forbidden_is_not_described() -> None:
    of = "StreamsGroupDescribeResponse"

    def group(name: str, source: str) -> Any:
        subtopology = part(of, "Subtopology", subtopology_id="0", source_topics=[source])
        return part(
            of, "DescribedGroup", group_id=name, topology=part(of, "Topology", epoch=1, subtopologies=[subtopology])
        )

    bench = Bench({"when": BOTH, "error": "UNKNOWN_TOPIC_OR_PARTITION"})
    outcome = bench.ask("StreamsGroupDescribeRequest", 0, make("StreamsGroupDescribeRequest", group_ids=["g1", "g2"]))
    told = bench.answered(outcome, of, make(of, groups=[group("g1", "secret-1"), group("g2", "open")])).groups
    assert told == [part(of, "DescribedGroup", group_id="g1", error_code=3), group("g2", "open")]


def test_offsets_of_all_topics_by_ids() -> None:
    """Of an id whose name is not known nothing is told."""
    open_, secret, unknown = (f"AAAAAAAAAAAAAAAAAAAAA{last}" for last in "QgA")
    bench = Bench({"when": BOTH})
    bench.runtime.kept["topic_names"] = {open_: "open", secret: "secret-1"}
    asked = [part("OffsetFetchRequest", "OffsetFetchRequestGroup", group_id="g", topics=None)]
    outcome = bench.ask("OffsetFetchRequest", 10, make("OffsetFetchRequest", groups=asked))
    topics = [
        part("OffsetFetchResponse", "OffsetFetchResponseTopics", topic_id=f"{each[:-1]}w" if each == unknown else each)
        for each in (open_, secret, unknown)
    ]
    told = [part("OffsetFetchResponse", "OffsetFetchResponseGroup", group_id="g", topics=topics)]
    answer = bench.answered(outcome, "OffsetFetchResponse", make("OffsetFetchResponse", groups=told))
    assert [topic.topic_id for topic in answer.groups[0].topics] == [open_]


def test_actions_on_all_topics_are_refused_where_a_rule_asks_for_topics() -> None:
    elect = make("ElectLeadersRequest", topic_partitions=None)
    refused = Bench({"when": BOTH}).ask("ElectLeadersRequest", 2, elect)
    assert isinstance(refused, Answer)
    assert body(43, 2, refused.frame).error_code == 29
    bench = Bench({"when": 'principal == "mallory"'})
    assert bench.ask("ElectLeadersRequest", 2, elect) == Send(bench.frame)
    bench = Bench({"when": BOTH, "dry_run": True})
    assert bench.ask("ElectLeadersRequest", 2, elect) == Send(bench.frame)
    assert [event for event, _ in bench.runtime.warnings] == ["would be denied"]
    pattern = [part("DeleteAclsRequest", "DeleteAclsFilter", resource_type_filter=1, resource_name_filter=None)]
    refused = Bench({"when": BOTH}).ask("DeleteAclsRequest", 3, make("DeleteAclsRequest", filters=pattern))
    assert isinstance(refused, Answer)
    assert [result.error_code for result in body(31, 3, refused.frame).filter_results] == [29]


@pytest.mark.parametrize(("name", "pattern_type"), [("*", 3), ("sec", 4)])
@pytest.mark.parametrize("version", [1, 3])
def test_an_acl_that_covers_a_topic_without_its_name_is_no_way_past_a_rule(
    name: str, pattern_type: int, version: int
) -> None:
    """The wildcard, and a prefix of a topic's name (KIP-290): 3 is LITERAL, 4 is PREFIXED."""

    def create(name: str, pattern_type: int) -> Any:
        about = {"resource_name": name, "resource_pattern_type": pattern_type, "principal": "User:m", "host": "*"}
        acl = part("CreateAclsRequest", "AclCreation", resource_type=2, operation=3, permission_type=3, **about)
        return make("CreateAclsRequest", creations=[acl])

    bench = Bench({"when": 'topic == "secret"'})
    refused = bench.ask("CreateAclsRequest", version, create(name, pattern_type))
    assert isinstance(refused, Answer)
    answer: Any = message("CreateAclsResponse").decode(version, refused.frame[9 if version > 1 else 8 :])
    assert [result.error_code for result in answer.results] == [29]
    assert bench.ask("CreateAclsRequest", version, create("open", 3)) == Send(bench.frame)


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ('principal != "admin" && topic.startsWith("pay")', None),
        ('topic.startsWith("pay") && principal != "admin"', None),
        ('principal == "admin" && topic.startsWith("pay")', 29),
        ('principal == "admin" || topic.startsWith("pay")', 29),
        ('!(topic.startsWith("open")) && principal == "admin"', 29),
        ('principal == "admin" && "pay" in topics && topic == "pay"', 29),  # all there are, though none is named
    ],
)
def test_who_no_rule_is_for_may_act_on_topics_that_are_not_named(rule: str, error: int | None) -> None:
    """A rule for others than the client refuses it nothing, and hides no topic whose id is not known from it."""
    bench = Bench({"when": rule})
    bench.at.principal = "admin"
    elect = make("ElectLeadersRequest", topic_partitions=None)
    elected = bench.ask("ElectLeadersRequest", 2, elect)
    if error is None:
        assert elected == Send(bench.frame)
    else:
        assert isinstance(elected, Answer)
        assert body(43, 2, elected.frame).error_code == error
    asked = [part("OffsetFetchRequest", "OffsetFetchRequestGroup", group_id="g", topics=None)]
    outcome = bench.ask("OffsetFetchRequest", 10, make("OffsetFetchRequest", groups=asked))
    topics = [part("OffsetFetchResponse", "OffsetFetchResponseTopics", topic_id="AAAAAAAAAAAAAAAAAAAAAQ")]
    told = [part("OffsetFetchResponse", "OffsetFetchResponseGroup", group_id="g", topics=topics)]
    answer = bench.answered(outcome, "OffsetFetchResponse", make("OffsetFetchResponse", groups=told))
    assert len(answer.groups[0].topics) == (1 if error is None else 0)


def test_the_page_of_a_listing_may_begin_anywhere() -> None:
    """The cursor is where the broker goes on; only what is asked for by name is refused."""
    bench = Bench({"when": BOTH})
    after = part("DescribeTopicPartitionsRequest", "Cursor", topic_name="secret-1", partition_index=0)
    listing = make("DescribeTopicPartitionsRequest", topics=[], cursor=after)
    assert isinstance(bench.ask("DescribeTopicPartitionsRequest", 0, listing), Send)
    named = [part("DescribeTopicPartitionsRequest", "TopicRequest", name="secret-1")]
    refused = bench.ask("DescribeTopicPartitionsRequest", 0, make("DescribeTopicPartitionsRequest", topics=named))
    assert isinstance(refused, Answer)
    assert [(t.name, t.error_code) for t in body(75, 0, refused.frame).topics] == [("secret-1", 29)]


def test_an_unknown_id_in_a_produce_that_wants_no_answer_closes() -> None:
    data = [part("ProduceRequest", "TopicProduceData", topic_id="AAAAAAAAAAAAAAAAAAAAAQ")]
    outcome = Bench({"when": BOTH}).ask("ProduceRequest", 13, make("ProduceRequest", acks=0, topic_data=data))
    assert isinstance(outcome, Close)
