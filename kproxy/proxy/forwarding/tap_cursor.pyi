from typing import Self, final

from kproxy.proxy.tap.counters import Counters
from kproxy.proxy.tap.ring import TapWriter

class WorkerTap:
    def __new__(cls, ring: TapWriter, counters: Counters) -> Self: ...
    @property
    def ring(self) -> TapWriter: ...
    @property
    def faults(self) -> int: ...

class LinkTap:
    def __new__(cls, worker: WorkerTap | None, number: int) -> Self: ...

@final
class TapCursor:
    def __new__(cls, link: LinkTap, direction: int) -> Self: ...
