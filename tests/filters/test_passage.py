"""One frame on its way: what filters are shown, what replaces it, what answers it, and in which order it waits."""

import asyncio
from collections.abc import Awaitable
from struct import pack
from typing import Any

import pytest

from kproxy.filters.chain import Chain
from kproxy.filters.contract import (
    Answer,
    Close,
    Cut,
    Direction,
    Forward,
    Outcome,
    Replace,
    Reply,
    RequestFacts,
    Send,
    Truncate,
)
from kproxy.filters.passage import LARGE
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.protocol import Message, message
from tests.support.filtering import (
    BrokerClient,
    Served,
    connection,
    make,
    ours,
    part,
    request_frame,
    responded,
    response_frame,
)
from tests.support.frames import api_versions_answer, api_versions_refusal, frame, heartbeat, heartbeat_answer, produce

HEARTBEAT, METADATA = 12, 3
BOTH: dict[str, Any] = {"requests": (HEARTBEAT,), "responses": (HEARTBEAT,)}


def forward(_: object) -> Forward:
    return Forward()


def renamed(group: str) -> Any:
    """A judge that gives the request another group."""

    def judge(at: Any) -> Replace:
        at.message.group_id = group
        return Replace(at.message)

    return judge


def asked(chain: Chain, data: bytes) -> Outcome:
    outcome = chain.on_request(connection(), data)
    assert not isinstance(outcome, Awaitable)
    return outcome


def test_what_a_filter_is_shown() -> None:
    filter_ = BrokerClient(forward, **BOTH)
    chain = Chain([filter_])
    at = connection()
    chain.on_request(at, heartbeat(5, "payments", client_id="checkout"))
    chain.on_response(at, RequestFacts(HEARTBEAT, 0, 5), heartbeat_answer(5, 27))
    (_, request), (_, response) = filter_.seen
    assert (request.connection, request.api_key, request.api_version, request.correlation_id) == (at, HEARTBEAT, 0, 5)
    assert (request.client_id, request.message.group_id, request.message.member_id) == ("checkout", "payments", "m-1")
    assert (response.connection, response.message.error_code) == (at, 27)


def test_a_replaced_request_keeps_its_header_and_is_what_the_next_filter_sees() -> None:
    second = BrokerClient(forward, **BOTH)
    outcome = asked(Chain([BrokerClient(renamed("longer-than-before"), **BOTH), second]), heartbeat(5, "g"))
    assert outcome == Send(heartbeat(5, "longer-than-before"))
    assert second.seen[0][1].message.group_id == "longer-than-before"


def test_unknown_tags_survive_a_replacement_in_header_and_body() -> None:
    tags = b"\1\x09\3abc"
    body = b"\2g\0\0\0\1\2m\0" + b"\1\x0a\2xy"
    renamed_body = body.replace(b"\2g", b"\3hh")
    head = pack(">hhih", HEARTBEAT, 4, 7, -1) + tags
    chain = Chain([BrokerClient(renamed("hh"), **BOTH)])
    assert asked(chain, frame(head + body)) == Send(frame(head + renamed_body))
    answer = frame(pack(">i", 7) + tags + pack(">ih", 0, 27) + b"\1\x0b\1z")

    def calm(at: Any) -> Replace:
        at.message.error_code = 0
        return Replace(at.message)

    outcome = responded(Chain([BrokerClient(calm, **BOTH)]), connection(), HEARTBEAT, 4, answer)
    assert outcome == Send(answer.replace(pack(">ih", 0, 27), pack(">ih", 0, 0)))


def test_attack_22_another_correlation_id_or_version_is_not_listened_to() -> None:
    def judge(at: Any) -> Replace:
        at.correlation_id, at.api_version, at.api_key, at.client_id = 999, 4, 3, "me"
        return Replace(at.message)

    assert asked(Chain([BrokerClient(judge, **BOTH)]), heartbeat(5)) == Send(heartbeat(5))


