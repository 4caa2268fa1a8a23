"""Headers: adds headers to produced records that say where they come from (KIP-82).

Only Produce requests are held. The records of a batch get new headers and the batch a new size and CRC; nothing else changes.
"""

import random
from functools import partial
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from kproxy.filters.contract import Filter, Forward, Replace, Request, Verdict
from kproxy.filters.large_records import TOO_LARGE, TOO_OLD, UNREADABLE, BatchCounts, take_long
from kproxy.filters.matching import matches
from kproxy.options import OptionMistakes, Options, quoted, text
from kproxy.protocol import ApiKey
from kproxy.protocol.constants import uvarint
from kproxy.protocol.records import read_batches
from kproxy.protocol.records.editing import change_plain
from kproxy.protocol.records.in_place import insert_headers
from kproxy.protocol.records.limits import TooLarge

COUNT_AT, HEADER_SIZE = 57, 61  # of a batch of magic 2
MAGIC_WITH_HEADERS = 2
TRACE_BYTES, SPAN_BYTES = 16, 8
LONGEST = 1_024  # characters of a value
PATIENCE_S = 60.0  # of a large request, while others have their turns


class HeadersOptions(Options, frozen=True):
    """Options of headers. Each value is the name of a header; null: it is not added."""

    origin: Annotated[str | None, text('Header with the client\'s address, "host:port".')] = "kproxy-origin"
    client_id: Annotated[str | None, text("Header with the client id.")] = "kproxy-client-id"
    principal: Annotated[str | None, text("Header with the principal, where it is known.")] = "kproxy-principal"
    cluster: Annotated[str | None, text("Header with the name of the virtual cluster.")] = None
    trace: Annotated[
        str | None,
        text(
            "Header with a trace context (W3C), one for each request; records that have a header of this name keep theirs. "
            "Usually traceparent."
        ),
    ] = None
    fixed: Annotated[dict[str, str] | None, text("Headers with fixed values, by name.")] = None
    topics: Annotated[
        Annotated[tuple[str, ...], Meta(min_length=1)], text('Topics by name or pattern ("orders-*").')
    ] = ("*",)

    def __post_init__(self) -> None:
        named = {name: getattr(self, name) for name in ("origin", "client_id", "principal", "cluster", "trace")}
        problems = [
            (name, "the name of a header is empty: write null to add none") for name, it in named.items() if it == ""
        ]
        for name, value in (self.fixed or {}).items():
            if not name or len(value) > LONGEST:
                reason = (
                    f"its value has {len(value):,} characters, and {LONGEST:,} are the most"
                    if name
                    else "its name is empty"
                )
                problems.append(("fixed", f"the header {quoted(name)} cannot be added: {reason}"))
        if not problems and not self.fixed and not any(named.values()):
            problems.append(("origin", "it adds no header: every name is null"))
        if problems:
            raise OptionMistakes(problems)


