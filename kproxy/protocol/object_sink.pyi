"""Bytes to objects: one instance a struct (kproxy.protocol.structs)."""

from kproxy.protocol.program import Program
from kproxy.protocol.structs import MessageStruct

def decode(program: Program, data: bytes, start: int = 0) -> MessageStruct:
    """The object of a message that fills *data* from *start* on. Raises DecodeError."""
