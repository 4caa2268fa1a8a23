from typing import final

from kproxy.proxy.tap.counters import Counters
from kproxy.proxy.tap.ring import TapWriter

class WorkerTap:
    def __init__(self, ring: TapWriter, counters: Counters) -> None: ...
    @property
    def ring(self) -> TapWriter: ...
    @property
    def faults(self) -> int: ...

class LinkTap:
    def __init__(self, worker: WorkerTap | None, number: int) -> None: ...

@final
class TapCursor:
    def __init__(self, link: LinkTap, direction: int) -> None: ...