class Headers(Filter):
    """Add headers to every record that is produced: origin, client id, principal, trace.

    The codec, offsets, times, sequence numbers and everything else in a batch stay. Three kinds of batches pass as they came:
    those of magic 0 and 1, which have no headers; those that cannot be read, which the broker refuses; and those that unpack to
    more than 64 MiB or 1,000 times their size, which a broker takes. So a client that wants to can produce without these
    headers. They are counted at /metrics and /filters of the admin port, by reason, and the first of each is logged.
    A batch grows by some bytes for each record: see the broker's message.max.bytes.
    """

    name = "headers"
    requests = (ApiKey.PRODUCE,)
    identifies = True
    timeout = PATIENCE_S
    Options = HeadersOptions

    def __init__(self, options: HeadersOptions) -> None:
        self.options = options
        self.names_topics = options.topics != ("*",)
        self._unchanged = BatchCounts(self.name, "unchanged", "they pass as they came, without these headers")
        self._random = random.SystemRandom()

    def on_request(self, request: Request) -> Verdict | Any:
        """Add the headers to each batch of the chosen topics."""
        message: Any = request.message
        added = Added(*self._headers(request), *self._trace())
        partitions = [
            partition
            for topic in message.topic_data
            if self._is_chosen(topic)
            for partition in topic.partition_data
            if partition.records
        ]
        if take_long([partition.records for partition in partitions]):
            return self._rewrite_in_turns(message, partitions, added)
        rewritten = [self._put(partition, _rewritten(partition.records, added)) for partition in partitions]
        return Replace(message) if any(rewritten) else Forward()

    async def _rewrite_in_turns(self, message: Any, partitions: list[Any], added: "Added") -> Verdict:
        """Rewrite many records in a thread, in turns with other requests, while other connections go on."""
        changed = False
        for partition in partitions:
            rewritten = await self.runtime.in_thread(partial(_rewritten, partition.records, added))
            changed |= self._put(partition, rewritten)
        return Replace(message) if changed else Forward()

    def _put(self, partition: Any, rewritten: "Rewritten") -> bool:
        """Store rewritten records in a partition; return whether they differ. Batches that could not be changed are counted."""
        for reason in rewritten.unchanged:
            self._unchanged.add(self.runtime, reason)
        is_new = rewritten.records is not partition.records
        partition.records = rewritten.records
        return is_new

    def _is_chosen(self, topic: Any) -> bool:
        patterns = self.options.topics
        if patterns == ("*",):
            return True
        name = getattr(topic, "name", None) or self.topic_names.get(getattr(topic, "topic_id", ""))
        return name is not None and matches(name, patterns)

    def _headers(self, request: Request) -> tuple[bytes, int]:
        """Return the headers that all records of a request get, encoded, and how many these are."""
        options, connection = self.options, request.connection
        values = [
            (options.origin, connection.client),
            (options.client_id, request.client_id),
            (options.principal, connection.principal),
            (options.cluster, connection.cluster),
            *(options.fixed or {}).items(),
        ]
        encoded = [_encoded(name, value) for name, value in values if name is not None and value is not None]
        return b"".join(encoded), len(encoded)

    def _trace(self) -> tuple[bytes | None, bytes]:
        name = self.options.trace
        if name is None:
            return None, b""
        trace, span = self._random.randbytes(TRACE_BYTES).hex(), self._random.randbytes(SPAN_BYTES).hex()
        return name.encode(), _encoded(name, f"00-{trace}-{span}-01")


class Added(NamedTuple):
    """The headers that are added to records."""

    headers: bytes  # encoded
    number: int  # how many these are
    own_name: bytes | None  # name of the header that is added only to records without it
    own: bytes  # that header, encoded


class Rewritten(NamedTuple):
    """A records field with headers added."""

    records: bytes
    unchanged: list[str]  # for each batch without the headers, why it could not be changed


def _rewritten(records: bytes, added: Added) -> Rewritten:
    """Add the headers to each batch; the records are the same object if no batch was changed."""
    batches = read_batches(records)
    if batches.tail is not None:
        return Rewritten(records, [UNREADABLE])
    parts, unchanged = [], []
    for batch in batches:
        try:
            count = int.from_bytes(batch.raw[COUNT_AT:HEADER_SIZE], "big", signed=True)
            new, reason = change_plain(batch, partial(_inserted, count, added)), UNREADABLE
        except TooLarge:
            new, reason = None, TOO_LARGE
        if new is None:
            unchanged.append(TOO_OLD if batch.magic < MAGIC_WITH_HEADERS else reason)
        parts.append(batch.raw if new is None else new)
    return Rewritten(b"".join(parts) if len(unchanged) < len(parts) else records, unchanged)


def _inserted(records: int, added: Added, plain: bytes) -> bytes | None:
    return insert_headers(plain, records, *added)


def _encoded(name: str, value: str) -> bytes:
    """Encode a header as DefaultRecord does, with sizes as zigzag varints."""
    parts = name.encode(), value[:LONGEST].encode("utf-8", "surrogateescape")
    return b"".join(uvarint(len(part) << 1) + part for part in parts)
