"""Turn: awaited between parts of a long verdict, it lets other connections go on."""

from collections.abc import Generator


class Turn:
    """When awaited, lets the event loop do everything else that is ready (as asyncio.sleep(0), without asyncio)."""

    def __await__(self) -> Generator[None, None, None]:
        yield