@pytest.mark.parametrize("says", [Forward(), None], ids=["forward", "replace"])
def test_attack_22_what_a_filter_writes_into_the_facts_of_a_request_is_not_listened_to(says: Forward | None) -> None:
    def judge(held: Any) -> Forward | Replace:
        held.request.correlation_id, held.request.api_key, held.request.api_version = 6_000, 18, 0
        return says or Replace(held.message)

    seen = BrokerClient(forward, responses=(HEARTBEAT,))
    chain = Chain([seen, BrokerClient(judge, responses=(HEARTBEAT,))])
    facts = RequestFacts(HEARTBEAT, 0, 5)
    assert chain.on_response(connection(), facts, heartbeat_answer(5, 27)) == Send(heartbeat_answer(5, 27))
    assert seen.seen[0][1].request == facts == RequestFacts(HEARTBEAT, 0, 5)


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_filter_changes_without_saying_so_no_other_sees(fails: bool) -> None:
    def careless(at: Any) -> Forward:
        at.message.group_id = "changed"
        if fails:
            raise RuntimeError("half way")
        return Forward()

    second = BrokerClient(renamed("g2"), **BOTH)
    third = BrokerClient(forward, **BOTH)
    chain = Chain(
        [
            BrokerClient(careless, fails_open=True, **BOTH),
            second,
            BrokerClient(careless, fails_open=True, **BOTH),
            third,
        ]
    )
    assert asked(chain, heartbeat(5, "g")) == Send(heartbeat(5, "g2"))
    assert third.seen[0][1].message.group_id == "g2"


def test_a_frame_is_decoded_once_for_one_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    decode = Message.decode
    monkeypatch.setattr(Message, "decode", lambda self, *args: decoded.append(self.name) or decode(self, *args))
    asked(Chain([BrokerClient(forward, requests=(HEARTBEAT,))]), heartbeat(5))
    assert decoded == ["HeartbeatRequest"]
    asked(
        Chain([BrokerClient(renamed("a"), requests=(HEARTBEAT,)), BrokerClient(renamed("b"), requests=(HEARTBEAT,))]),
        heartbeat(5),
    )
    assert decoded == ["HeartbeatRequest"] * 2


def test_after_a_verdict_that_ends_it_no_filter_is_asked() -> None:
    last = BrokerClient(forward, **BOTH)
    assert asked(Chain([BrokerClient(lambda _: Close("no"), **BOTH), last]), heartbeat(5)) == Close("no")
    assert last.seen == []


def test_the_request_is_kept_for_filters_that_want_both_as_it_went_to_the_broker() -> None:
    both = BrokerClient(forward, **BOTH)
    outcome = asked(Chain([both, BrokerClient(renamed("g2"), requests=(HEARTBEAT,))]), heartbeat(5, "g"))
    assert isinstance(outcome, Send)
    assert outcome.request == RequestFacts(
        HEARTBEAT, 0, 5, "app", make("HeartbeatRequest", group_id="g2", generation_id=5, member_id="m-1")
    )
    apart = Chain([BrokerClient(forward, requests=(HEARTBEAT,)), BrokerClient(forward, responses=(HEARTBEAT,))])
    outcome = asked(apart, heartbeat(5, "g"))
    assert isinstance(outcome, Send)
    assert outcome.request == RequestFacts(HEARTBEAT, 0, 5, "app")


# Replies


def refuse(request: Any) -> Reply:
    return Reply(request.new_response(error_code=25))


def test_a_reply_is_a_response_to_that_request() -> None:
    assert asked(Chain([BrokerClient(refuse, requests=(HEARTBEAT,))]), heartbeat(5)) == Answer(heartbeat_answer(5, 25))


@pytest.mark.parametrize("version", range(5))
def test_a_reply_at_every_version(version: int) -> None:
    request = request_frame("HeartbeatRequest", version, make("HeartbeatRequest"), 9)
    outcome = asked(Chain([BrokerClient(refuse, requests=(HEARTBEAT,))]), request)
    throttle = b"" if version == 0 else pack(">i", 0)
    tags = b"\0" if version == 4 else b""
    assert outcome == Answer(frame(pack(">i", 9) + tags + throttle + pack(">h", 25) + tags))


