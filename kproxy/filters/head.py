"""The head of a response: its first fields up to the last address, read by themselves and written to any size.

The rest of the response follows as it arrives, so that a Metadata response of any size is rewritten with only its brokers in
memory. The tag section is at the end, and so never part of a head.
"""

import functools

from msgspec.structs import replace

from kproxy.filters.addresses import head_end, layout_of, untagged
from kproxy.protocol import MessageStruct
from kproxy.protocol.object_codec import decode, encode
from kproxy.protocol.program import Program
from kproxy.protocol.secrets import secrecy
from kproxy.protocol.structs import struct_types

NO_TAGS = b"\0"


def read_head(api_key: int, api_version: int, head: bytes) -> MessageStruct:
    """Decode the first fields of a response, up to where ``head_end`` says. Raises DecodeError."""
    program, end = _program(api_key, api_version)
    return decode(program, head + end)


def write_head(api_key: int, api_version: int, message: MessageStruct) -> bytes:
    """Encode the first fields of *message*. Raises EncodeError."""
    program, end = _program(api_key, api_version)
    data = encode(program, message)
    return data[: len(data) - len(end)]


@functools.cache
def _program(api_key: int, api_version: int) -> tuple[Program, bytes]:
    """Return the program for the fields of the head, and the bytes it expects behind them: an empty tag section, if any."""
    layout, last = layout_of(api_key, api_version), head_end(api_key, api_version)
    fields = untagged(layout, api_version)
    kept = fields[: [field.json_name for field in fields].index(last or "")]
    program = Program(replace(layout, fields=tuple(kept)), api_version, struct_types(layout.name), secrecy)
    return program, NO_TAGS if api_version in layout.flexible else b""
