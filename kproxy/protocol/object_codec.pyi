"""Messages as objects: ``decode`` makes one instance a struct (kproxy.protocol.structs), ``encode`` writes its bytes again."""

from kproxy.protocol.program import Program
from kproxy.protocol.structs import MessageStruct

def decode(program: Program, data: bytes, start: int = 0, trailing: int = 0) -> MessageStruct: ...
def encode(program: Program, message: MessageStruct) -> bytes: ...
