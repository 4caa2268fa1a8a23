"""Records of Fetch and ShareFetch responses that a filter changes where they lie.

It does so batch by batch (FieldChange), many of them in a thread, PART bytes of each response in turn. A batch that cannot be
changed is withheld with all that is behind it; what else of its partition has to say so, ``withhold`` changes.
"""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from kproxy.filters.contract import Edited, Replace, RequestFacts, Response, Runtime, Verdict
from kproxy.filters.large_records import TOO_LARGE, UNREADABLE, TakesLong
from kproxy.filters.turns import NotYet, retried
from kproxy.protocol import ApiKey
from kproxy.protocol.constants import FRAME_LIMIT, ZERO_UUID
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.found import RecordsField
from kproxy.protocol.records import Batch, Batches, read_batches
from kproxy.protocol.records.in_place import FrameEdit
from kproxy.protocol.records.limits import DEFAULT_LIMITS, Limits, NoRoom, TooLarge

PART = 262_144  # bytes of batches that are changed before another response has its turn
PATIENCE_S = 60.0  # of a large response, while others have their turns
SINCE_WHOLE = 3  # version of Fetch from which brokers send nothing of a batch that does not fit (KIP-74)
LOG_OVERHEAD = 12  # offset and size of a batch
MOST_GROWTH = DEFAULT_LIMITS.decompressed  # bytes by which a frame may grow


class Withheld(NamedTuple):
    """Why a batch is not given out, with all that is behind it."""

    reason: str
    error: int = ErrorCode.CORRUPT_MESSAGE  # what the client gets, if it is the first batch


def batches_in(field: RecordsField) -> Batches:
    """Return the batches of a records field."""
    return read_batches(field.message, start=field.start, end=field.start + field.size)


class FieldChange:
    """The records of a partition of a response; derived classes say how a batch changes.

    Args:
        field: where they lie.
        error: what the client gets in place of them; None: the changed records.

    Attributes:
        limits: what a batch may decompress to; other than DEFAULT_LIMITS: what goes beyond them takes too long.
        error: what the client gets in place of them, when they are changed.
        is_cut: batches are left out.
        has_ended: nothing is left to do.
    """

    def __init__(self, field: RecordsField, error: int | None = None) -> None:
        self.field = field
        self.limits = DEFAULT_LIMITS
        self.error = error
        self.is_cut = False
        self._done = 0  # batches
        self._has_begun = self.has_ended = False

    @cached_property
    def batches(self) -> Batches:
        return batches_in(self.field)

    @property
    def last_offset(self) -> int | None:
        """The offset of the last batch that the client gets; None: it gets none."""
        return self.batches[self._done - 1].last_offset if self._done else None

    @property
    def next_offset(self) -> int | None:
        """The offset of the batch that is not changed yet; None: there is none."""
        return self.batches[self._done].base_offset if self._done < len(self.batches) else None

    def change(self, batch: Batch, edit: FrameEdit) -> bytes | Withheld:
        """Return the bytes of the changed batch; empty: it was written to *edit*, or stays. Raises NotYet, TooLarge."""
        return b""

    def report(self, withheld: Withheld) -> None:
        """Note why batches are withheld."""

    def on_not_yet(self, is_late: bool) -> None:
        """Note that ``change`` has raised NotYet. *is_late*: it is called once more, and must not raise it again."""

    def go_on(self, edit: FrameEdit, request: RequestFacts, most: int = FRAME_LIMIT) -> None:
        """Change batches until *most* bytes of them are done, or the field ends.

        Raises NotYet, TakesLong. Called again, it goes on with the same batch.
        """
        if self.has_ended:
            return
        if not self._has_begun:
            self._has_begun = True
            edit.begin(self.field)
        if self.error is None and not self.batches:
            self._without_batch(edit, request)
            return
        while self.error is None and not self.is_cut and self._done < len(self.batches):
            if most <= 0:
                return
            batch = self.batches[self._done]
            most -= batch.size
            self._change(batch, edit)
        self._end(edit)

    def _change(self, batch: Batch, edit: FrameEdit) -> None:
        try:
            changed = self.change(batch, edit)
            if not isinstance(changed, Withheld):
                if changed:
                    edit.put(batch, changed)
                self._done += 1
                return
        except NoRoom:  # the client asks again from here on
            self.is_cut = True
        except TooLarge:
            if self.limits is not DEFAULT_LIMITS:
                raise TakesLong from None
            self.withhold(Withheld(TOO_LARGE))
        else:
            self.withhold(changed)

    def withhold(self, withheld: Withheld) -> None:
        """Leave out the batches that are not changed yet."""
        self.report(withheld)
        self.is_cut = True
        self.error = None if self._done else withheld.error

    def _end(self, edit: FrameEdit) -> None:
        """End the field; what follows its last complete batch is left out."""
        self.has_ended = True
        if self._done:
            last = self.batches[self._done - 1]
            edit.end(last.position + last.size)
        else:
            edit.empty()

    def _without_batch(self, edit: FrameEdit, request: RequestFacts) -> None:
        """Give out what brokers give to clients if there is no complete batch: see ReplicaManager.readFromLog."""
        tail = self.batches.tail
        if tail is None or tail.kind == "error":
            self.withhold(Withheld(UNREADABLE))
        elif request.api_key == ApiKey.FETCH and request.api_version < SINCE_WHOLE:
            # Old clients learn from the beginning of a batch that they have to ask for more bytes
            edit.end(self.field.start + min(LOG_OVERHEAD, self.field.size))
            self.has_ended = True
            return
        self._end(edit)


