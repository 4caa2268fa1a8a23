"""Trace contexts, by the examples and the rules of W3C Trace Context and of Zipkin's b3-propagation."""

import pytest

from kproxy.output.trace_context import TraceContext, find_contexts, read_context
from kproxy.protocol.records.compression import Codec, compress
from tests.support.record_batches import batch, record
from tests.support.traced import PARENT, SPAN, TRACE, headers_of, records_of

BYTES = bytes.fromhex(TRACE), bytes.fromhex(SPAN)
SHORT = "00" * 8 + TRACE[16:]


@pytest.mark.parametrize(
    ("value", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"00-{TRACE}-{SPAN}-02", False),
        (f"cc-{TRACE}-{SPAN}-01", True),  # a later version
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
    ],
)
def test_traceparent(value: str, sampled: bool) -> None:
    assert read_context({b"traceparent": value.encode()}) == TraceContext(*BYTES, sampled)


@pytest.mark.parametrize(
    "value",
    [
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01.what",
        "",
        "00-" + "é" * 32,
    ],
)
def test_what_is_malformed_is_no_context(value: str) -> None:
    assert read_context({b"traceparent": value.encode()}) is None


@pytest.mark.parametrize(
    ("value", "trace", "sampled"),
    [
        (f"{TRACE}-{SPAN}-1", TRACE, True),
        (f"{TRACE}-{SPAN}-d", TRACE, True),
        (f"{TRACE}-{SPAN}-0", TRACE, False),
        (f"{TRACE}-{SPAN}", TRACE, None),
        (f"{TRACE}-{SPAN}-1-05e3ac9a4f6e3b90", TRACE, True),
        (f"{TRACE[16:]}-{SPAN}-1", SHORT, True),
    ],
)
def test_single_b3(value: str, trace: str, sampled: bool | None) -> None:
    assert read_context({b"b3": value.encode()}) == TraceContext(bytes.fromhex(trace), BYTES[1], sampled)


@pytest.mark.parametrize("value", ["0", "1", "d", f"{TRACE}", f"{TRACE}-{SPAN}-2", f"{TRACE}-{SPAN}-1-"])
def test_a_single_b3_without_ids_is_no_context(value: str) -> None:
    assert read_context({b"b3": value.encode()}) is None


def test_b3_in_several_headers() -> None:
    ids = {b"x-b3-traceid": TRACE.encode(), b"x-b3-spanid": SPAN.encode()}
    assert read_context(ids) == TraceContext(*BYTES, None)
    assert read_context({**ids, b"x-b3-sampled": b"1"}) == TraceContext(*BYTES, True)
    assert read_context({**ids, b"x-b3-sampled": b"0"}) == TraceContext(*BYTES, False)
    assert read_context({**ids, b"x-b3-flags": b"1"}) == TraceContext(*BYTES, True)
    assert read_context({b"x-b3-traceid": TRACE.encode()}) is None


def test_traceparent_comes_before_b3() -> None:
    assert read_context({b"traceparent": PARENT, b"b3": f"{SHORT}-{SPAN}-0".encode()}) == TraceContext(*BYTES, True)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_records_are_decompressed(codec: Codec) -> None:
    packed = compress(codec, record(None, b"v", 0, headers_of([("traceparent", PARENT)])))
    assert find_contexts([batch(packed, 1, attributes=int(codec))]) == [TraceContext(*BYTES, True)]


def test_each_context_is_found_once_and_what_is_too_large_is_not_read() -> None:
    other = ("b3", f"{SHORT}-{SPAN}".encode())
    data = records_of([("traceparent", PARENT)], [("traceparent", PARENT)], [other], [])
    assert [context.sampled for context in find_contexts([data, data])] == [True, None]
    bomb = batch(compress(Codec.ZSTD, bytes(64 << 20)), 1, attributes=int(Codec.ZSTD))
    assert len(find_contexts([bomb, data, b"no batch", b""])) == 2
    assert find_contexts([bytes(5 << 20), data]) == []
