"""Bytes to Kafka's JSON, straight into a buffer."""

from kproxy.protocol.program import Program

def to_json(program: Program, data: bytes, start: int = 0, withhold: bool = False) -> bytes:
    """The JSON text (UTF-8) of a message that fills *data* from *start* on.

    With *withhold*, fields that carry credentials become the string "(withheld)". Raises DecodeError.
    """
