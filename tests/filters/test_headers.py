"""Headers on what is produced."""

import asyncio
import random
import re
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kproxy.errors import UsageError
from kproxy.filters.contract import Direction, Send, Want
from kproxy.filters.loading import load_filter
from kproxy.protocol.records import Codec, Record, read_batches
from kproxy.protocol.records.editing import RecordBatch, read_records, write_batches
from tests.support.filtering import Bench
from tests.support.messages import make, request_frame, request_in

OWN = [("h", b"own")]


def field(codec: Codec = Codec.NONE, magic: int = 2) -> bytes:
    records = [Record(offset=at, timestamp=at, key=b"k", value=b"v%d" % at) for at in range(3)]
    for record in records if magic == 2 else ():
        record.headers = list(OWN)
    return write_batches([RecordBatch(records, magic, codec=codec, producer_id=5, base_sequence=3)])


class Labelling(Bench):
    def __init__(self, **options: Any) -> None:
        super().__init__(load_filter("headers", options))
        self.at.principal = "alice"

    def forwarded(self, records: bytes | None, topic: str = "t", acks: int = -1) -> bytes:
        """The frame that is forwarded."""
        outcome = self.produce(topic, records=records, acks=acks, timeout_ms=5)
        assert isinstance(outcome, Send)
        return outcome.frame


def records_in(frame: bytes) -> bytes:
    asked: Any = request_in(frame)
    assert (asked.acks, asked.timeout_ms) in ((-1, 5), (0, 5))
    records = asked.topic_data[0].partition_data[0].records
    assert isinstance(records, bytes)
    return records


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("acks", [-1, 0])
def test_every_record_says_where_it_comes_from(codec: Codec, acks: int) -> None:
    forwarded = Labelling(cluster="c", fixed={"f": "x"}).forwarded(field(codec), acks=acks)
    (batch,) = read_records(records_in(forwarded))
    expected = [
        *OWN,
        ("kproxy-origin", b"10.0.0.5:51234"),
        ("kproxy-client-id", b"app"),
        ("kproxy-principal", b"alice"),
        ("c", b"default"),
        ("f", b"x"),
    ]
    assert [record.headers for record in batch.records] == [expected] * 3
    assert [(record.key, record.value, record.sequence) for record in batch.records] == [
        (b"k", b"v0", 3),
        (b"k", b"v1", 4),
        (b"k", b"v2", 5),
    ]
    assert (batch.codec, batch.producer_id) == (codec, 5)
    assert read_batches(records_in(forwarded))[0].crc_valid


def test_many_records_get_their_headers_aside() -> None:
    """In a thread: compression of megabytes would hold up all other connections."""
    bench = Labelling()
    threads: list[str] = []

    async def scenario(frame: bytes) -> Any:
        with ThreadPoolExecutor(1, "in_thread") as pool:

            def named(function: Callable[[], Any]) -> Any:
                threads.append(threading.current_thread().name)
                return function()

            def in_thread(function: Callable[[], Any]) -> Awaitable[Any]:
                return asyncio.get_running_loop().run_in_executor(pool, named, function)

            bench.runtime.in_thread = in_thread  # type: ignore[method-assign]
            outcome = bench.chain.on_request(bench.at, frame)
            assert isinstance(outcome, Awaitable)
            return await outcome

    records = [Record(offset=at, value=random.Random(at).randbytes(1_000)) for at in range(200)]
    partition = {"index": 0, "records": write_batches([RecordBatch(records, codec=Codec.ZSTD)])}
    asked = make("ProduceRequest", acks=-1, timeout_ms=5, topic_data=[{"name": "t", "partition_data": [partition]}])
    sent = asyncio.run(scenario(request_frame("ProduceRequest", 9, asked)))
    assert isinstance(sent, Send)
    assert len(threads) == 1 and threads[0].startswith("in_thread")
    (batch,) = read_records(records_in(sent.frame))
    assert [record.value for record in batch.records] == [record.value for record in records]
    assert {len(record.headers) for record in batch.records} == {3}
    assert bench.counted() == {}


def test_a_trace_for_each_request_unless_a_record_has_one() -> None:
    bench = Labelling(origin=None, client_id=None, principal=None, trace="traceparent")
    plain = [
        Record(value=b"a", headers=[("traceparent", b"own")]),
        Record(offset=1, value=b"b"),
        Record(offset=2, value=b"c"),
    ]
    records = write_batches([RecordBatch(plain)])
    (first,) = read_records(records_in(bench.forwarded(records)))
    (second,) = read_records(records_in(bench.forwarded(records)))
    assert first.records[0].headers == [("traceparent", b"own")]
    assert first.records[1].headers == first.records[2].headers != second.records[1].headers
    assert re.fullmatch(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-01", first.records[1].headers[0][1] or b"")


@pytest.mark.parametrize("magic", [0, 1])
def test_batches_that_have_no_headers_pass_and_are_counted(magic: int) -> None:
    bench = Labelling()
    assert bench.forwarded(field(magic=magic)) == bench.frame
    assert bench.counted() == {("unchanged", "are older than headers (magic 0 and 1)"): 3}
    assert len(bench.runtime.warnings) == 1


DAMAGED = field()[:-1] + bytes([field()[-1] ^ 1])
BOMB = write_batches([RecordBatch([Record(value=bytes(4 << 20))], codec=Codec.ZSTD)])  # 4 MiB in some 200 bytes


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (None, None),
        (b"", None),
        (b"nonsense", "cannot be read"),
        (field()[:-1], "cannot be read"),
        (field() + b"\0" * 5, "cannot be read"),
        (DAMAGED, "cannot be read"),
        (BOMB, "unpack to too much"),
    ],
)
def test_what_cannot_be_changed_passes_and_is_counted(records: bytes | None, why: str | None) -> None:
    bench = Labelling()
    for _ in range(2):
        assert bench.forwarded(records) == bench.frame
    assert bench.counted() == ({} if why is None else {("unchanged", why): 2})
    assert len(bench.runtime.warnings) == (why is not None)


def test_other_topics_pass_as_they_came() -> None:
    bench = Labelling(topics=["orders-*"])
    assert bench.forwarded(field(), "other") == bench.frame
    assert bench.forwarded(field(), "orders-1") != bench.frame


def test_only_produce_is_held() -> None:
    made = load_filter("headers", {})
    assert [key for key in range(93) if made.wants(Direction.REQUEST, key, 1) is Want.HOLD] == [0]
    assert [key for key in range(93) if made.wants(Direction.RESPONSE, key, 1) is Want.HOLD] == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"origin": ""}, "origin: the name of a header is empty"),
        ({"origin": None, "client_id": None, "principal": None}, "origin: it adds no header"),
        ({"fixed": {"": "x"}}, 'fixed: the header "" cannot be added: its name is empty'),
        ({"fixed": {"a": "x" * 1_025}}, 'fixed: the header "a" cannot be added: its value has 1,025 characters'),
        ({"topics": []}, "topics: the list is empty"),
    ],
)
def test_mistakes_in_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load_filter("headers", options)
