"""What a chain says of held frames is done: now or later, in order, and nothing after a fault or a close."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kproxy.filters.chain import Chain
from kproxy.filters.contract import Close, Filter, Forward, Replace, Reply, Silence, Truncate
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.protocol import message
from kproxy.proxy.codec_thread import end_codec_thread, in_codec_thread
from kproxy.proxy.tap.counted import CloseCause, Total
from tests.support.links import Bench, Judge, Limits, request, response
from tests.support.messages import make, request_frame
from tests.support.virtual_clusters import api_versions, metadata

HEARTBEAT = message("HeartbeatRequest")
ANSWER = b"\0\0"  # error code 0: all there is at version 0


def beat(number: int, group: str = "g") -> bytes:
    body = HEARTBEAT.encode(0, make("HeartbeatRequest", group_id=group, generation_id=1, member_id="m"))
    return request(12, 0, number, body)


class Says(Filter):
    """Judges Heartbeat with a function, at once or after some turns of the loop."""

    def __init__(
        self, on_request: Callable[[Any], Any] | None, on_response: Callable[[Any], Any] | None, later: int
    ) -> None:
        self.requests = frozenset({12}) if on_request else frozenset()
        self.responses = frozenset({12}) if on_response else frozenset()
        self._of = on_request, on_response
        self._later = later
        self.timeout = 0.2

    def on_request(self, request: Any) -> Any:
        return self._judge(self._of[0], request)

    def on_response(self, response: Any) -> Any:
        return self._judge(self._of[1], response)

    def _judge(self, judge: Any, subject: Any) -> Any:
        return self._think(judge, subject) if self._later else judge(subject)

    async def _think(self, judge: Any, subject: Any) -> Any:
        for _ in range(self._later):
            await asyncio.sleep(0)
        return judge(subject)


def bench(on_request: Any = None, on_response: Any = None, later: int = 0) -> Bench:
    judge = Judge(Chain([Says(on_request, on_response, later)], wait=asyncio.wait_for))
    return Bench(judge, judge.chain)


LATER = pytest.mark.parametrize("later", [0, 3])


@LATER
async def test_forward_and_replace_of_requests(later: int) -> None:
    def rename(asked: Any) -> Any:
        if asked.message.group_id == "old":
            asked.message.group_id = "a longer name"
            return Replace(asked.message)
        return Forward()

    made = bench(on_request=rename, later=later)
    sent = b"".join(beat(n, "old" if n % 3 == 0 else "g") for n in range(30))
    expected = b"".join(beat(n, "a longer name" if n % 3 == 0 else "g") for n in range(30))
    await made.send(made.client, sent)
    assert await made.receive(made.broker, len(expected)) == expected
    answers = b"".join(response(n, ANSWER) for n in range(30))
    await made.send(made.broker, answers)
    assert await made.receive(made.client, len(answers)) == answers
    assert made.counters.total_of(Total.REWRITTEN_FRAMES) == 10
    assert made.counters.total_of(Total.HELD_FRAMES) == 30


async def test_a_response_is_held_for_a_filter_that_wants_those_to_what_it_kept() -> None:
    def keep(asked: Any) -> Any:
        if asked.message.group_id == "kept":
            asked.kept["says"] = True
        return Forward()

    seen: list[Any] = []
    filter_ = Says(keep, lambda answer: seen.append(answer.request.correlation_id) or Forward(), 0)
    filter_.name, filter_.responses_to_kept = "says", (12,)
    judge = Judge(Chain([filter_], wait=asyncio.wait_for))
    made = Bench(judge, judge.chain)
    sent = b"".join(beat(n, "kept" if n % 3 == 0 else "g") for n in range(30))
    await made.send(made.client, sent)
    assert await made.receive(made.broker, len(sent)) == sent
    answers = b"".join(response(n, ANSWER) for n in range(30))
    await made.send(made.broker, answers)
    assert await made.receive(made.client, len(answers)) == answers
    assert seen == [*range(0, 30, 3)]
    assert made.counters.total_of(Total.HELD_FRAMES) == 40


@LATER
async def test_replies_come_in_the_order_of_requests(later: int) -> None:
    def refuse(asked: Any) -> Any:
        return Reply(asked.new_response(error_code=25)) if asked.message.group_id == "no" else Forward()

    made = bench(on_request=refuse, later=later)
    await made.send(made.client, b"".join(beat(n, "no" if n % 2 else "g") for n in range(20)))
    passed = b"".join(beat(n) for n in range(0, 20, 2))
    assert await made.receive(made.broker, len(passed)) == passed
    await made.send(made.broker, b"".join(response(n, ANSWER) for n in range(0, 20, 2)))
    expected = b"".join(response(n, b"\0\x19" if n % 2 else ANSWER) for n in range(20))
    assert await made.receive(made.client, len(expected)) == expected


@LATER
async def test_responses_are_replaced(later: int) -> None:
    def change(answered: Any) -> Any:
        answered.message.error_code = 27
        return Replace(answered.message)

    made = bench(on_response=change, later=later)
    await made.send(made.client, beat(1) + beat(2))
    await made.settled()
    await made.send(made.broker, response(1, ANSWER) + response(2, ANSWER))
    expected = response(1, b"\0\x1b") + response(2, b"\0\x1b")
    assert await made.receive(made.client, len(expected)) == expected


@LATER
@pytest.mark.parametrize("side", ["on_request", "on_response"])
async def test_close_ends_both_sides(side: str, later: int) -> None:
    made = bench(**{side: lambda _: Close("not here")}, later=later)
    await made.send(made.client, beat(1) + beat(2))
    if side == "on_response":
        await made.settled()
        await made.send(made.broker, response(1, ANSWER))
    assert await made.rest(made.client) == b""
    await made.rest(made.broker)
    assert made.owner.cause is CloseCause.FILTER


@LATER
async def test_a_response_is_cut_and_both_sides_end(later: int) -> None:
    made = bench(on_response=lambda answered: Truncate(9 if answered.request.correlation_id == 2 else 99), later=later)
    await made.send(made.client, beat(2) + beat(3))
    await made.settled()
    await made.send(made.broker, response(2, ANSWER) + response(3, ANSWER))
    assert await made.rest(made.client) == response(2, ANSWER)[:9]
    await made.rest(made.broker)
    assert made.owner.cause is CloseCause.FILTER


@LATER
async def test_a_silenced_request_and_all_behind_it_reach_no_broker_and_responses_before_it_come(later: int) -> None:
    asked: list[int] = []

    def judge(request: Any) -> Any:
        asked.append(request.correlation_id)
        return Silence() if request.correlation_id == 2 else Forward()

    made = bench(on_request=judge, later=later)
    await made.send(made.client, beat(1) + beat(2) + beat(3) + request(3, 0, 4, b"\0\0\0\0"))
    assert await made.receive(made.broker, len(beat(1))) == beat(1)
    await made.settled()
    await made.send(made.client, beat(5))
    await made.send(made.broker, response(1, ANSWER))
    assert await made.receive(made.client, len(response(1, ANSWER))) == response(1, ANSWER)
    await made.settled()
    assert (made.link.closed, asked) == (False, [1, 2])
    made.client.close()
    assert await made.rest(made.broker) == b""
    assert made.owner.cause is CloseCause.CLIENT_CLOSED


@LATER
async def test_behind_a_silenced_response_nothing_comes_and_requests_go_on(later: int) -> None:
    def judge(answered: Any) -> Any:
        return Silence() if answered.request.correlation_id == 2 else Forward()

    made = bench(on_response=judge, later=later)
    await made.send(made.client, b"".join(beat(n) for n in range(1, 5)))
    assert await made.receive(made.broker, 4 * len(beat(1))) == b"".join(beat(n) for n in range(1, 5))
    await made.send(made.broker, b"".join(response(n, ANSWER) for n in range(1, 5)))
    assert await made.receive(made.client, len(response(1, ANSWER))) == response(1, ANSWER)
    await made.settled()
    assert not made.link.closed
    made.link.drain()
    assert await made.rest(made.client) == b""
    assert made.owner.cause is CloseCause.DRAIN


async def test_attack_22_a_filter_that_hangs_is_waited_for_no_longer_than_it_may_take() -> None:
    made = bench(on_request=lambda _: Forward(), later=1 << 40)
    await made.send(made.client, beat(1))
    assert await made.receive(made.client, 10) == bytes.fromhex("00000006 00000001 ffff")


async def test_a_connection_that_ends_while_a_filter_thinks() -> None:
    made = bench(on_request=lambda _: Forward(), later=50)
    await made.send(made.client, beat(1))
    await made.settled()
    made.link.close(CloseCause.IDLE)
    made.link.forget()
    for _ in range(100):
        await asyncio.sleep(0)
    assert await made.rest(made.broker) in (b"", beat(1))
    assert made.owner.told == []


async def test_the_same_api_versions_answer_is_read_once_and_another_chain_reads_again() -> None:
    """Every connection begins with it; what is left as it was need not be read again. Not so where it is narrowed."""
    judge = Judge(Chain([RewriteAddresses()]))
    made = Bench(judge, judge.chain)
    times = 0
    original = judge.chain.on_response

    def counted(*words: Any) -> Any:
        nonlocal times
        times += 1
        return original(*words)

    judge.chain.on_response = counted  # type: ignore[method-assign]
    for number, most in enumerate((12, 12, 12, 99, 99)):
        body = api_versions(0, most)
        await made.send(made.client, request(18, 0, number))
        await made.settled()
        await made.send(made.broker, response(number, body))
        expected = response(number, api_versions(0, 13 if most == 99 else most))
        assert await made.receive(made.client, len(expected)) == expected
    assert times == 3  # the first, and both that are narrowed
    judge.use_chain(Chain([RewriteAddresses()]))
    assert not judge._unchanged


async def test_metadata_that_names_an_unservable_broker_is_withheld() -> None:
    from tests.proxy.forwarding.test_responses import table  # noqa: PLC0415

    judge = Judge(Chain([RewriteAddresses()]), table())
    made = Bench(judge, judge.chain)
    await made.send(made.client, request(3, 4, 1, b"\0\0\0\0\0"))
    await made.settled()
    brokers = [(1, "kafka-1.secret", 9_092), (2, "169.254.169.254", 80), (3, "kafka-3.secret", 0)]
    await made.send(made.broker, response(1, metadata(4, brokers)))
    expected = response(1, metadata(4, [(1, "127.0.0.1", 19_094)]))
    assert await made.receive(made.client, len(expected)) == expected


async def test_a_client_that_is_muted_is_not_read_before_its_time_is_over() -> None:
    """Its response leaves at once; the request that is there already goes to the broker afterwards (KIP-219)."""

    def mute(answered: Any) -> Any:
        answered.connection.mute_s = 0.2
        return Forward()

    made = bench(on_response=mute)
    loop = asyncio.get_running_loop()
    await made.send(made.client, beat(1))
    assert await made.receive(made.broker, len(beat(1))) == beat(1)
    began = loop.time()
    await made.send(made.broker, response(1, ANSWER))
    assert await made.receive(made.client, 10) == response(1, ANSWER)
    await made.send(made.client, beat(2) + beat(3))
    assert await made.receive(made.broker, len(beat(2))) == beat(2)
    assert loop.time() - began > 0.2 - 0.002  # the clock of uvloop counts whole milliseconds
    assert await made.receive(made.broker, len(beat(3))) == beat(3)


@LATER
async def test_a_response_that_is_too_large_to_be_held_is_an_error_and_the_end_of_the_connection(later: int) -> None:
    """UNKNOWN_SERVER_ERROR, which a filter before it may note, at once or later; what comes later is too late for the client."""
    noted: list[int] = []

    def note(answer: Any) -> Forward:
        noted.append(answer.message.error_code)
        return Forward()

    chain = Chain([Says(None, note, later), Says(None, lambda _: Forward(), 0)], wait=asyncio.wait_for)
    made = Bench(Judge(chain), chain, Limits(held_frame_size=100))
    await made.send(made.client, beat(1))
    await made.settled()
    await made.send(made.broker, b"\0\0\x10\0\0\0\0\1" + bytes(1_000))
    assert await made.rest(made.client) == (b"" if later else response(1, b"\xff\xff"))
    assert made.owner.cause is CloseCause.FRAME_TOO_BIG
    while not noted:
        await asyncio.sleep(0)
    assert noted == [-1]


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    end_codec_thread()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kproxy-codec")]


def test_calls_return_and_raise_in_one_thread_that_is_not_the_loops() -> None:
    order: list[int] = []

    def note(number: int) -> int:
        order.append(number)
        return threading.get_ident()

    def fail() -> None:
        raise ValueError("too bad")

    async def go() -> set[int]:
        threads = await asyncio.gather(*(in_codec_thread(lambda n=n: note(n)) for n in range(20)))
        with pytest.raises(ValueError, match="too bad"):
            await in_codec_thread(fail)
        return set(threads)

    (thread,) = asyncio.run(go())
    assert thread != threading.get_ident()
    assert order == list(range(20))


async def test_the_loop_goes_on_meanwhile() -> None:
    gate = threading.Event()
    waiting = asyncio.ensure_future(in_codec_thread(gate.wait))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()
    assert await waiting


TOKEN = b"\0\0\0\4\0a\0p"
GSSAPI = b"\0\0\0\4\x60\1\2\3"
AFTER_TOKENS = request(12, 0, 1, b"\0\1g\0\0\0\1\0\1m")


@pytest.mark.parametrize(("version", "tokens"), [(0, True), (1, False)])
def test_tokens_follow_version_0_of_the_handshake_until_a_request_follows(version: int, tokens: bool) -> None:
    one, dispatch = SimpleNamespace(sasl=None), Judge(Chain(()))
    assert dispatch.on_handshake(one, request(17, version, 1, b"\0\5PLAIN")) is tokens
    if tokens:
        assert dispatch.is_token(one, TOKEN)
        assert dispatch.is_token(one, AFTER_TOKENS)  # before any token was answered
        one.sasl.on_server_token()
        assert dispatch.is_token(one, TOKEN)
        assert not dispatch.is_token(one, AFTER_TOKENS)
        assert not one.sasl.in_tokens


def test_a_handshake_that_cannot_be_decoded_begins_nothing() -> None:
    assert Judge(Chain(())).on_handshake(SimpleNamespace(sasl=None), b"\0\0\0\2\0\x11") is False


def test_a_first_frame_may_be_a_token_of_gssapi() -> None:
    assert Judge(Chain(())).is_token(SimpleNamespace(sasl=None), GSSAPI)
    assert not Judge(Chain(())).is_token(SimpleNamespace(sasl=None), AFTER_TOKENS)


class Orders(Says):
    """Wants Produce requests with one topic only if that is "orders"."""

    requests = frozenset({0})

    def wants_topic(self, topic: str) -> bool:
        return topic == "orders"


async def test_a_request_with_a_topic_that_no_filter_wants_leaves_while_it_comes() -> None:
    filter_ = Orders(lambda asked: Forward(), None, 0)
    filter_.requests = frozenset({0})
    judge = Judge(Chain([filter_], wait=asyncio.wait_for))
    made = Bench(judge, judge.chain)
    for number, (topic, is_held) in enumerate({"others": False, "orders": True}.items(), 1):
        each = {"name": topic, "partition_data": [{"index": 0, "records": b"r" * 20_000}]}
        frame = request_frame("ProduceRequest", 9, correlation_id=number, acks=-1, topic_data=[each])
        await made.send(made.client, frame[:5_000])
        if not is_held:
            assert await made.receive(made.broker, 5_000) == frame[:5_000]
        await made.settled()
        await made.send(made.client, frame[5_000:])
        left = frame if is_held else frame[5_000:]
        assert await made.receive(made.broker, len(left)) == left
        assert made.counters.total_of(Total.HELD_FRAMES) == is_held
        await made.send(made.broker, response(number, b"\0" * 9))
        assert await made.receive(made.client, 17) == response(number, b"\0" * 9)
