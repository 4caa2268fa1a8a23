"""What is told of requests as they pass: raw SASL tokens, sizes before the login, acks=0, how many are in flight."""

import asyncio
import resource
from struct import pack
from typing import Any

import pytest

from kproxy.filters.chain import Chain
from kproxy.filters.contract import Filter, Want
from kproxy.protocol import Direction, message
from kproxy.proxy.tap.counted import CloseCause, Total
from tests.support.links import Bench, Judge, Limits, Owner, request, response, run

METADATA = request(3, 1, 7, b"\0\0\0\0")  # no topics
PLAIN_TOKEN = b"\0alice\0secret"
SCRAM_FIRST, SCRAM_FINAL = b"n,,n=alice,r=fyko", b"c=biws,r=fyko3rfc,p=v0X8"  # after RFC 5802 section 5
GSSAPI_FIRST = b"\x60\x82\x02\x6a" + b"\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02" + bytes(300)  # RFC 1964


def handshake(version: int, mechanism: bytes = b"PLAIN", correlation_id: int = 1) -> bytes:
    return request(17, version, correlation_id, pack(">h", len(mechanism)) + mechanism)


def token(data: bytes) -> bytes:
    return pack(">i", len(data)) + data


def authenticate(size: int) -> bytes:
    return request(36, 0, 2, pack(">i", size) + bytes(size))


HANDSHAKE_ANSWER = response(1, b"\0\0\0\0\0\1\0\5PLAIN")
METADATA_ANSWER = response(7, b"\0\0\0\0\0\0\0\0\0\0\0\0")


async def play(bench: Bench, steps: list[tuple[bytes, bytes]], piece: int) -> None:
    """The client sends and the broker answers; both ends see every byte. *piece*: bytes in a segment."""
    for sent, answered in steps:
        for source, sink, data in ((bench.client, bench.broker, sent), (bench.broker, bench.client, answered)):
            for at in range(0, len(data), piece):
                await bench.send(source, data[at : at + piece])
                await bench.settled()
            assert await bench.receive(sink, len(data)) == data


CONVERSATIONS = {
    "PLAIN": [(handshake(0), HANDSHAKE_ANSWER), (token(PLAIN_TOKEN), token(b"")), (METADATA, METADATA_ANSWER)],
    "SCRAM": [
        (handshake(0, b"SCRAM-SHA-256"), HANDSHAKE_ANSWER),
        (token(SCRAM_FIRST), token(b"r=fyko3rfc,s=QSXC,i=4096")),
        (token(SCRAM_FINAL), token(b"v=rmF9pqV8S7suAoZWja4dJRkF")),
        (METADATA, METADATA_ANSWER),
    ],
    "the last token unanswered": [
        (handshake(0, b"GSSAPI"), HANDSHAKE_ANSWER),
        (token(GSSAPI_FIRST), token(b"\x60\x30" + bytes(48))),
        (token(b"\x01\x02"), b""),
        (METADATA, METADATA_ANSWER),
    ],
    "GSSAPI without a handshake": [
        (token(GSSAPI_FIRST), token(b"\x60\x30" + bytes(48))),
        (token(bytes(32)), b""),
        (METADATA, METADATA_ANSWER),
    ],
    "a token that looks like a request of another client": [
        (handshake(0), HANDSHAKE_ANSWER),
        (request(3, 1, 99, b"\0\0\0\0", client_id=b"other"), token(b"")),
        (METADATA, METADATA_ANSWER),
    ],
    "a request where a token was due, after a refused mechanism": [
        (handshake(0, b"NONE"), response(1, b"\0\x21\0\0\0\1\0\5PLAIN")),
        (handshake(0, correlation_id=1), HANDSHAKE_ANSWER),
        (token(PLAIN_TOKEN), token(b"")),
        (METADATA, METADATA_ANSWER),
    ],
    "an empty token": [
        (handshake(0, b"OAUTHBEARER"), HANDSHAKE_ANSWER),
        (token(b""), token(b"")),
        (METADATA, METADATA_ANSWER),
    ],
    "again, as KIP-368 has it": [
        (handshake(1), HANDSHAKE_ANSWER),
        (authenticate(100), response(2, b"\0\0\xff\xff\0\0\0\0")),
        (METADATA, METADATA_ANSWER),
        (handshake(1), HANDSHAKE_ANSWER),
        (authenticate(100), response(2, b"\0\0\xff\xff\0\0\0\0")),
        (METADATA, METADATA_ANSWER),
    ],
}


