"""Responses find their requests, and no broker's address leaves with them, however big they are and however they are cut."""

import asyncio
import contextlib
import random
from struct import pack
from typing import Any

import pytest

from kproxy.config.structs import Addresses
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Direction, Filter, Want
from kproxy.filters.rewrite_addresses import RewriteAddresses
from kproxy.protocol import facts, message
from kproxy.proxy.brokers import BrokerTable
from kproxy.proxy.tap.counted import CloseCause, Total
from tests.conftest import Require
from tests.filters.test_parts import HEADS
from tests.filters.test_rewrite_addresses import rewritten, samples
from tests.support import referees
from tests.support.filtering import Served
from tests.support.links import Bench, Judge, Limits, Owner, request, response, run
from tests.support.messages import make, response_frame
from tests.support.sampled import sampled

REAL = "kafka-7.secret.internal"
TOLD = [(7, "127.0.0.1", 19_100), (8, "127.0.0.1", 19_101)]  # the listener's host, its port + 1 + the node id
SIZES = [
    *sampled([0, 1, 5_000, 262_144, 1_048_577], [0, 5_000, 1_048_577]),
    pytest.param(5_000_000, marks=pytest.mark.long),
]
NEWEST = {0: "Produce", 1: "Fetch", 78: "ShareFetch", 79: "ShareAcknowledge"}


def table() -> BrokerTable:
    return BrokerTable(Addresses(), ("127.0.0.1", 19_092))