def test_a_reply_meets_the_filters_its_request_has_passed_and_no_other() -> None:
    first, last = BrokerClient(forward, **BOTH), BrokerClient(forward, **BOTH)
    chain = Chain([first, BrokerClient(refuse, **BOTH), last])
    assert asked(chain, heartbeat(5)) == Answer(heartbeat_answer(5, 25))
    assert [direction for direction, _ in first.seen] == [Direction.REQUEST, Direction.RESPONSE]
    assert last.seen == []


def test_a_reply_leaks_no_address_either() -> None:
    def cached(request: Any) -> Reply:
        broker = part("MetadataResponse", "MetadataResponseBroker", node_id=3, host="real", port=9092)
        return Reply(request.new_response(brokers=[broker]))

    chain = Chain([RewriteAddresses(), BrokerClient(cached, requests=(3,))])
    request = request_frame("MetadataRequest", 1, make("MetadataRequest", topics=None))
    outcome = chain.on_request(connection(Served()), request)
    assert isinstance(outcome, Answer)
    value: Any = message("MetadataResponse").decode(1, outcome.frame, 8)
    assert [(broker.host, broker.port) for broker in value.brokers] == [ours(3)]


def test_a_reply_that_a_filter_before_refuses_closes() -> None:
    def judge(at: Any) -> Any:
        return Close("not that answer") if hasattr(at, "request") else Forward()

    chain = Chain([BrokerClient(judge, **BOTH), BrokerClient(refuse, **BOTH)])
    assert asked(chain, heartbeat(5)) == Close("not that answer")


def test_a_produce_that_wants_no_answer_gets_none() -> None:
    def empty(request: Any) -> Reply:
        return Reply(request.new_response())

    chain = Chain([BrokerClient(empty, requests=(0,))])
    assert asked(chain, produce(5, 0)) == Answer(b"")
    assert asked(chain, produce(5, 1)) == Answer(frame(pack(">iii", 5, 0, 0)))


def test_a_response_is_not_replied_to() -> None:
    chain = Chain([BrokerClient(lambda at: Reply(at.message), **BOTH, name="replying")])
    outcome = responded(chain, connection(), HEARTBEAT, 0, heartbeat_answer(5))
    assert outcome == Send(heartbeat_answer(7, -1))


# ApiVersions


def test_attack_13_api_versions_in_another_layout_pass_unseen() -> None:
    filter_ = BrokerClient(lambda at: Replace(at.message), responses=(18,))
    chain = Chain([filter_])
    for odd in (api_versions_refusal(7), frame(pack(">i", 7) + b"nothing anybody reads")):
        outcome = responded(chain, connection(), 18, 3, odd)
        assert isinstance(outcome, Send)
        assert outcome.frame is odd
    assert filter_.seen == []
    assert responded(chain, connection(), 18, 3, api_versions_answer(7)) == Send(api_versions_answer(7))
    assert len(filter_.seen) == 1
    longer = frame(api_versions_answer(7)[4:] + b"\0\0")
    assert responded(chain, connection(), 18, 3, longer) == Send(longer)
    assert len(filter_.seen) == 2
    assert not chain.faults


# Filters that wait


def test_waiting_filters_keep_their_order_and_others_go_on_after_them() -> None:
    said: list[str] = []

    def waiting(name: str, group: str) -> Any:
        async def judge(at: Any) -> Any:
            said.append(f"{name} sees {at.message.group_id}")
            await asyncio.sleep(0)
            said.append(f"{name} is done")
            at.message.group_id = group
            return Replace(at.message)

        return judge

    async def go() -> None:
        chain = Chain(
            [
                BrokerClient(waiting("a", "g1"), **BOTH),
                BrokerClient(renamed("g2"), **BOTH),
                BrokerClient(waiting("b", "g3"), **BOTH),
            ],
            wait=asyncio.wait_for,
        )
        outcome = chain.on_request(connection(), heartbeat(5, "g"))
        assert isinstance(outcome, Awaitable)
        assert said == []
        assert await outcome == Send(heartbeat(5, "g3"))
        assert said == ["a sees g", "a is done", "b sees g2", "b is done"]

    asyncio.run(go())


