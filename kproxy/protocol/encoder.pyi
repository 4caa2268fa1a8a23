"""Objects to bytes, as Kafka writes them."""

from kproxy.protocol.program import Program
from kproxy.protocol.structs import MessageStruct

def encode(program: Program, message: MessageStruct) -> bytes:
    """The bytes of *message* at the program's version. Raises EncodeError."""