@pytest.mark.parametrize("piece", [1, 10_000])
@pytest.mark.parametrize("steps", CONVERSATIONS.values(), ids=CONVERSATIONS)
async def test_attack_12_raw_tokens_pass_and_every_answer_finds_its_request(
    steps: list[tuple[bytes, bytes]], piece: int
) -> None:
    bench = Bench(Judge(Chain(())))
    await play(bench, steps, piece)
    assert bench.owner.told == []
    assert bench.link.in_flight_count == 0
    assert not bench.link.tokens
    metadata = [api for api in bench.counters.apis() if api.api_key == 3]
    assert [(api.requests, api.responses) for api in metadata] == [(steps.count((METADATA, METADATA_ANSWER)),) * 2]


@pytest.mark.parametrize(
    "before", [[(handshake(0), HANDSHAKE_ANSWER)], [(handshake(1), HANDSHAKE_ANSWER)]], ids=["raw", "wrapped"]
)
@pytest.mark.parametrize("size", [524_288, 524_289])
async def test_promise_2_frames_are_small_until_the_login_is_done(before: list[tuple[bytes, bytes]], size: int) -> None:
    """Kafka's own bound: sasl.server.max.receive.size, 524,288 (CVE-2022-34917)."""
    bench = Bench(Judge(Chain(())))
    await play(bench, before, 10_000)
    start = pack(">i", size) + (b"\0\x24\0\0\0\0\0\2\0\1t" if before[0][0][7] else bytes(7))
    await bench.send(bench.client, start)
    if size > 524_288:
        assert await bench.rest(bench.client) == b""
        assert bench.owner.cause is CloseCause.BAD_FRAME
    else:
        await bench.settled()
        assert not bench.link.closed


@pytest.mark.parametrize("size", range(8))
async def test_a_frame_shorter_than_a_header_is_refused_while_a_client_authenticates(size: int) -> None:
    bench = Bench(Judge(Chain(())))
    await play(bench, [(handshake(1), HANDSHAKE_ANSWER)], 10_000)
    await bench.send(bench.client, token(bytes(size)) + METADATA + METADATA)
    assert await bench.rest(bench.client) == b""
    assert await bench.rest(bench.broker) == b""
    assert bench.owner.cause is CloseCause.BAD_FRAME


def produce(version: int, acks: int, correlation_id: int) -> bytes:
    api = message("ProduceRequest")
    wish = f'{{"transactionalId": null, "acks": {acks}, "timeoutMs": 1, "topicData": []}}'
    body = api.encode(version, api.from_json(version, wish))
    return request(0, version, correlation_id, (b"\0" if version >= 9 else b"") + body)


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


