"""Bodies as objects, for the tables; one that is too large to be taken apart is left alone."""

from kproxy.output.tables.gather import Found
from kproxy.protocol import Message
from kproxy.protocol.structs import MessageStruct
from kproxy.session import Frame

LARGEST: int  # bytes; as objects a body can be many times its size
WITH_RECORDS: frozenset[str]  # messages that are taken apart however large: nearly all of it are records

class Body:
    """One body that was read: a message at a version, and the object."""

    def __init__(self, message: Message, version: int, struct: MessageStruct) -> None: ...
    @property
    def message(self) -> Message: ...
    @property
    def version(self) -> int: ...
    @property
    def struct(self) -> MessageStruct: ...
    def gather(self, found: Found) -> None:
        """Add what it holds to *found*."""

def read_body(frame: Frame | None) -> tuple[Body | None, str | None]:
    """The body of a frame, or why there is none although the frame is; (None, None) where no frame is, or none of it read."""

def json_of(frame: Frame | None) -> bytes | None:
    """Kafka's JSON of the body, credentials withheld; None where there is none."""
