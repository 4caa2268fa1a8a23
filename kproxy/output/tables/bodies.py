"""Bodies as objects, for the tables; one that is too large to be taken apart is left alone."""

from dataclasses import dataclass

from kproxy.errors import DecodeError
from kproxy.output.tables.gather import Found, gather, plan_of
from kproxy.protocol import Message
from kproxy.protocol.structs import MessageStruct
from kproxy.session import Frame

LARGEST = 16 * 1024 * 1024  # bytes; as objects a body can be many times its size
WITH_RECORDS = frozenset({"ProduceRequest", "FetchResponse", "ShareFetchResponse", "FetchSnapshotResponse"})


@dataclass(slots=True)
class Body:
    """One body that was read."""

    message: Message
    version: int
    struct: MessageStruct

    def gather(self, found: Found) -> None:
        """Add what it holds to *found*."""
        gather(plan_of(self.message.name, self.version), self.struct, found)


def read_body(frame: Frame | None) -> tuple[Body | None, str | None]:
    """The body of a frame, or why there is none although the frame is; (None, None) where no frame is, or none of it read."""
    if frame is None:
        return None, None
    if frame.unread:
        return None, None
    message = frame.message
    if message is None or frame.error is not None:
        return None, str(frame.error) if frame.error is not None else "nothing is known about its layout"
    if len(frame.data) > LARGEST and message.name not in WITH_RECORDS:
        return None, f"{message.name} has {len(frame.data):,} bytes: one of more than {LARGEST:,} is not taken apart"
    try:
        struct = message.decode(frame.body_version, frame.data, frame.body_start)
    except DecodeError as error:
        return None, str(error)
    return Body(message, frame.body_version, struct), None


def json_of(frame: Frame | None) -> bytes | None:
    """Kafka's JSON of the body, credentials withheld; None where there is none."""
    if frame is not None and frame.unread:
        return b"{}"
    if frame is None or frame.message is None or frame.error is not None:
        return None
    try:
        return frame.message.to_json(frame.body_version, frame.data, frame.body_start, withhold=True)
    except DecodeError:
        return None