def big_response(api_key: int, version: int, size: int, seed: int) -> bytes:
    """A response with so many random bytes of records (of Produce: of error text) and two brokers' addresses at its end."""
    chance = random.Random(seed)
    name = f"{NEWEST[api_key]}Response"
    leader = {"leader_id": 8, "leader_epoch": 5}
    nodes = [{"node_id": id_, "host": REAL, "port": 9_092 + id_, "rack": "r"} for id_ in (7, 8)]
    if api_key == 0:
        errors = [{"batch_index": n, "batch_index_error_message": "x" * 100} for n in range(size // 106)]
        inner = [{"index": 1, "record_errors": errors, "current_leader": leader}]
        topics = [{"partition_responses": inner}]
    elif api_key == 79:
        inner = [
            {"partition_index": n, "error_code": 6, "error_message": "x" * 100, "current_leader": leader}
            for n in range(size // 117 + 1)
        ]
        topics = [{"partitions": inner}]
    else:
        inner = [{"partition_index": 3, "records": chance.randbytes(size), "current_leader": leader}]
        topics = [{"partitions": inner}]
    value = make(name, responses=topics, node_endpoints=nodes)
    return response_frame(api_key, version, message(name).encode(version, value))


def hints(api_key: int, value: Any) -> list[Any]:
    """Who leads the partitions, as their responses tell (KIP-951): the node endpoints say where that broker is."""
    topics = value.responses
    partitions = [one for topic in topics for one in (topic.partition_responses if api_key == 0 else topic.partitions)]
    return [one.current_leader for one in partitions]


def cut(data: bytes, chance: random.Random) -> list[bytes]:
    """In some pieces, and the last fifty bytes, where the addresses are, in many."""
    places = sorted({chance.randrange(len(data)) for _ in range(5)} | set(range(max(len(data) - 50, 1), len(data), 3)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("api_key", "version"), [(0, 10), (0, 12), (1, 16), (1, 17), (78, 1), (79, 1), (79, 2)])
async def test_no_byte_of_a_brokers_address_leaves_with_a_response_of_any_size(
    api_key: int, version: int, size: int, require: Require
) -> None:
    require("referees", referees.AVAILABLE, "kio and kafka-python are not installed")
    sent = [big_response(api_key, version, size, seed) for seed in range(1 if size > 1_000_000 else 3)]
    chance = random.Random(size)
    judge = Judge(Chain([RewriteAddresses()]), table())
    bench = Bench(judge, judge.chain)
    # of Produce: no tags, no transaction, acks=-1
    asked = request(api_key, version, 7, b"\0\0\xff\xff" + bytes(40)) * len(sent)
    await bench.send(bench.client, asked)
    assert await bench.receive(bench.broker, len(asked)) == asked
    for frame in sent:

        async def answer(frame: bytes = frame) -> None:
            for piece in cut(frame, chance):
                await bench.send(bench.broker, piece)
                await asyncio.sleep(0)

        answering = asyncio.ensure_future(answer())
        start = await bench.receive(bench.client, 4)
        got = start + await bench.receive(bench.client, int.from_bytes(start, "big"))
        await answering
        assert REAL.encode() not in got and b"secret" not in got
        body = got[8 + (version > 0 and got[8] == 0) :]
        value: Any = message(f"{NEWEST[api_key]}Response").decode(version, body)
        assert [(n.node_id, n.host, n.port) for n in value.node_endpoints] == TOLD
        assert {(leader.leader_id, leader.leader_epoch) for leader in hints(api_key, value)} == {(8, 5)}
        read = referees.kafka_python_decoded(f"{NEWEST[api_key]}Response", version, body)
        assert read is None or referees.addresses(read) == TOLD
        before = frame.index(REAL.encode()) - 20
        if len(frame) > 600_000:
            assert len(got) == len(frame)
        assert got[8:before] == frame[8:before]
    await bench.settled()
    assert bench.counters.total_of(Total.REWRITTEN_FRAMES) == len(sent)
    assert judge.told == [] and not judge.chain.faults


class Holds(Filter):
    """Wants to see every response of an API."""

    def __init__(self, *api_keys: int) -> None:
        self.responses = frozenset(api_keys)


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_promise_12_no_response_is_taken_for_anothers(count: int) -> None:
    """Random requests in flight, some that nobody answers; of those held, each must come with what was asked."""
    chance = random.Random(12)
    keys = [key for key in facts().apis if key not in (0, 17, 36)]
    produce = message("ProduceRequest")
    silent = produce.encode(
        3, produce.from_json(3, '{"transactionalId": null, "acks": 0, "timeoutMs": 1, "topicData": []}')
    )
    asked: dict[int, tuple[int, int]] = {}
    wrong: list[Any] = []
    held = 0

    def judge(link: Any, current: tuple[Any, ...], frame: bytes) -> bool:
        nonlocal held
        held += 1
        key, version, correlation_id, _ = current
        said = int.from_bytes(frame[8:16], "big")
        if asked.get(said) != (key, version) or int.from_bytes(frame[4:8], "big", signed=True) != correlation_id:
            wrong.append((current, frame))
        link.forward_response(frame)
        return True

    async def work() -> None:
        bench = Bench(Owner(judge_response=judge), Chain([Holds(*keys)]), Limits(in_flight=1 << 20))
        number = 0
        while number < count:
            sent, answers = [], []
            for _ in range(chance.randrange(1, 400)):
                key, version = chance.choice(keys), chance.randrange(18)
                id_ = chance.randrange(-(1 << 31), 1 << 31) if chance.random() < 0.5 else number % 7
                number += 1
                if chance.random() < 0.2:
                    sent.append(request(0, 3, id_, silent))
                    continue
                asked[number] = key, version
                sent.append(request(key, version, id_, chance.randbytes(chance.randrange(30))))
                answers.append(response(id_, number.to_bytes(8, "big")))
            whole, back = b"".join(sent), b"".join(answers)
            await bench.send(bench.client, whole)
            assert await bench.receive(bench.broker, len(whole)) == whole
            split = chance.randrange(len(back) + 1)
            await bench.send(bench.broker, back[:split])
            await bench.send(bench.broker, back[split:])
            assert await bench.receive(bench.client, len(back)) == back
            asked.clear()
        assert wrong == [] and held > count // 8
        assert bench.counters.total_of(Total.MISPAIRED) == bench.link.in_flight_count == 0

    run(work, 600)


async def test_a_verdict_that_comes_later_keeps_the_order_of_responses() -> None:
    class Slow(Holds):
        async def _think(self) -> Any:
            from kproxy.filters.contract import Forward  # noqa: PLC0415

            for _ in range(5):
                await asyncio.sleep(0)
            return Forward()

        def on_response(self, response: Any) -> Any:
            return self._think()

    judge = Judge(Chain([Slow(12)], wait=asyncio.wait_for))
    bench = Bench(judge, judge.chain)
    sent = b"".join(request(12 if n % 3 else 18, 0, n, bytes(20)) for n in range(30))
    heartbeat = b"\0\0"
    await bench.send(bench.client, sent)
    assert await bench.receive(bench.broker, len(sent)) == sent
    answers = b"".join(response(n, heartbeat if n % 3 else b"anything") for n in range(30))
    await bench.send(bench.broker, answers)
    assert await bench.receive(bench.client, len(answers)) == answers
    assert not judge.chain.faults


async def test_a_response_that_announces_two_gigabytes_costs_nothing_and_ends_with_the_broker() -> None:
    bench = Bench(chain=Chain([Holds(3)]))
    await bench.send(bench.client, request(3, 1, 1) + request(12, 0, 2))
    await bench.settled()
    await bench.send(bench.broker, b"\x7f\xff\xff\xff\0\0\0\1" + bytes(1_000))
    assert await bench.receive(bench.client, 1_008) == b"\x7f\xff\xff\xff\0\0\0\1" + bytes(1_000)
    assert bench.worker.buffered_bytes == 0
    assert bench.owner.told == [("oversized", 1, 3, (1 << 31) + 3)]
    bench.broker.close()
    assert await bench.rest(bench.client) == b""


async def test_a_response_that_is_too_large_to_be_held_is_refused_with_what_the_owner_sends() -> None:
    """The response before it, in the same chunk, comes first."""
    bench = Bench(chain=Chain([Holds(3)]), limits=Limits(held_frame_size=1_000))
    bench.owner.strict, bench.owner.instead_of_large = True, response(2, b"an error")
    await bench.send(bench.client, request(12, 0, 1) + request(3, 1, 2))
    await bench.settled()
    first = response(1, bytes(100))
    await bench.send(bench.broker, first + b"\0\0\x10\0\0\0\0\2" + bytes(2_000))
    assert await bench.rest(bench.client) == first + response(2, b"an error")
    assert bench.owner.told == [
        ("oversized", 1, 3, 4_100),
        ("large refused", (3, 1, 2)),
        ("refused", 1, CloseCause.FRAME_TOO_BIG, b"\0\0\x10\0"),
    ]


@pytest.mark.parametrize("start", [b"\xff\xff\xff\xff", b"\x80\0\0\0"])
async def test_a_response_of_negative_size_closes(start: bytes) -> None:
    bench = Bench()
    await bench.send(bench.client, request(3, 1, 1))
    await bench.settled()
    await bench.send(bench.broker, start + b"\0\0\0\1")
    assert await bench.rest(bench.client) == b""
    assert bench.owner.cause is CloseCause.BAD_FRAME


@pytest.mark.parametrize("size", range(4))
async def test_a_response_too_short_for_its_correlation_id_passes_and_frames_are_lost(size: int) -> None:
    bench = Bench()
    await bench.send(bench.client, request(3, 1, 1))
    await bench.settled()
    sent = size.to_bytes(4, "big") + bytes(20)
    await bench.send(bench.broker, sent)
    assert await bench.receive(bench.client, len(sent)) == sent
    assert bench.counters.total_of(Total.MISPAIRED) == 1


async def test_what_a_required_filter_cannot_read_closes_the_connection() -> None:
    chain = Chain([RewriteAddresses()])
    bench = Bench(Judge(chain, table()), chain)
    assert chain.unknown(Direction.RESPONSE, 3) is Want.REFUSE
    await bench.send(bench.client, request(3, 31, 1))
    assert await bench.rest(bench.client) == b""
    assert bench.owner.cause is CloseCause.REFUSED_VERSION


async def test_latency_is_counted_by_api() -> None:
    bench = Bench()
    await bench.send(bench.client, request(3, 1, 1) + request(12, 0, 2))
    await bench.settled()
    await bench.send(bench.broker, response(1, bytes(10)) + response(2, bytes(20)))
    assert len(await bench.receive(bench.client, 46)) == 46
    counted = {(api.api_key, api.api_version): api for api in bench.counters.apis()}
    assert counted[3, 1].response_bytes == 18 and counted[12, 0].response_bytes == 28
    assert all(sum(api.histogram) == 1 and api.latency_ns > 0 for api in counted.values())


def kafkas_responses(api_key: int, version: int) -> list[tuple[bytes, bytes]]:
    """Frames with bodies that Kafka wrote, and 3 bytes behind some; and the same with our addresses, rewritten whole."""
    made = []
    for at, (_, _, body) in enumerate(samples(api_key, version)):
        behind = b"\0\1\2" * (at % 2)
        expected = rewritten(api_key, version, body, Served())
        made.append(
            (response_frame(api_key, version, body + behind), response_frame(api_key, version, expected + behind))
        )
    return made


@pytest.mark.parametrize("largest", sampled([1, 7, 1_000_000], [7]))
@pytest.mark.parametrize(("api_key", "version"), HEADS)
async def test_addresses_at_the_beginning_are_rewritten_however_the_response_is_cut(
    api_key: int, version: int, largest: int
) -> None:
    chance = random.Random(largest)
    frames = kafkas_responses(api_key, version)
    sent, expected = b"".join(frame for frame, _ in frames), b"".join(frame for _, frame in frames)
    judge = Judge(Chain([RewriteAddresses()]), Served())
    bench = Bench(judge, judge.chain)
    asked = request(api_key, version, 7, bytes(20)) * len(frames)
    await bench.send(bench.client, asked)
    assert await bench.receive(bench.broker, len(asked)) == asked
    receiving = asyncio.ensure_future(bench.receive(bench.client, len(expected)))
    at = 0
    while at < len(sent):
        size = chance.randrange(1, largest + 1)
        await bench.send(bench.broker, sent[at : at + size])
        await asyncio.sleep(0)
        at += size
    assert await receiving == expected
    assert judge.told == [] and not judge.chain.faults
    assert bench.worker.buffered_bytes == 0


def metadata_with_partitions(size: int) -> bytes:
    """A Metadata v9 body with three brokers and at least so many bytes of topics."""
    nodes = [{"node_id": id_, "host": REAL, "port": 9_092} for id_ in range(3)]
    one = {"leader_id": 1, "replica_nodes": [0, 1, 2], "isr_nodes": [0, 1, 2]}
    topic = {"name": "topic", "partitions": [one] * 1_000}
    whole = message("MetadataResponse")
    few = len(whole.encode(9, make("MetadataResponse", brokers=nodes, topics=[topic])))
    return whole.encode(9, make("MetadataResponse", brokers=nodes, topics=[topic] * (size // (few - 200) + 1)))


@pytest.mark.parametrize("size", [5_300_000, pytest.param(100_000_000, marks=pytest.mark.long)])
async def test_promise_31_no_metadata_response_is_too_big(size: int) -> None:
    body = metadata_with_partitions(size)
    frame, expected = response_frame(3, 9, body), response_frame(3, 9, rewritten(3, 9, body, Served()))
    assert len(frame) > size
    judge = Judge(Chain([RewriteAddresses()]), Served())
    bench = Bench(judge, judge.chain, Limits(held_frame_size=100_000))
    await bench.send(bench.client, request(3, 9, 7, bytes(20)))
    most = 0

    async def answer() -> None:
        nonlocal most
        for at in range(0, len(frame), 100_000):
            await bench.send(bench.broker, frame[at : at + 100_000])
            most = max(most, bench.worker.buffered_bytes)

    answering = asyncio.ensure_future(answer())
    assert await bench.receive(bench.client, len(expected)) == expected
    await answering
    assert most <= 300_000
    assert judge.told == []


async def test_attack_19_a_beginning_without_an_end_closes() -> None:
    """A first broker whose host takes 50 MB: no more of it than its bound is kept."""
    start = pack(">ii", 60_000_000, 7) + pack(">ii", 0, 1) + pack(">ih", 1, 0x7FFF)
    brokers = start[:12] + pack(">i", 1_000_000) + pack(">ih", 1, 0x7FFF)
    judge = Judge(Chain([RewriteAddresses()]), Served())
    bench = Bench(judge, judge.chain)
    await bench.send(bench.client, request(3, 5, 7, bytes(20)))
    await bench.send(bench.broker, brokers)
    most = 0
    with contextlib.suppress(OSError):
        while not bench.link.closed:
            await bench.send(bench.broker, bytes(100_000))
            most = max(most, bench.worker.buffered_bytes)
    assert bench.owner.cause is CloseCause.FRAME_TOO_BIG
    assert await bench.rest(bench.client) == b""
    assert 4_000_000 < most <= 8_388_608


@pytest.mark.parametrize("fails_open", [False, True])
async def test_a_filter_that_wants_metadata_whole_is_passed_by_or_closes_above_the_limit(fails_open: bool) -> None:
    class Observer(Holds):
        pass

    Observer.fails_open = fails_open
    body = metadata_with_partitions(200_000)
    frame, expected = response_frame(3, 9, body), response_frame(3, 9, rewritten(3, 9, body, Served()))
    judge = Judge(Chain([RewriteAddresses(), Observer(3)]), Served())
    bench = Bench(judge, judge.chain, Limits(held_frame_size=100_000))
    await bench.send(bench.client, request(3, 9, 7, bytes(20)))
    await bench.send(bench.broker, frame[:1_000])
    answering = asyncio.ensure_future(bench.send(bench.broker, frame[1_000:]))
    if fails_open:
        assert await bench.receive(bench.client, len(expected)) == expected
        await answering
    else:
        assert await bench.rest(bench.client) == b""
        assert bench.owner.cause is CloseCause.FRAME_TOO_BIG
        await asyncio.wait([answering])
        answering.exception()
    assert judge.chain.faults == {"Observer": 1}
