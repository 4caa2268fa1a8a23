from kproxy.proxy.tap.tapped import TapItem

SMALLEST_RING: int

def create_ring(size: int) -> int:
    """Make a memfd with a ring of *size* bytes, rounded up to a page. Raises ValueError below SMALLEST_RING, OSError."""

def detach_reader(fd: int) -> None:
    """Detach a reader that died from the ring *fd*, so that the writer stops writing."""

class TapWriter:
    """The worker's end of the ring in *fd*, which the caller closes. Continues where a writer before it ended.

    Raises ValueError for a file that holds no ring, OSError when it cannot be mapped.
    """

    @property
    def fd(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    def __init__(self, fd: int) -> None: ...
    def put(
        self, kind: int, connection: int, direction: int, at: int, data: bytes | bytearray | memoryview
    ) -> bool: ...
    def put_lost(self, connection: int, direction: int, at: int, size: int) -> bool: ...

class TapReader:
    """The analyzer's end of the ring in *fd*; the caller closes it.

    *faults* counts impossible values found in the ring. Raises ValueError for a file that holds no ring, OSError if it cannot be
    mapped.
    """

    @property
    def fd(self) -> int: ...
    @property
    def faults(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    def __init__(self, fd: int) -> None: ...
    def attach(self) -> int: ...
    def detach(self) -> None: ...
    def read(self, most: int) -> list[TapItem]: ...
