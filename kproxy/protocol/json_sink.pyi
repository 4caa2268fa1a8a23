"""Bytes to Kafka's JSON, straight into a buffer."""

from kproxy.protocol.program import Program

def to_json(program: Program, data: bytes, start: int = 0, withhold: bool = False, trailing: int = 0) -> bytes: ...