def test_a_reply_waits_for_the_filters_before_it() -> None:
    async def judge(at: Any) -> Forward:
        await asyncio.sleep(0)
        return Forward()

    async def go() -> None:
        chain = Chain([BrokerClient(judge, responses=(HEARTBEAT,)), BrokerClient(refuse, requests=(HEARTBEAT,))])
        outcome = chain.on_request(connection(), heartbeat(5))
        assert isinstance(outcome, Awaitable)
        assert await outcome == Answer(heartbeat_answer(5, 25))

    asyncio.run(go())


def test_attack_22_a_filter_that_hangs_is_given_its_time_and_told(caplog: pytest.LogCaptureFixture) -> None:
    cancelled: list[str] = []

    async def hang(_: object) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("cancelled")
            raise

    async def go(fails_open: bool) -> tuple[Outcome, Chain]:
        slow = BrokerClient(hang, requests=(HEARTBEAT,), fails_open=fails_open, timeout=0.01, name="slow")
        chain = Chain([slow, BrokerClient(renamed("g2"), requests=(HEARTBEAT,))], wait=asyncio.wait_for)
        outcome = chain.on_request(connection(), heartbeat(5))
        assert isinstance(outcome, Awaitable)
        return await outcome, chain

    assert asyncio.run(go(False))[0] == Answer(heartbeat_answer(5, -1))
    outcome, chain = asyncio.run(go(True))
    assert outcome == Send(heartbeat(5, "g2"))
    assert chain.faults == {"slow": 1}
    assert cancelled == ["cancelled"] * 2
    assert "filter slow failed on a request of api_key 12, version 0: no verdict within 0.01 s" in caplog.text


def test_a_worker_that_gives_up_waiting_is_no_fault_of_the_filter() -> None:
    """The connection is gone: its task is cancelled."""

    async def hang(_: object) -> Any:
        await asyncio.Event().wait()

    async def go() -> Chain:
        chain = Chain([BrokerClient(hang, responses=(HEARTBEAT,))], wait=asyncio.wait_for)
        outcome = chain.on_response(connection(), RequestFacts(HEARTBEAT, 0, 5), heartbeat_answer(5))
        assert isinstance(outcome, Awaitable)
        task = asyncio.ensure_future(outcome)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return chain

    assert not asyncio.run(go()).faults


def test_a_frame_grown_past_the_cap_is_not_sent() -> None:
    chain = Chain([BrokerClient(renamed("g" * 300), **BOTH, name="growing")], most_frame_size=100)
    assert asked(chain, heartbeat(5)) == Answer(heartbeat_answer(5, -1))
    fits = Chain([BrokerClient(renamed("g" * 30), **BOTH)], most_frame_size=len(heartbeat(5, "g" * 30)) - 4)
    assert asked(fits, heartbeat(5)) == Send(heartbeat(5, "g" * 30))


def test_a_response_frame_of_another_header_version_is_a_fault() -> None:
    chain = Chain([BrokerClient(forward, **BOTH, name="reader")])
    cut = response_frame(HEARTBEAT, 4, b"")[:-1]
    refused = response_frame(HEARTBEAT, 4, pack(">ihb", 0, -1, 0))  # UNKNOWN_SERVER_ERROR
    assert responded(chain, connection(), HEARTBEAT, 4, cut) == Send(refused)


def test_after_a_fault_the_client_gets_an_error_where_a_response_can_say_so() -> None:
    """A policy's fault, whether it cannot read, raises or answers nonsense, is no way past it."""

    def fail(_: object) -> Any:
        raise ZeroDivisionError

    both = {"requests": (0, HEARTBEAT), "responses": (0, HEARTBEAT)}
    assert asked(Chain([BrokerClient(fail, **both)]), heartbeat(5)) == Answer(heartbeat_answer(5, -1))
    assert asked(Chain([BrokerClient(fail, **both, fault_error=29)]), heartbeat(5)) == Answer(heartbeat_answer(5, 29))
    assert isinstance(asked(Chain([BrokerClient(fail, **both, fault_error=None)]), heartbeat(5)), Close)
    assert isinstance(asked(Chain([BrokerClient(fail, **both)]), produce(5, 0)), Close), (
        "acks=0: no response can say so"
    )
    assert isinstance(asked(Chain([BrokerClient(fail, **both)]), heartbeat(5)[:-1]), Close), (
        "what it asks for is not known"
    )


