"""Messages as objects: ``decode`` makes one instance a struct (kproxy.protocol.structs), ``encode`` writes its bytes again."""

from kproxy.protocol.program import Program
from kproxy.protocol.structs import MessageStruct

def decode(program: Program, data: bytes, start: int = 0, trailing: int = 0) -> MessageStruct: ...
def encode(program: Program, message: MessageStruct) -> bytes: ...
def release(program: Program, message: MessageStruct) -> None:
    """Free what only *message* refers to, piece by piece; the message is of no use afterwards."""

def give_way() -> None:
    """Have this thread give way to others while it decodes or encodes; one thread of a process can."""
