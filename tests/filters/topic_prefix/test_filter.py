"""Every name of every message gets the prefix or loses it, and nothing else changes; what is not handled does not pass."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from hypothesis import given

from kproxy.errors import UsageError
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Close, Direction, RequestFacts, Response, Send, Want
from kproxy.filters.loading import load_filter
from kproxy.filters.topic_prefix import TopicPrefix
from kproxy.filters.topic_prefix.acls import PatternFilter
from kproxy.filters.topic_prefix.filter import TopicPrefixOptions
from kproxy.filters.topic_prefix.rules import KEPT
from kproxy.filters.topic_prefix.translation import ELEMENTS_IN_A_TURN, RENAMED, UNTOUCHED
from kproxy.protocol import ApiKey, message
from kproxy.proxy.filter_runtime import FilterRuntime, Journals
from kproxy.proxy.messages import Learned, Message
from kproxy.proxy.shared_state import SharedSets
from tests.support.filtering import connection
from tests.support.frames import KAFKA_4_3_REFUSAL
from tests.support.marked import GROUP, REGEX, TOPIC, TOPIC_ID, Marked, messages, newest
from tests.support.messages import answer_frame, make, request_frame, response_frame
from tests.support.strategies import messages as generated

PREFIX = "mine."
# A rule of the filter changes more than names in these; each has a test of its own
OTHERWISE = {"FetchRequest", "ShareFetchRequest", "DescribeAclsRequest"}
PASSING = RENAMED | UNTOUCHED


def client_name(kind: str) -> str:
    return "r.*" if kind == REGEX else f"{kind}-x"


def broker_name(kind: str) -> str:
    return r"mine\.(?:r.*)" if kind == REGEX else f"mine.{kind}-x"


def foreign_name(kind: str) -> str:
    return r"other\.(?:r.*)" if kind == REGEX else f"other.{kind}-x"


def tenant(prefix: str = PREFIX, **options: Any) -> TopicPrefix:
    return TopicPrefix(TopicPrefixOptions(prefix=prefix, **options))


@pytest.fixture
def chain() -> Chain:
    """Of a tenant in another worker of which a response has named the topic."""
    sent: list[Message] = []
    other, this = (SharedSets("default", sent.append) for _ in range(2))
    first, second = tenant(), tenant()
    Chain([first], runtime=FilterRuntime("default", Journals(), other))
    chain = Chain([second], runtime=FilterRuntime("default", Journals(), this))

    async def teach() -> None:
        value = make("CreateTopicsResponse", topics=[{"name": f"{PREFIX}x", "topic_id": TOPIC_ID}])
        first.on_response(Response(connection(), RequestFacts(ApiKey.CREATE_TOPICS, 7, 7), value))
        await asyncio.sleep(0)

    asyncio.run(teach())
    for each in sent:
        assert isinstance(each, Learned)
        this.receive(each.name, each.values)
    return chain


def passing(kind: str, *, named: bool) -> list[Marked]:
    """Messages of APIs that pass, at each version and layout, that carry names, or that do not."""
    return [
        each
        for each in messages(kind)
        if message(each.name).api_key in PASSING
        and each.name not in OTHERWISE
        and each.has_names() == named
        and not is_exempt(each)
    ]


def is_exempt(marked: Marked) -> bool:
    """ACLs without pattern types are refused; the first ListConfigResources lists client metrics only."""
    return marked.version == 0 and marked.name.endswith(("AclsRequest", "AclsResponse", "ListConfigResourcesResponse"))


def test_every_name_in_a_request_gets_the_prefix_and_nothing_else_changes(chain: Chain) -> None:
    for marked in passing("request", named=True):
        about = marked.name, marked.version
        outcome = chain.on_request(connection(), request_frame(*about, marked.make(client_name)))
        assert isinstance(outcome, Send), (about, outcome)
        assert outcome.frame == request_frame(*about, marked.make(broker_name)), about


def vars_of(struct: Any) -> set[str]:
    return {field.attribute for field in struct.fields}


def test_every_name_in_requests_that_are_changed_otherwise_gets_the_prefix(chain: Chain) -> None:
    counted = dict.fromkeys(OTHERWISE, 0)
    for marked in messages("request"):
        if marked.name not in OTHERWISE or not marked.has_names() or is_exempt(marked):
            continue
        about = marked.name, marked.version
        asked = marked.make(client_name)
        for attribute in {"session_id", "session_epoch", "share_session_epoch"}.intersection(vars_of(asked)):
            setattr(asked, attribute, 0)  # no session, or a new one: others are refused
        before = request_frame(*about, asked)
        outcome = chain.on_request(connection(), before)
        assert isinstance(outcome, Send), about
        for kind in (TOPIC, GROUP):
            bare = client_name(kind).encode()
            count = outcome.frame.count(bare)
            assert count == outcome.frame.count(broker_name(kind).encode()), about
            assert count > 0 or bare not in before or kind == TOPIC, about  # what a session forgets goes
            counted[marked.name] += count
    assert [name for name, count in counted.items() if not count] == [
        "DescribeAclsRequest"
    ]  # for the ACLs on all names


def test_every_name_in_a_response_loses_the_prefix_and_other_tenants_are_gone(chain: Chain) -> None:
    for marked in passing("response", named=True):
        about = message(marked.name).api_key or 0, marked.version
        asked = newest(marked.name.replace("Response", "Request"), marked.version)
        request = RequestFacts(*about, 7, message=asked.make(broker_name))
        if about[0] == ApiKey.DESCRIBE_ACLS:
            request.kept[KEPT] = PatternFilter(1, None, 1)
        if about[0] == ApiKey.DELETE_ACLS:
            request.kept[KEPT] = [(1, None)]
        frame = response_frame(*about, marked.encoded(broker_name, foreign_name))
        outcome = chain.on_response(connection(), request, frame)
        assert isinstance(outcome, Send), (about, outcome)
        assert outcome.frame == response_frame(*about, marked.encoded(client_name)), about


def test_messages_without_names_pass_as_they_came(chain: Chain) -> None:
    for marked in passing("request", named=False):
        frame = request_frame(marked.name, marked.version, marked.make(client_name))
        outcome = chain.on_request(connection(), frame)
        assert isinstance(outcome, Send) and outcome.frame is frame, (marked.name, marked.version)
    for marked in passing("response", named=False):
        key = message(marked.name).api_key or 0
        frame = response_frame(key, marked.version, marked.encoded(client_name))
        outcome = chain.on_response(connection(), RequestFacts(key, marked.version, 7), frame)
        if key != ApiKey.API_VERSIONS:  # it offers an API that does not exist
            assert isinstance(outcome, Send) and outcome.frame is frame, (marked.name, marked.version)


def test_what_is_cut_through_carries_no_names_that_need_a_change(chain: Chain) -> None:
    """Responses that carry ids alone; records are data."""
    for kind, direction in (("request", Direction.REQUEST), ("response", Direction.RESPONSE)):
        for marked in messages(kind):
            key = message(marked.name).api_key
            assert key is not None
            if chain.wanted(direction, key, marked.version) is Want.PASS:
                assert not marked.has_names(), marked
    assert chain.wanted(Direction.RESPONSE, ApiKey.FETCH, 13) is Want.PASS
    assert chain.wanted(Direction.RESPONSE, ApiKey.FETCH, 12) is Want.HOLD


def test_what_the_facts_do_not_have_is_refused(chain: Chain) -> None:
    for direction in Direction:
        for key, version in ((999, 0), (ApiKey.PRODUCE, 99), (ApiKey.DESCRIBE_CLUSTER, 99)):
            assert chain.wanted(direction, key, version) is Want.REFUSE


def test_a_client_may_ask_for_a_newer_api_versions(chain: Chain) -> None:
    """franz-go does; the broker says that it lacks it, and which versions it has (KIP-511)."""
    assert chain.wanted(Direction.REQUEST, ApiKey.API_VERSIONS, 5) is Want.PASS
    assert chain.wanted(Direction.RESPONSE, ApiKey.API_VERSIONS, 5) is Want.HOLD
    outcome = chain.on_response(connection(), RequestFacts(ApiKey.API_VERSIONS, 5, 0), KAFKA_4_3_REFUSAL)
    assert isinstance(outcome, Send)
    assert outcome.frame == KAFKA_4_3_REFUSAL


def test_what_is_refused_is_not_offered() -> None:
    def offered(**options: Any) -> list[tuple[int, int, int]]:
        ranges = (
            (0, 3, 13),
            (27, 0, 1),
            (29, 0, 0),
            (30, 0, 3),
            (58, 0, 0),
            (49, 0, 1),
            (999, 0, 0),
        )  # ACLs as of 1.1, 4.3
        apis = [{"api_key": key, "min_version": low, "max_version": high} for key, low, high in ranges]
        body = message("ApiVersionsResponse").encode(3, make("ApiVersionsResponse", api_keys=apis))
        narrowing = Chain([tenant(**options)])
        outcome = narrowing.on_response(connection(), RequestFacts(18, 3, 7), response_frame(18, 3, body))
        assert isinstance(outcome, Send)
        answer: Any = message("ApiVersionsResponse").decode(3, outcome.frame[8:])
        return [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys]

    assert offered() == [(0, 3, 13), (30, 1, 3), (49, 0, 1)]
    assert offered(cluster_administration=False) == [(0, 3, 13), (30, 1, 3)]
    for version, outcome in ((0, Close), (1, Send)):
        frame = request_frame("DescribeAclsRequest", version, resource_type_filter=2)
        assert isinstance(Chain([tenant()]).on_request(connection(), frame), outcome)


def test_an_id_that_no_response_has_named_is_refused() -> None:
    for name in ("Produce", "Fetch", "ShareFetch", "ShareAcknowledge", "DeleteTopics", "OffsetCommit"):
        request = message(f"{name}Request")
        assert request.api_key is not None, name
        marked = newest(request.name, request.versions.highest)
        frame = request_frame(request.name, marked.version, marked.make(client_name))
        stranger = Chain([tenant("strangers.")])
        assert not isinstance(stranger.on_request(connection(), frame), Send), name


def test_a_response_of_many_topics_takes_turns_with_other_connections(chain: Chain) -> None:
    count = 3 * ELEMENTS_IN_A_TURN
    topics = [{"name": f"{'mine' if number % 3 else 'other'}.{number}"} for number in range(count)]
    frame = answer_frame("MetadataResponse", 9, topics=topics)
    pending = chain.on_response(connection(), RequestFacts(ApiKey.METADATA, 9, 7), frame)
    assert isinstance(pending, Awaitable)
    steps = pending.__await__()
    turns = 0
    try:
        while True:
            next(steps)
            turns += 1
    except StopIteration as done:
        outcome = done.value
    assert turns == 3
    shown = message("MetadataResponse").decode(9, outcome.frame, 9)
    assert [topic.name for topic in shown.topics] == [str(number) for number in range(count) if number % 3]


@pytest.mark.parametrize("prefix", ["", "a b", "__consumer", 7, "x" * 101, "a\n"])
def test_what_can_be_no_prefix_is_refused(prefix: Any) -> None:
    with pytest.raises(UsageError, match="prefix"):
        load_filter("topic_prefix", {"prefix": prefix})


@given(generated())
def test_any_message_gets_an_outcome_and_none_is_a_fault(drawn: tuple[str, int, Any]) -> None:
    name, version, value = drawn
    codec = message(name)
    if codec.api_key is None:
        return
    chain = Chain([tenant()])
    if name.endswith("Request"):
        chain.on_request(connection(), request_frame(name, version, value))
    else:
        frame = response_frame(codec.api_key, version, codec.encode(version, value))
        chain.on_response(connection(), RequestFacts(codec.api_key, version, 7), frame)
    assert not chain.faults