def test_an_error_in_place_of_a_response_goes_through_the_filters_that_are_left() -> None:
    def fail(_: object) -> Any:
        raise ZeroDivisionError

    first = BrokerClient(forward, responses=(HEARTBEAT,))
    chain = Chain([first, BrokerClient(fail, responses=(HEARTBEAT,))])
    assert responded(chain, connection(), HEARTBEAT, 0, heartbeat_answer(7)) == Send(heartbeat_answer(7, -1))
    assert [seen.message.error_code for _, seen in first.seen] == [-1]


def test_an_error_in_place_of_a_response_whose_request_is_not_known() -> None:
    """Of ListOffsets the errors are in the partitions asked for: without them there is no response."""

    def fail(_: object) -> Any:
        raise ZeroDivisionError

    chain = Chain([BrokerClient(fail, responses=(2,))])
    assert isinstance(responded(chain, connection(), 2, 1, response_frame(2, 1, pack(">i", 0))), Close)


def test_what_is_behind_a_message_is_passed_over_and_kept() -> None:
    """As librdkafka's mock cluster ends Metadata, and librdkafka its request for all topics."""

    def judge(at: Any) -> Replace:
        at.message.throttle_time_ms = 7
        return Replace(at.message)

    chain = Chain([BrokerClient(judge, requests=(HEARTBEAT,), responses=(HEARTBEAT,), fails_open=False)])
    answer = pack(">iiihb", 11, 5, 0, 27, 0)  # v1: size, correlation id, throttle time, error code, and one byte more
    outcome = chain.on_response(connection(), RequestFacts(HEARTBEAT, 1, 5), answer)
    assert outcome == Send(pack(">iiihb", 11, 5, 7, 27, 0))
    assert not chain.faults


# Metadata v13 of librdkafka 2.16 for topics = null: a broker reads null and three flags that are false, and ignores the rest
NULL_TOPICS = bytes.fromhex("0003 000d 00000002 0007 72646b61666b61 00 00000000 010000")


def test_a_request_with_bytes_after_it_is_read_as_the_broker_reads_it() -> None:
    passing = BrokerClient(forward, requests=(METADATA,), responses=(METADATA,))
    outcome = asked(Chain([passing]), frame(NULL_TOPICS))
    assert isinstance(outcome, Send) and outcome.frame == frame(NULL_TOPICS)
    ((_, seen),) = passing.seen
    assert (seen.message.topics, seen.message.allow_auto_topic_creation) == (None, False)

    def allow(at: Any) -> Replace:
        at.message.allow_auto_topic_creation = True
        return Replace(at.message)

    second = BrokerClient(forward, requests=(METADATA,))
    outcome = asked(Chain([BrokerClient(allow, requests=(METADATA,)), second]), frame(NULL_TOPICS))
    assert isinstance(outcome, Send)
    assert outcome.frame == frame(NULL_TOPICS[:-6] + b"\1\0\0" + NULL_TOPICS[-3:])
    assert second.seen[0][1].message.allow_auto_topic_creation is True


def test_a_request_that_two_layouts_could_begin_is_not_guessed_at() -> None:
    """ConsumerGroupHeartbeat v0 was changed in place: a broker of one release reads other fields than one of another."""
    name = "ConsumerGroupHeartbeatRequest"
    exact = request_frame(name, 0, make(name, group_id="g", subscribed_topic_names=["t"]))
    chain = Chain([BrokerClient(forward, requests=(68,), fails_open=False)])
    assert isinstance(asked(chain, exact), Send)
    assert isinstance(asked(chain, frame(exact[4:] + b"\0\0\0")), Close)


# Large frames: aside, and otherwise as any


def big_metadata() -> bytes:
    """A Metadata v9 response above LARGE, of topics with partitions."""
    one = part("MetadataResponse", "MetadataResponsePartition", leader_id=1, replica_nodes=[1, 2], isr_nodes=[2])
    topics = [
        part("MetadataResponse", "MetadataResponseTopic", name=f"topic-{n}", partitions=[one] * 100) for n in range(50)
    ]
    broker = part("MetadataResponse", "MetadataResponseBroker", node_id=1, host="broker", port=9092)
    body = message("MetadataResponse").encode(9, make("MetadataResponse", brokers=[broker], topics=topics))
    assert len(body) > LARGE
    return response_frame(3, 9, body)


