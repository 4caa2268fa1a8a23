"""Deny: what a rule forbids, and nothing else."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kproxy.errors import UsageError
from kproxy.filters.contract import Answer, Close, Direction, Outcome, RequestFacts, Send, Want
from kproxy.filters.loading import load_filter
from kproxy.protocol import message
from tests.support.filtering import Bench
from tests.support.messages import answer_frame, answer_in, make, request_frame, request_in, response_frame

OTHER = "AAAAAAAAAAAAAAAAAAAAAQ"  # a topic id that no response named
BOTH = 'topic.startsWith("secret")'


def denying(*rules: dict[str, Any], **options: Any) -> Bench:
    return Bench(load_filter("deny", {"rules": list(rules), **options}))


def test_what_no_rule_forbids_is_forwarded_as_it_came() -> None:
    bench = denying({"when": 'principal == "mallory"'}, {"when": BOTH})
    outcome = bench.create("a")
    assert outcome == Send(bench.frame)
    assert isinstance(outcome, Send) and outcome.frame is bench.frame


def test_a_rule_forbids_a_request_as_a_whole() -> None:
    bench = denying({"when": 'apiName == "CreateTopics" && principal == null', "message": "who are you?"})
    outcome = bench.create("a", "b")
    assert isinstance(outcome, Answer)
    assert [(t.name, t.error_code, t.error_message) for t in answer_in(19, 7, outcome.frame).topics] == [
        ("a", 29, "who are you?"),
        ("b", 29, "who are you?"),
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_a_share_fetch_of_a_topic_is_refused_in_each_version(version: int) -> None:
    """Records may not be null in these versions."""
    topics = [{"topic_id": OTHER, "partitions": [{"partition_index": 1}]}]
    outcome = denying({"when": BOTH}).ask("ShareFetchRequest", version, topics=topics)
    assert isinstance(outcome, Answer)
    (topic,) = answer_in(78, version, outcome.frame).responses
    assert [(part.error_code, part.records) for part in topic.partitions] == [(100, b"")]  # UNKNOWN_TOPIC_ID


def test_only_the_topics_that_a_rule_names_are_taken_out() -> None:
    bench = denying({"when": BOTH})
    outcome = bench.produce("open", "secret-1")
    assert isinstance(outcome, Send)
    sent = request_in(outcome.frame)
    assert [topic.name for topic in sent.topic_data] == ["open"]
    told = [{"name": "open", "partition_responses": [{"index": 0, "base_offset": 5}]}]
    found = bench.answered(outcome, responses=told).responses
    assert [(t.name, [(p.index, p.error_code, p.base_offset) for p in t.partition_responses]) for t in found] == [
        ("open", [(0, 0, 5)]),
        ("secret-1", [(0, 29, -1)]),
    ]


def test_a_request_of_forbidden_topics_alone_is_answered_here() -> None:
    outcome = denying({"when": BOTH}).produce("secret-1", "secret-2")
    assert isinstance(outcome, Answer)
    found = answer_in(0, 9, outcome.frame).responses
    assert [(t.name, t.partition_responses[0].error_code) for t in found] == [("secret-1", 29), ("secret-2", 29)]


def sent_topics(outcome: Outcome) -> Any:
    assert isinstance(outcome, Send) and outcome.request is not None
    return outcome.request.message


@pytest.mark.parametrize("others", [0, 1_000])
def test_a_rule_is_asked_of_what_the_rules_before_it_left(others: int) -> None:
    """Two rules by topic: each of the two has its error, and the third topic alone gets to the broker."""
    rules = {"when": 'topic == "a"'}, {"when": 'topic == "b"', "error": "POLICY_VIOLATION"}
    names = [f"open-{number}" for number in range(others)] + ["c"]
    bench = denying(*rules)
    outcome = bench.produce("a", "b", *names)
    assert [topic.name for topic in sent_topics(outcome).topic_data] == names
    told = [{"name": "c"}]
    found = bench.answered(outcome, responses=told).responses
    assert [(t.name, [p.error_code for p in t.partition_responses]) for t in found] == [
        ("c", []),
        ("a", [29]),
        ("b", [44]),
    ]
    bench = denying(*rules)
    outcome = bench.create("a", *names, "b")
    assert [topic.name for topic in sent_topics(outcome).topics] == names
    told = [{"name": "c"}]
    found = bench.answered(outcome, topics=told).topics
    assert [(t.name, t.error_code) for t in found] == [("c", 0), ("a", 29), ("b", 44)]


def test_a_request_whose_topics_are_forbidden_by_several_rules_is_answered_here() -> None:
    outcome = denying({"when": 'topic == "a"'}, {"when": 'topic == "b"', "error": "POLICY_VIOLATION"}).create("a", "b")
    assert isinstance(outcome, Answer)
    assert {t.name: t.error_code for t in answer_in(19, 7, outcome.frame).topics} == {"a": 29, "b": 44}


@pytest.mark.parametrize(("error", "expected"), [(None, 29), ("POLICY_VIOLATION", 44)])
def test_a_rule_for_the_whole_request_is_asked_after_a_topic_was_taken_out(error: str | None, expected: int) -> None:
    bench = denying({"when": 'topic == "a"'}, {"when": 'apiName == "CreateTopics"', "error": error})
    outcome = bench.create("a", "b", "c")
    assert isinstance(outcome, Answer)
    found = answer_in(19, 7, outcome.frame).topics
    assert {t.name: t.error_code for t in found} == {"a": 29, "b": expected, "c": expected}
    closing = denying({"when": 'topic == "a"'}, {"when": 'apiName == "CreateTopics"', "error": "CLOSE"})
    assert isinstance(closing.create("a", "b"), Close)


def test_a_produce_that_wants_no_answer_closes_as_with_a_broker() -> None:
    assert isinstance(denying({"when": BOTH}).produce("secret-1", acks=0), Close)
    assert isinstance(denying({"when": BOTH}).produce("open", "secret-1", acks=0), Close)


@pytest.mark.parametrize("version", [4, 7, 12, 13, 17])
def test_of_fetch_the_partitions_have_the_error(version: int) -> None:
    id_ = "AAAAAAAAAAAAAAAAAAAAAQ"
    bench = denying({"when": BOTH})
    bench.runtime.kept["topic_names"] = {id_: "secret-1"}
    name = {"topic": "secret-1"} if version < 13 else {"topic_id": id_}
    outcome = bench.ask("FetchRequest", version, topics=[{"partitions": [{"partition": 3}], **name}])
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
    outcome = denying({"when": "true"}).ask(name, version, **values)
    assert isinstance(outcome, Answer)
    api_key = message(name).api_key
    assert api_key is not None
    assert answer_in(api_key, version, outcome.frame).error_code == expected


def test_an_error_of_ones_own_and_closing() -> None:
    outcome = denying({"when": "true", "error": "POLICY_VIOLATION"}).create("a")
    assert isinstance(outcome, Answer)
    assert answer_in(19, 7, outcome.frame).topics[0].error_code == 44
    assert isinstance(denying({"when": "true", "error": "CLOSE", "name": "n"}).create("a"), Close)


def test_a_dry_run_only_says_what_it_would_deny() -> None:
    for bench in (denying({"when": BOTH}, dry_run=True), denying({"when": "size(topics) == 2", "dry_run": True})):
        assert bench.create("secret-1", "b") == Send(bench.frame)
        ((event, reason),) = bench.runtime.warnings
        assert event == "would be denied"
        assert '"api":"CreateTopics"' in reason and "secret-1" in reason


def test_decisions_go_to_a_journal() -> None:
    bench = denying({"when": BOTH, "name": "no secrets"}, file={"path": "denied.jsonl"})
    bench.create("secret-1\n")
    (line,) = bench.runtime.journals["denied.jsonl"].fields()
    assert (line["event"], line["rule"], line["error"]) == ("denied", "no secrets", "TOPIC_AUTHORIZATION_FAILED")
    assert line["topics"] == ["secret-1\n"]


def test_decisions_wait_for_a_disk_that_is_late_and_are_dropped_where_it_takes_nothing() -> None:
    """In their order, 1,000 at most; each number is written or dropped."""
    bench = denying({"when": BOTH, "api_name": ["CreateTopics"]}, file={"path": "denied.jsonl"})
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
    outcome = denying({"when": 'clientId + 1 == "x"'}).create("a")
    assert isinstance(outcome, Answer)
    assert answer_in(19, 7, outcome.frame).topics[0].error_code == 44


def test_only_the_apis_of_the_rules_are_held() -> None:
    made = denying({"when": "true", "api_name": ["CreateTopics"]}).filter
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
    topic = {"topic_id": id_, "partitions": [{"partition": 3}]}
    for rule in (BOTH, 'topics.exists(t, t.startsWith("secret"))'):
        bench = denying({"when": rule})
        outcome = bench.ask("FetchRequest", 13, topics=[topic])
        assert isinstance(outcome, Answer)
        assert [(p.error_code) for t in answer_in(1, 13, outcome.frame).responses for p in t.partitions] == [100]
        bench.runtime.kept["topic_names"][id_] = "open"
        assert bench.ask("FetchRequest", 13, topics=[topic], max_bytes=1_000) == Send(bench.frame)


def test_many_topics_are_no_way_past_a_rule() -> None:
    names = [f"open-{number}" for number in range(3_000)]
    outcome = denying({"when": BOTH}).create(*names, "secret-1")
    assert isinstance(outcome, Send) and outcome.request is not None
    sent: Any = outcome.request.message
    assert [topic.name for topic in sent.topics] == names
    for rule in ('"secret-1" in topics', 'resources.exists(r, r.name == "secret-1")'):
        assert isinstance(denying({"when": rule}).create(*names, "secret-1"), Answer)


@pytest.mark.parametrize(
    "rule",
    ['!principal.startsWith("admin-")', '!clientId.startsWith("team-")', "!topics.exists(t, t.size() > principal)"],
)
def test_a_value_that_is_null_is_no_way_past_a_rule(rule: str) -> None:
    bench = denying({"when": rule})
    frame = request_frame("CreateTopicsRequest", 7, topics=[{"name": "a"}])
    after_client_id = 14 + int.from_bytes(frame[12:14], "big")
    nameless = frame[4:12] + b"\xff\xff" + frame[after_client_id:]
    outcome = bench.chain.on_request(bench.at, len(nameless).to_bytes(4, "big") + nameless)
    assert isinstance(outcome, Answer)
    assert answer_in(19, 7, outcome.frame).topics[0].error_code == 44


@pytest.mark.parametrize("version", [12, 13, 17])
def test_a_version_without_names_is_no_way_past_a_rule_about_the_request(version: int) -> None:
    id_ = "AAAAAAAAAAAAAAAAAAAAAQ"
    bench = denying({"when": 'request.topics.exists(t, t.topic == "secret")'})
    name = {"topic": "secret"} if version < 13 else {"topic_id": id_}
    topic = {"partitions": [{}], **name}
    for known, error in (({}, 29 if version < 13 else 100), ({id_: "secret"}, 29)):
        bench.runtime.kept["topic_names"] = known
        outcome = bench.ask("FetchRequest", version, topics=[topic])
        assert isinstance(outcome, Answer)
        assert [p.error_code for t in answer_in(1, version, outcome.frame).responses for p in t.partitions] == [error]


def test_what_a_version_lacks_is_no_way_past_a_rule() -> None:
    """validateOnly came with version 1 of CreateTopics; no version of it has groupId."""
    topics = [{"name": "a"}]
    bench = denying({"when": "request.validateOnly == false"})
    outcome = bench.ask("CreateTopicsRequest", 0, topics=topics)
    assert isinstance(outcome, Answer)
    bench = denying({"when": 'request.groupId == "g"'})
    assert bench.create("a") == Send(bench.frame)


def fetch(bench: Bench, topics: list[str], **session: int) -> Outcome:
    named = [{"topic": t, "partitions": [{}]} for t in topics]
    return bench.ask("FetchRequest", 12, topics=named, max_bytes=1_000, **session)


@pytest.mark.parametrize("rule", [BOTH, '"secret-1" in topics'])
def test_a_fetch_session_that_was_opened_elsewhere_is_no_way_past_a_rule(rule: str) -> None:
    """A request in a session names nothing; the client whose session is not found sends all names (KIP-227)."""
    bench = denying({"when": rule})
    refused = fetch(bench, [], session_id=5, session_epoch=3)
    assert isinstance(refused, Answer)
    assert answer_in(1, 12, refused.frame).error_code == 70
    opening = fetch(bench, ["open"], session_id=0, session_epoch=0)
    assert bench.answered(opening, session_id=6).session_id == 6
    assert fetch(bench, [], session_id=6, session_epoch=1) == Send(bench.frame)
    assert isinstance(fetch(bench, [], session_id=5, session_epoch=4), Answer)
    bench.chain.on_close(bench.at)
    assert isinstance(fetch(bench, [], session_id=6, session_epoch=2), Answer)


@pytest.mark.parametrize("version", [9, 13])
def test_metadata_of_forbidden_topics_alone_tells_the_brokers_all_the_same(version: int) -> None:
    """As brokers do. Clients take a broker that Metadata does not tell of for gone."""
    bench = denying({"when": 'topic == "secret-1"'}, {"when": BOTH, "error": "INVALID_TOPIC_EXCEPTION"})
    asked = [{"name": f"secret-{number}"} for number in (1, 2)]
    outcome = bench.ask("MetadataRequest", version, topics=asked)
    assert sent_topics(outcome).topics == []  # none; null would be all
    found = bench.answered(outcome, brokers=[{"node_id": 5, "host": "kafka", "port": 9092}], controller_id=5)
    assert ([each.node_id for each in found.brokers], found.controller_id) == ([5], 5)
    assert [(topic.name, topic.error_code) for topic in found.topics] == [("secret-1", 29), ("secret-2", 17)]


def test_metadata_of_version_0_with_no_topics_would_ask_for_all() -> None:
    outcome = denying({"when": BOTH}).ask("MetadataRequest", 0, topics=[{"name": "secret-1"}])
    assert isinstance(outcome, Answer)
    told: Any = message("MetadataResponse").decode(0, outcome.frame[8:])
    assert [(topic.name, topic.error_code) for topic in told.topics] == [("secret-1", 29)]


def test_metadata_tells_nothing_of_a_topic_that_is_forbidden() -> None:
    """Asked for all topics it is left out, as brokers do; asked for by an id that nobody knew it has the error and no name."""
    id_ = "AAAAAAAAAAAAAAAAAAAAAQ"
    many = [f"open-{number}" for number in range(1_000)]
    for names in (["a"], many):
        bench = denying({"when": BOTH})
        told = [{"name": name} for name in [*names, "secret-1"]]
        outcome = bench.ask("MetadataRequest", 12, topics=None)
        found = bench.answered(outcome, topics=told)
        assert [topic.name for topic in found.topics] == names
    outcome = bench.ask("MetadataRequest", 12, topics=[{"name": None, "topic_id": id_}])
    told = [{"name": "secret-1", "topic_id": id_}]
    found = bench.answered(outcome, topics=told)
    assert [(topic.name, topic.error_code, topic.topic_id) for topic in found.topics] == [(None, 29, id_)]


def test_a_request_sent_behind_a_login_waits_for_its_answer() -> None:
    """bob logs in and asks at once; brokers read the request after the login."""
    bench = denying({"when": 'principal == "bob"'})

    async def scenario() -> Outcome:
        def asked(name: str, version: int, **values: Any) -> RequestFacts | None:
            outcome = bench.chain.on_request(bench.at, request_frame(name, version, **values))
            assert isinstance(outcome, Send)
            return outcome.request

        def answered(name: str, request: RequestFacts | None) -> None:
            assert request is not None
            frame = message(name).encode(request.api_version, make(name))
            bench.chain.on_response(bench.at, request, response_frame(request.api_key, request.api_version, frame))

        handshake = asked("SaslHandshakeRequest", 1, mechanism="PLAIN")
        login = asked("SaslAuthenticateRequest", 2, auth_bytes=b"\0bob\0x")
        pending = bench.chain.on_request(bench.at, request_frame("ListGroupsRequest", 4))
        assert isinstance(pending, Awaitable)
        answered("SaslHandshakeResponse", handshake)
        answered("SaslAuthenticateResponse", login)
        return await pending

    outcome = asyncio.run(scenario())
    assert isinstance(outcome, Answer)
    assert answer_in(16, 4, outcome.frame).error_code == 31


def test_a_dry_run_refuses_nothing_that_it_cannot_answer() -> None:
    bench = denying({"when": "!principal.startsWith('a')", "dry_run": True})
    assert bench.create("a") == Send(bench.frame)
    assert [event for event, _ in bench.runtime.warnings] == ["would be denied"]


def test_what_is_denied_again_and_again_is_counted_and_seldom_logged() -> None:
    bench = denying(
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
    bench = denying({"when": 'apiName == "CreateTopics"', "api_name": ["CreateTopics"]})
    enveloped = bench.ask("EnvelopeRequest", 0, request_data=b"", client_host_address=b"\x7f\0\0\1")
    assert isinstance(enveloped, Close)
    apis = [{"api_key": key, "max_version": 0} for key in (3, 58)]
    offered = answer_frame("ApiVersionsResponse", 0, api_keys=apis)
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
        bench = denying(*rules)
        topics = [{"name": name} for name in names]
        folder = {"log_dir": "/d", "topics": topics}
        outcome = bench.ask("DescribeLogDirsRequest", 4, topics=None)
        answer = bench.answered(outcome, results=[folder])
        return [topic.name for topic in answer.results[0].topics]

    names = ["open", "secret-1", "other"]
    many = [f"open-{number}" for number in range(2_000)]
    assert told([{"when": BOTH}], names) == ["open", "other"]
    assert told([{"when": BOTH}], [*many, "secret-1"]) == many
    assert told([{"when": BOTH, "dry_run": True}], names) == names
    assert told([{"when": BOTH, "dry_run": True}, {"when": BOTH}], names) == ["open", "other"]
    assert told([{"when": 'topic == "other"', "api_name": ["DescribeLogDirs"]}], names) == ["open", "secret-1"]


def member(*topics: str) -> Any:
    """A member of a group, which has partitions of topics."""
    assigned = [{"topic_name": topic, "partitions": [0]} for topic in topics]
    return {"member_id": "m", "assignment": {"topic_partitions": assigned}}


@pytest.mark.parametrize("api", ["ConsumerGroupDescribe", "ShareGroupDescribe"])
def test_a_group_with_a_topic_that_is_forbidden_is_not_described(api: str) -> None:
    """As KafkaApis does: its id, TOPIC_AUTHORIZATION_FAILED, and no members; the other groups are told whole."""
    groups = [
        {"group_id": "g1", "group_state": "Stable", "members": [member("open", "secret-1")]},
        {"group_id": "g2", "group_state": "Stable", "members": [member("open")]},
    ]
    bench = denying({"when": BOTH})
    outcome = bench.ask(f"{api}Request", 1, group_ids=["g1", "g2"])
    told = bench.answered(outcome, groups=groups).groups
    of = f"{api}Response"
    assert told == [make(of, "DescribedGroup", group_id="g1", error_code=29), make(of, "DescribedGroup", **groups[1])]


def test_a_group_of_streams_with_a_topic_that_is_forbidden_is_not_described() -> None:
    def group(name: str, source: str) -> Any:
        subtopology = {"subtopology_id": "0", "source_topics": [source]}
        return {"group_id": name, "topology": {"epoch": 1, "subtopologies": [subtopology]}}

    bench = denying({"when": BOTH, "error": "UNKNOWN_TOPIC_OR_PARTITION"})
    outcome = bench.ask("StreamsGroupDescribeRequest", 0, group_ids=["g1", "g2"])
    told = bench.answered(outcome, groups=[group("g1", "secret-1"), group("g2", "open")]).groups
    expected = {"group_id": "g1", "error_code": 3}, group("g2", "open")
    assert told == [make("StreamsGroupDescribeResponse", "DescribedGroup", **one) for one in expected]


def test_offsets_of_all_topics_by_ids() -> None:
    """Of an id whose name is not known nothing is told."""
    open_, secret, unknown = (f"AAAAAAAAAAAAAAAAAAAAA{last}" for last in "QgA")
    bench = denying({"when": BOTH})
    bench.runtime.kept["topic_names"] = {open_: "open", secret: "secret-1"}
    outcome = bench.ask("OffsetFetchRequest", 10, groups=[{"group_id": "g", "topics": None}])
    topics = [{"topic_id": f"{each[:-1]}w" if each == unknown else each} for each in (open_, secret, unknown)]
    answer = bench.answered(outcome, groups=[{"group_id": "g", "topics": topics}])
    assert [topic.topic_id for topic in answer.groups[0].topics] == [open_]


def test_actions_on_all_topics_are_refused_where_a_rule_asks_for_topics() -> None:
    refused = denying({"when": BOTH}).ask("ElectLeadersRequest", 2, topic_partitions=None)
    assert isinstance(refused, Answer)
    assert answer_in(43, 2, refused.frame).error_code == 29
    bench = denying({"when": 'principal == "mallory"'})
    assert bench.ask("ElectLeadersRequest", 2, topic_partitions=None) == Send(bench.frame)
    bench = denying({"when": BOTH, "dry_run": True})
    assert bench.ask("ElectLeadersRequest", 2, topic_partitions=None) == Send(bench.frame)
    assert [event for event, _ in bench.runtime.warnings] == ["would be denied"]
    pattern = [{"resource_type_filter": 1, "resource_name_filter": None}]
    refused = denying({"when": BOTH}).ask("DeleteAclsRequest", 3, filters=pattern)
    assert isinstance(refused, Answer)
    assert [result.error_code for result in answer_in(31, 3, refused.frame).filter_results] == [29]


@pytest.mark.parametrize(("name", "pattern_type"), [("*", 3), ("sec", 4)])
@pytest.mark.parametrize("version", [1, 3])
def test_an_acl_that_covers_a_topic_without_its_name_is_no_way_past_a_rule(
    name: str, pattern_type: int, version: int
) -> None:
    """The wildcard, and a prefix of a topic's name (KIP-290): 3 is LITERAL, 4 is PREFIXED."""

    def create(name: str, pattern_type: int) -> Outcome:
        about = {"resource_name": name, "resource_pattern_type": pattern_type, "principal": "User:m", "host": "*"}
        acl = {"resource_type": 2, "operation": 3, "permission_type": 3, **about}
        return bench.ask("CreateAclsRequest", version, creations=[acl])

    bench = denying({"when": 'topic == "secret"'})
    refused = create(name, pattern_type)
    assert isinstance(refused, Answer)
    answer: Any = message("CreateAclsResponse").decode(version, refused.frame[9 if version > 1 else 8 :])
    assert [result.error_code for result in answer.results] == [29]
    assert create("open", 3) == Send(bench.frame)


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
    bench = denying({"when": rule})
    bench.at.principal = "admin"
    elected = bench.ask("ElectLeadersRequest", 2, topic_partitions=None)
    if error is None:
        assert elected == Send(bench.frame)
    else:
        assert isinstance(elected, Answer)
        assert answer_in(43, 2, elected.frame).error_code == error
    outcome = bench.ask("OffsetFetchRequest", 10, groups=[{"group_id": "g", "topics": None}])
    told = [{"group_id": "g", "topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}]}]
    answer = bench.answered(outcome, groups=told)
    assert len(answer.groups[0].topics) == (1 if error is None else 0)


def test_the_page_of_a_listing_may_begin_anywhere() -> None:
    """The cursor is where the broker goes on; only what is asked for by name is refused."""
    bench = denying({"when": BOTH})
    after = {"topic_name": "secret-1", "partition_index": 0}
    assert isinstance(bench.ask("DescribeTopicPartitionsRequest", 0, topics=[], cursor=after), Send)
    refused = bench.ask("DescribeTopicPartitionsRequest", 0, topics=[{"name": "secret-1"}])
    assert isinstance(refused, Answer)
    assert [(t.name, t.error_code) for t in answer_in(75, 0, refused.frame).topics] == [("secret-1", 29)]


def test_an_unknown_id_in_a_produce_that_wants_no_answer_closes() -> None:
    data = [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}]
    outcome = denying({"when": BOTH}).ask("ProduceRequest", 13, acks=0, topic_data=data)
    assert isinstance(outcome, Close)
