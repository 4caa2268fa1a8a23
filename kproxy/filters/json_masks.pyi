from collections.abc import Sequence

from kproxy.filters.json_paths import State
from kproxy.protocol.records.replacing import Editor

class JsonMask(Editor):
    def __init__(self, states: Sequence[State], replacement: bytes | None, blanks: bool = False) -> None: ...
