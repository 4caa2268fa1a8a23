"""A walk over a message that comes in pieces and is not kept: it remembers where it is, not what it saw."""

from collections.abc import Iterable

from kproxy.protocol.program import Program

def stop_of(program: Program, name: str | None) -> int:
    """The top-level step that reads the untagged field *name* (Kafka's JSON name); -1, the tags, for None.

    Raises KeyError.
    """

def walk_in_pieces(
    program: Program, stop: str | None, pieces: Iterable[bytes], client_id: bool = False, header_tags: bool = False
) -> tuple[str, int]:
    """Walk over *pieces* as a lane does: ("more", "stopped", "done" or "fault"; bytes it used). For tests."""
