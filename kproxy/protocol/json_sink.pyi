"""Bytes to Kafka's JSON, straight into a buffer."""

from kproxy.errors import DecodeError
from kproxy.protocol.program import Program

def to_json(program: Program, data: bytes, start: int = 0, withhold: bool = False, trailing: int = 0) -> bytes: ...
def beginning(
    program: Program, data: bytes, start: int = 0, withhold: bool = False
) -> tuple[bytes, str | None, dict[str, int], int, int, tuple[tuple[type[DecodeError], str], int] | None]: ...