def without_topics(response: Any) -> Replace:
    response.message.topics = response.message.topics[:1]
    return Replace(response.message)


async def forward_later(_: object) -> Forward:
    await asyncio.sleep(0)
    return Forward()


def fails(_: object) -> Forward:
    raise ValueError("no")


@pytest.mark.parametrize(
    "judges",
    [
        [forward],
        [without_topics],
        [without_topics, forward],
        [forward, without_topics],
        [lambda response: Replace(response.message)],
        [forward_later, lambda response: Replace(response.message)],
        [lambda _: Close("no")],
        [fails],
        [forward, lambda _: None],
    ],
)
def test_a_large_frame_gets_the_verdict_of_any_other(judges: list[Any]) -> None:
    frame = big_metadata()
    called = 0

    async def aside(function: Any) -> Any:
        nonlocal called
        called += 1
        return await asyncio.to_thread(function)

    async def go(**options: Any) -> tuple[Outcome, Chain]:
        filters = [BrokerClient(judge, responses=(3,), name=f"filter {n}") for n, judge in enumerate(judges)]
        chain = Chain([RewriteAddresses(), *filters], wait=asyncio.wait_for, **options)
        outcome = chain.on_response(connection(Served()), RequestFacts(3, 9, 7), frame)
        return await outcome if isinstance(outcome, Awaitable) else outcome, chain

    (expected, usual), (outcome, chain) = asyncio.run(go()), asyncio.run(go(aside=aside))
    assert outcome == expected
    assert chain.faults == usual.faults
    assert called > 1


def test_a_reply_may_be_of_another_version_than_its_request() -> None:
    def refuse(asked: Any) -> Reply:
        return Reply(asked.new_response(error_code=35), version=0)

    chain = Chain([BrokerClient(refuse, requests=(18,))])
    sent = request_frame("ApiVersionsRequest", 3, make("ApiVersionsRequest"))
    assert chain.on_request(connection(), sent) == Answer(frame(pack(">ihi", 7, 35, 0)))


def test_a_response_is_cut_behind_what_other_filters_do_to_it() -> None:
    def lengthen(response: Any) -> Replace:
        response.message.throttle_time_ms = 1
        return Replace(response.message)

    answer = response_frame(HEARTBEAT, 3, pack(">ih", 0, 0))
    chain = Chain(
        [BrokerClient(lengthen, responses=(HEARTBEAT,)), BrokerClient(lambda _: Truncate(12), responses=(HEARTBEAT,))]
    )
    cut = chain.on_response(connection(), RequestFacts(HEARTBEAT, 3, 7), answer)
    assert isinstance(cut, Cut)
    assert cut.frame[:4] == answer[:4]
    assert cut.frame[8:] == b"\0\0\0\1"
    whole = Chain([BrokerClient(lambda _: Truncate(10_000), responses=(HEARTBEAT,))])
    assert whole.on_response(connection(), RequestFacts(HEARTBEAT, 3, 7), answer) == Cut(answer[:-1])


def test_what_a_filter_keeps_of_a_large_message_stays_whole() -> None:
    kept: list[Any] = []

    def keep(response: Any) -> Forward:
        kept.extend((response.message.topics[3], response.message.topics[4].partitions))
        return Forward()

    def keep_all(response: Any) -> Forward:
        kept.append(response.message)
        return Forward()

    async def aside(function: Any) -> Any:
        return function()

    async def go() -> None:
        chain = Chain([BrokerClient(keep, responses=(3,)), BrokerClient(keep_all, responses=(3,))], aside=aside)
        outcome = chain.on_response(connection(), RequestFacts(3, 9, 7), big_metadata())
        assert isinstance(outcome, Awaitable)
        await outcome

    asyncio.run(go())
    whole, topic, partitions = kept
    assert [topic.name for topic in whole.topics] == [f"topic-{n}" for n in range(50)]
    assert (topic.name, len(topic.partitions), len(partitions)) == ("topic-3", 100, 100)
    assert partitions[99].replica_nodes == [1, 2]
