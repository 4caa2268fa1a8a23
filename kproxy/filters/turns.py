"""Turn: awaited between parts of a long verdict, it gives other connections their turn."""

from collections.abc import Generator


class Turn:
    """Awaited, it lets the event loop do everything else that is ready (as asyncio.sleep(0), without asyncio)."""

    def __await__(self) -> Generator[None, None, None]:
        yield
