"""Records of Fetch and ShareFetch responses that a filter changes.

It does so batch by batch (change_fetched), many of them in a thread, PART bytes of each response in turn. A batch that cannot be
changed is withheld with all that is behind it (give).
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from kproxy.filters.contract import RequestFacts, Response
from kproxy.filters.large_records import UNREADABLE
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.records import Batch, Batches, read_batches

PART = 262_144  # bytes of batches that are changed before another response has its turn
PATIENCE_S = 60.0  # of a large response, while others have their turns
SINCE_WHOLE = 3  # version of Fetch from which brokers send nothing of a batch that does not fit (KIP-74)
LOG_OVERHEAD = 12  # offset and size of a batch


class Withheld(NamedTuple):
    """Why a batch is not given out, with all that is behind it."""

    reason: str
    error: int = ErrorCode.CORRUPT_MESSAGE  # what the client gets, if it is the first batch


class Changed(NamedTuple):
    """A records field after its change."""

    records: bytes
    last_offset: int | None = None  # of the last batch in it, if batches behind it were left out
    error: int | None = None  # there is no batch that could be given out


ChangeBatch = Callable[[Batch], bytes | Withheld]
# Yields functions that take long and may be called in a thread; gets their results; returns the changed records
Steps = Generator[Callable[[], list[bytes | Withheld]], list[bytes | Withheld], Changed]


def topic_name(topic: Any, names: Any) -> str | None:
    """Return the name of a topic of a response; None for an id that is not in *names* (Filter.topic_names)."""
    name: str | None = getattr(topic, "topic", None) or names.get(getattr(topic, "topic_id", ""))
    return name


def withhold_unknown(message: Any, names: Any) -> bool:
    """Remove the records of topics whose name is not known from a response; return whether there were any."""
    withheld = False
    for topic in message.responses:
        if topic_name(topic, names) is None:
            for partition in topic.partitions:
                if partition.records:
                    partition.error_code, partition.records = ErrorCode.UNKNOWN_TOPIC_ID, b""
                    if hasattr(partition, "acquired_records"):
                        partition.acquired_records = []
                    withheld = True
    return withheld


def change_fetched(
    records: bytes, request: RequestFacts, change: ChangeBatch, report: Callable[[Withheld], None]
) -> Steps:
    """Change the batches of a records field; it is the same object if all stay. What follows the last complete batch is left out.

    Args:
        records: the field.
        request: of the response.
        change: changes one batch, and returns the same bytes where it stays; called in a thread, perhaps.
        report: called with the reason why batches are withheld.
    """
    batches = read_batches(records)
    if not batches:
        return _without_batch(batches, records, request, report)
    parts: list[bytes] = []
    changed = batches.tail is not None
    for some in _in_parts(batches):
        made = yield partial(_change, some, change)
        for batch, new in zip(some, made, strict=False):
            if isinstance(new, Withheld):
                report(new)
                last = batches[len(parts) - 1].last_offset if parts else None
                return Changed(b"".join(parts), last, None if parts else new.error)
            changed |= len(new) != batch.size or new != batch.raw
            parts.append(new)
    return Changed(b"".join(parts) if changed else records)


def _change(batches: list[Batch], change: ChangeBatch) -> list[bytes | Withheld]:
    """Change batches, up to the first that cannot be changed."""
    made: list[bytes | Withheld] = []
    for batch in batches:
        made.append(change(batch))
        if isinstance(made[-1], Withheld):
            break
    return made


def _without_batch(
    batches: Batches, records: bytes, request: RequestFacts, report: Callable[[Withheld], None]
) -> Changed:
    """Return what brokers give to clients if there is no complete batch: see ReplicaManager.readFromLog."""
    if batches.tail is None or batches.tail.kind == "error":
        report(Withheld(UNREADABLE))
        return Changed(b"", error=ErrorCode.CORRUPT_MESSAGE)
    is_old = request.api_key == ApiKey.FETCH and request.api_version < SINCE_WHOLE
    # Old clients learn from the beginning of a batch that they have to ask for more bytes
    return Changed(records[:LOG_OVERHEAD] if is_old else b"")


def _in_parts(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Yield the batches, some at a time."""
    some: list[Batch] = []
    size = 0
    for batch in batches:
        some.append(batch)
        size += batch.size
        if size >= PART:
            yield some
            some, size = [], 0
    if some:
        yield some


def at_once(steps: Steps) -> Changed:
    """Run all steps in this thread, and return the result."""
    try:
        step = next(steps)
        while True:
            step = steps.send(step())
    except StopIteration as finished:
        changed: Changed = finished.value
        return changed


async def in_turns(steps: Steps, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]) -> Changed:
    """Run the steps in a thread, in turns with those of other responses, and return the result."""
    try:
        step = next(steps)
        while True:
            step = steps.send(await in_thread(step))
    except StopIteration as finished:
        changed: Changed = finished.value
        return changed


def give(response: Response, partition: Any, changed: Changed) -> bool:
    """Put changed records into a partition of a response; return whether it differs now."""
    if changed.error is not None:
        partition.error_code = changed.error
    if response.request.api_key == ApiKey.SHARE_FETCH and (
        changed.error is not None or changed.last_offset is not None
    ):
        partition.acquired_records = _up_to(partition.acquired_records, changed.last_offset)
    differs = changed.records is not partition.records or changed.error is not None
    partition.records = changed.records
    return differs


def _up_to(acquired: list[Any], last_offset: int | None) -> list[Any]:
    """Return the acquired records (KIP-932) up to an offset; records behind it would count as consumed."""
    kept = [each for each in acquired if last_offset is not None and each.first_offset <= last_offset]
    for each in kept:
        each.last_offset = min(each.last_offset, last_offset)
    return kept