@pytest.mark.parametrize("count", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_promise_11_acks_0_leaves_no_state(count: int) -> None:
    async def work() -> None:
        bench = Bench()
        flood = produce(9, 0, 5) * 1_000
        await bench.send(bench.client, flood)
        assert await bench.receive(bench.broker, len(flood)) == flood
        before = resident()
        for _ in range(count // 1_000):
            await bench.send(bench.client, flood)
            assert len(await bench.receive(bench.broker, len(flood))) == len(flood)
            assert bench.link.in_flight_count == 0
        assert bench.counters.total_of(Total.IN_FLIGHT) == 0
        assert resident() - before < 5_000_000

    run(work, 300)


@pytest.mark.parametrize("version", [3, 9])
async def test_attack_a_broker_that_answers_a_produce_before_its_acks_were_read(version: int) -> None:
    """What is in flight must not be counted below nothing, which would be memory of somebody else's."""
    frame = produce(version, 0, 5)
    bench = Bench()
    await bench.send(bench.client, frame[:12])
    assert await bench.receive(bench.broker, 12) == frame[:12]
    await bench.send(bench.broker, response(5))
    assert await bench.receive(bench.client, 8) == response(5)
    await bench.send(bench.client, frame[12:] + METADATA)
    assert await bench.receive(bench.broker, len(frame + METADATA) - 12) == frame[12:] + METADATA
    assert bench.link.in_flight_count == 1
    await bench.send(bench.broker, METADATA_ANSWER)
    assert await bench.receive(bench.client, len(METADATA_ANSWER)) == METADATA_ANSWER
    assert bench.counters.total_of(Total.IN_FLIGHT) == bench.counters.total_of(Total.MISPAIRED) == 0


@pytest.mark.parametrize("limit", [1, 2, 10])
async def test_a_client_is_read_no_further_when_too_much_is_in_flight_and_again_when_half_is_answered(
    limit: int,
) -> None:
    bench = Bench(limits=Limits(in_flight=limit))
    sent = [request(3, 1, n, bytes(n % 7)) for n in range(40)]
    await bench.send(bench.client, b"".join(sent))
    await bench.settled()
    assert bench.link.in_flight_count == limit
    seen = b"".join(sent[:limit])
    assert await bench.receive(bench.broker, len(seen)) == seen
    for n in range(40):
        await bench.send(bench.broker, response(n, b"x"))
        await bench.settled()
    rest = b"".join(sent[limit:])
    assert await bench.receive(bench.broker, len(rest)) == rest
    expected = b"".join(response(n, b"x") for n in range(40))
    assert await bench.receive(bench.client, len(expected)) == expected
    assert bench.owner.told == []


async def test_a_client_that_waited_goes_on_when_its_frames_are_lost() -> None:
    bench = Bench(limits=Limits(in_flight=2))
    sent = b"".join(request(3, 1, n) for n in range(6))
    await bench.send(bench.client, sent)
    await bench.settled()
    await bench.send(bench.broker, response(99))  # answers nothing: frames are not known from here
    assert await bench.receive(bench.broker, len(sent)) == sent


async def test_an_answer_never_overtakes_the_response_that_let_its_request_in() -> None:
    """With one request allowed in flight, the next is read while the first one's response is in hand."""

    def judge(link: Any, frame: bytes) -> bool:
        link.answer(response(2, b"from here"))
        return True

    class HoldsMetadata(Filter):
        def wants(self, direction: Any, api_key: int, api_version: int) -> Want:
            return Want.HOLD if (direction, api_key) == (Direction.REQUEST, 3) else Want.PASS

    bench = Bench(Owner(judge_request=judge), Chain([HoldsMetadata()]), Limits(in_flight=1))
    await bench.send(bench.client, request(18, 0, 1) + request(3, 1, 2))
    await bench.settled()
    await bench.send(bench.broker, response(1, b"first"))
    expected = response(1, b"first") + response(2, b"from here")
    assert await bench.receive(bench.client, len(expected)) == expected


async def test_a_request_without_a_header_is_no_filters_to_send() -> None:
    bench = Bench()
    with pytest.raises(ValueError, match="11 bytes"):
        bench.link.forward_request(bytes(11))


async def test_tokens_are_looked_for_in_no_later_frame_of_a_connection() -> None:
    """0x60 begins a GSSAPI token only where nothing came before it; else it is an API key nobody knows."""
    bench = Bench(Judge(Chain(())))
    odd = request(0x6001, 0, 8, b"body")
    await play(bench, [(METADATA, METADATA_ANSWER), (odd, response(8))], 10_000)
    assert bench.counters.total_of(Total.UNKNOWN_APIS) == 1
    assert bench.counters.total_of(Total.HELD_FRAMES) == 0


async def test_a_first_frame_that_begins_as_a_token_does_and_is_a_request_is_one() -> None:
    bench = Bench(Judge(Chain(())))
    sent = request(3, 0x60, 8)  # the version of an API is not where a token begins
    await play(bench, [(sent, response(8))], 1)
    assert bench.link.in_flight_count == 0


async def test_a_wait_for_a_slow_broker_is_no_reason_to_keep_a_client_that_is_gone() -> None:
    bench = Bench(limits=Limits(in_flight=2))
    await bench.send(bench.client, b"".join(request(3, 1, n) for n in range(6)))
    await bench.settled()
    bench.broker.close()
    async with asyncio.timeout(10):
        await bench.owner.closed.wait()
    assert bench.owner.cause in (CloseCause.BROKER_RESET, CloseCause.BROKER_CLOSED)
