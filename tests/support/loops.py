"""Both event loops: what waits is tested on uvloop, which runs it, and on asyncio's own, which is strict about it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}
PATIENCE_S = 120.0  # ends a test that hangs; a busy machine lets one stand still for many seconds


def run(loop: str, main: Coroutine[Any, Any, T]) -> T:
    """Run *main* on the loop of that name; what hangs is cancelled and fails."""

    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await main

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(bounded())