def are_changed_at_once(edit: FrameEdit, request: RequestFacts, changes: Sequence[FieldChange], limits: Limits) -> bool:
    """Change records under these limits; return False if that takes long, or has to wait: they can go on then."""
    for change in changes:
        change.limits = limits
    try:
        for change in changes:
            change.go_on(edit, request)
    except (NotYet, TakesLong):
        for change in changes:
            change.limits = DEFAULT_LIMITS
        return False
    return True


async def change_in_turns(
    runtime: Runtime, until: float, edit: FrameEdit, request: RequestFacts, changes: Sequence[FieldChange]
) -> bytes:
    """Return the frame with its records changed in a thread, in turns with those of other responses.

    *until*: the time of ``runtime.monotonic`` from which on nothing is waited for.
    """

    async def finish(change: FieldChange, is_late: bool) -> None:
        go_on = partial(change.go_on, edit, request, PART)
        while not change.has_ended:
            try:
                await runtime.in_thread(go_on)
            except NotYet:
                change.on_not_yet(is_late)
                if not is_late:
                    raise

    for change in changes:
        await retried(runtime, until, partial(finish, change))
    frame: bytes = await runtime.in_thread(edit.finish)
    return frame


def given_out(frame: bytes, request: RequestFacts, changes: Sequence[FieldChange]) -> Edited:
    """Return the verdict on a response whose records are changed."""
    is_shared = request.api_key == ApiKey.SHARE_FETCH
    others = [one for one in changes if one.error is not None or (one.is_cut and is_shared)]
    return Edited(frame, partial(_withhold, others) if others else None)


def place_of(topic: str | None, topic_id: str | None, partition: int) -> tuple[str, int]:
    """Return what tells a partition from the others of a message: the name of its topic, or its id, and the number."""
    return topic or ("" if topic_id is None or topic_id == ZERO_UUID else topic_id), partition


def _withhold(changes: Sequence[FieldChange], response: Response) -> Verdict:
    """Say in the partitions of a response which records are withheld."""
    by_place = {place_of(one.field.topic, one.field.topic_id, one.field.partition): one for one in changes}
    message: Any = response.message
    for topic in message.responses:
        name, topic_id = getattr(topic, "topic", None), getattr(topic, "topic_id", None)
        for partition in topic.partitions:
            change = by_place.get(place_of(name, topic_id, partition.partition_index))
            if change is None:
                continue
            if change.error is not None:
                partition.error_code, partition.records = change.error, b""
            if response.request.api_key == ApiKey.SHARE_FETCH:
                last_offset = None if change.error is not None else change.last_offset
                partition.acquired_records = _up_to(partition.acquired_records, last_offset)
    return Replace(message)


def _up_to(acquired: list[Any], last_offset: int | None) -> list[Any]:
    """Return the acquired records (KIP-932) up to an offset; records behind it would count as consumed."""
    kept = [each for each in acquired if last_offset is not None and each.first_offset <= last_offset]
    for each in kept:
        each.last_offset = min(each.last_offset, last_offset)
    return kept
