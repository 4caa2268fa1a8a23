"""Read trace contexts in the headers of records: W3C Trace Context (traceparent) and Zipkin's B3, single and multiple.

A producer that is traced puts the context of its span there (OpenTelemetry's and Zipkin's instrumentations of Kafka clients).
Names are compared without regard to case. A malformed header counts as no context, as both specifications demand.
"""

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from kproxy.protocol.records import Limits, open_batches, read_batches
from kproxy.protocol.records.in_place import find_headers

MIB = 1 << 20
LIMITS = Limits(decompressed=4 * MIB, total=4 * MIB)  # for one records field
MOST_READ = 4 * MIB  # compressed bytes of records read from one request or response
MOST_RECORDS = 4_096  # records with a context read from one request or response

TRACEPARENT, B3 = b"traceparent", b"b3"
B3_TRACE, B3_SPAN, B3_SAMPLED, B3_FLAGS = b"x-b3-traceid", b"x-b3-spanid", b"x-b3-sampled", b"x-b3-flags"
NAMES = (TRACEPARENT, B3, B3_TRACE, B3_SPAN, B3_SAMPLED, B3_FLAGS)
# version "ff" is invalid; one above 00 may have more behind a dash
W3C = re.compile(rb"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
SINGLE = re.compile(rb"([0-9a-f]{16}|[0-9a-f]{32})-([0-9a-f]{16})(?:-([01d]))?(?:-[0-9a-f]{16})?")
TRACE_ID = re.compile(rb"[0-9a-f]{16}|[0-9a-f]{32}")
SPAN_ID = re.compile(rb"[0-9a-f]{16}")
SAMPLED = {b"1": True, b"d": True, b"true": True, b"0": False, b"false": False}


class TraceContext(Struct, frozen=True):
    """The identity of another program's span."""

    trace_id: bytes  # 16 bytes, not all 0
    span_id: bytes  # 8 bytes, not all 0
    sampled: bool | None  # None: the sender leaves the decision to others (B3)


def read_context(headers: Mapping[bytes, bytes]) -> TraceContext | None:
    """Return the context in the headers of a record (names in lower case); traceparent wins over b3, and b3 over X-B3-…."""
    return _of_w3c(headers.get(TRACEPARENT)) or _of_single(headers.get(B3)) or _of_several(headers)


def find_contexts(fields: Iterable[bytes]) -> list[TraceContext]:
    """Return the distinct contexts in records fields, in their order. Bounded by the constants above; never raises."""
    distinct: dict[tuple[bytes, bytes], TraceContext] = {}
    left, records = MOST_READ, MOST_RECORDS
    for data in fields:
        left -= len(data)
        if left < 0 or records <= 0:
            break
        for opened in open_batches(read_batches(data), LIMITS):
            headers = [] if opened.batch.magic < 2 else find_headers(opened, NAMES, records)
            records -= len(headers)
            for context in filter(None, map(read_context, headers)):
                distinct.setdefault((context.trace_id, context.span_id), context)
    return list(distinct.values())


def _of_w3c(value: bytes | None) -> TraceContext | None:
    match = None if value is None else W3C.fullmatch(value.strip(b" \t"))
    if match is None or (match[5] is not None and match[1] == b"00"):
        return None
    return _made(match[2], match[3], bool(int(match[4], 16) & 1))


def _of_single(value: bytes | None) -> TraceContext | None:
    match = None if value is None else SINGLE.fullmatch(value.strip(b" \t").lower())
    return None if match is None else _made(match[1], match[2], None if match[3] is None else SAMPLED[match[3]])


def _of_several(headers: Mapping[bytes, bytes]) -> TraceContext | None:
    trace_id, span_id = headers.get(B3_TRACE, b"").lower(), headers.get(B3_SPAN, b"").lower()
    if not TRACE_ID.fullmatch(trace_id) or not SPAN_ID.fullmatch(span_id):
        return None
    debug = headers.get(B3_FLAGS) == b"1"
    return _made(trace_id, span_id, True if debug else SAMPLED.get(headers.get(B3_SAMPLED, b"").lower()))


def _made(trace_id: bytes, span_id: bytes, sampled: bool | None) -> TraceContext | None:
    trace, span = bytes.fromhex(trace_id.decode().rjust(32, "0")), bytes.fromhex(span_id.decode())
    return TraceContext(trace, span, sampled) if any(trace) and any(span) else None
