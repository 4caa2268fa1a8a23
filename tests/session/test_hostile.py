"""Hostile bytes on a connection, by their numbers; after each of them the connection goes on to be read.

6: sizes that no frame has, and other protocols in their place. 10: a response with an unknown, repeated or swapped
correlation id, or before any request. 11: two requests in a segment, or a byte a segment. 12: SASL tokens without headers.
13: ApiVersions refused in version 0's layout, or malformed. 14: lengths and counts that lie. 15 and 16: records that no
decoder accepts are nothing to the frames around them.
"""

import random
import struct

import pytest

from kproxy.session import Direction, Exchange
from tests.support.conversation import broker, client, converse, events_of, new_session, tell
from tests.support.frames import (
    api_versions,
    api_versions_refusal,
    array,
    heartbeat,
    heartbeat_answer,
    request,
    response,
    string,
)

GOES_ON = (client >> heartbeat(900), broker >> heartbeat_answer(900))
WENT_ON = "Heartbeat v0 #900 answered"


@pytest.mark.parametrize("seed", range(20))
def test_10_whatever_comes_back_is_never_paired_with_another_request(seed: int) -> None:
    """10,000 responses: in order, late, repeated, swapped, of nobody. Both sides of a pair carry the same group and number."""
    rng, session, pairs = random.Random(seed), new_session(), 0
    waiting: list[int] = []
    for number in range(500):
        events = session.receive(Direction.REQUEST, heartbeat(number, group=f"g{number}"), number)
        waiting.append(number)
        while waiting and rng.random() < 0.6:
            place = rng.choice([0, 0, 0, 0, 0, 0, rng.randrange(len(waiting)), len(waiting) - 1])
            told = rng.choice([waiting[place], waiting[place], waiting[place], rng.randrange(2**31)])
            if rng.random() < 0.9 and told in waiting:
                waiting.remove(told)
            events += session.receive(Direction.RESPONSE, heartbeat_answer(told), number)
        pairs += sum(
            _is_right(event) for event in events if isinstance(event, Exchange) and event.request and event.response
        )
    assert pairs > 50
    assert converse(*GOES_ON, session=session)[-1] == WENT_ON


def _is_right(exchange: Exchange) -> bool:
    assert exchange.request is not None
    assert exchange.response is not None
    number = exchange.correlation_id
    assert f"g{number}".encode() in bytes(exchange.request.data)
    assert struct.unpack(">i", bytes(exchange.response.data[:4]))[0] == number
    return True


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (api_versions_refusal(1), "ApiVersions v3 #1 answered"),
        (response(1, b"\0\x23"), "ApiVersions v3 #1 answered, undecoded"),
        (response(1, b""), "ApiVersions v3 #1 answered, undecoded"),
        (response(1, b"\0\0\xff\xff\xff\xff\x0f" + bytes(30)), "ApiVersions v3 #1 answered, undecoded"),
        (response(1, b"\0\x23\x7f\xff\xff\xff"), "ApiVersions v3 #1 answered, undecoded"),
    ],
)
def test_13_api_versions_refused_and_malformed(answer: bytes, said: str) -> None:
    assert converse(client >> api_versions(1), broker >> answer, *GOES_ON) == [said, WENT_ON]


LIES = {
    "varint of six bytes": (12, 4, b"\0" + b"\xff\xff\xff\xff\xff\x01" + bytes(20)),
    "varint of eleven bytes": (12, 4, b"\0" + b"\x80" * 10 + b"\1" + bytes(20)),
    "string of length -2": (12, 0, b"\xff\xfe" + bytes(20)),
    "string of length -32768": (12, 0, b"\x80\0" + bytes(20)),
    "array of 2^31 - 1": (3, 0, b"\x7f\xff\xff\xff"),
    "array of -2": (3, 0, b"\xff\xff\xff\xfe"),
    "records of -2 bytes": (
        0, 3, string(None) + struct.pack(">hi", 1, 9) + array(string("t") + array(struct.pack(">ii", 0, -2)))),
    "records of 2 GiB": (
        0, 3, string(None) + struct.pack(">hi", 1, 9) + array(string("t") + array(struct.pack(">ii", 0, 2**31 - 1)))),
    "2^32 - 1 tagged fields": (12, 4, b"\0\2g\0\0\0\1\2m\0\xff\xff\xff\xff\x0f"),
    "a tagged field of 2^32 - 1 bytes": (12, 4, b"\0\2g\0\0\0\1\2m\0\1\0\xff\xff\xff\xff\x0f"),
}  # fmt: skip


@pytest.mark.parametrize("what", LIES)
def test_14_lengths_and_counts_that_lie_cost_their_exchange_alone(what: str) -> None:
    api_key, api_version, body = LIES[what]
    sent = request(api_key, api_version, 7, body)
    said = converse(client >> sent + heartbeat(8), broker >> heartbeat_answer(7) + heartbeat_answer(8), *GOES_ON)
    assert said[0].endswith("#7 answered, undecoded")
    assert said[1:] == ["Heartbeat v0 #8 answered", WENT_ON]


BATCH = struct.pack(">qiibI", 0, 49, 0, 2, 0xDEADBEEF) + bytes(40)  # its CRC is not that of its bytes
NESTED = struct.pack(">qiIbb", 0, 22, 0, 1, 1) + struct.pack(">q", 0) + bytes(8)  # gzip within what gzip had
RECORDS = {
    "15 CRC that does not match": BATCH,
    "15 magic 3": BATCH[:16] + b"\3" + BATCH[17:],
    "15 truncated last batch": BATCH + BATCH[:30],
    "16 nested compression": NESTED,
    "15 nothing like records": b"\xff" * 100,
}


@pytest.mark.parametrize("what", RECORDS)
def test_15_16_records_that_nobody_accepts_leave_the_exchange_whole(what: str) -> None:
    partition = struct.pack(">ii", 0, len(RECORDS[what])) + RECORDS[what]
    body = string(None) + struct.pack(">hi", -1, 1500) + array(string("t") + array(partition))
    answer = response(7, array() + struct.pack(">i", 0))
    events = events_of(client >> request(0, 3, 7, body), broker >> answer, *GOES_ON)
    assert [tell(event) for event in events] == ["Produce v3 #7 answered", WENT_ON]
