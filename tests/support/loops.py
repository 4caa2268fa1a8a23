"""Both event loops, uvloop and asyncio's own, which is strict about waiting; and a clock that tests set."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop


class Clock:
    """Called like ``time.monotonic``; gives ``now``, in seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


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
