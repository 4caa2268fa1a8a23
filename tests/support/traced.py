"""Produce and Fetch exchanges whose records have headers, written by hand."""

from struct import pack

from kproxy.session import Exchange
from tests.support.conversation import broker, client, events_of
from tests.support.frames import array, request, response, string
from tests.support.record_batches import batch, record, sized, varint

Headers = list[tuple[str, bytes | None]]
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"  # of the specification's examples
PARENT = f"00-{TRACE}-{SPAN}-01".encode()


def headers_of(headers: Headers) -> bytes:
    """The headers of a record, their count first."""
    pairs = (sized(name.encode()) + sized(value) for name, value in headers)
    return varint(len(headers)) + b"".join(pairs)


def records_of(*headers: Headers) -> bytes:
    """A batch with a record for each list of headers."""
    records = (record(b"k", b"v", at, headers_of(each)) for at, each in enumerate(headers))
    return batch(b"".join(records), len(headers))


def produce_exchange(*fields: bytes, topic: str = "orders", error: int = 0, acks: int = -1) -> Exchange:
    """Produce v7 of a topic; a records field for each partition, from 0."""
    partitions = (pack(">ii", at, len(data)) + data for at, data in enumerate(fields))
    body = string(None) + pack(">hi", acks, 30_000) + array(string(topic) + array(*partitions))
    sent = client >> request(0, 7, 5, body)
    answers = (pack(">ihqqq", at, error, 41 + at, -1, 0) for at in range(len(fields)))
    answered = broker >> response(5, array(string(topic) + array(*answers)) + pack(">i", 0))
    events = events_of(sent, answered) if acks else events_of(sent)
    [exchange] = [event for event in events if isinstance(event, Exchange)]
    return exchange


def fetch_exchange(data: bytes, topic: str = "orders", partition: int = 3) -> Exchange:
    """Fetch v4 of a partition, in a response with these records."""
    asked = array(string(topic) + array(pack(">iqi", partition, 7, 1 << 20)))
    sent = client >> request(1, 4, 6, pack(">iiiib", -1, 500, 1, 1 << 20, 0) + asked)
    brought = pack(">ihqq", partition, 0, 8, 8) + array() + pack(">i", len(data)) + data
    answered = broker >> response(6, pack(">i", 0) + array(string(topic) + array(brought)))
    [exchange] = [event for event in events_of(sent, answered) if isinstance(event, Exchange)]
    return exchange
