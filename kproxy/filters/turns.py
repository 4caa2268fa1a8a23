"""Verdicts that take long are made in steps, between which other connections have their turn."""

from collections.abc import Awaitable, Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]  # yields where other connections may have their turn; returns the result


class Turn:
    """When awaited, lets the event loop do everything else that is ready (as asyncio.sleep(0), without asyncio)."""

    def __await__(self) -> Generator[None, None, None]:
        yield


def in_turns(steps: Steps[T | Awaitable[T]]) -> T | Awaitable[T]:
    """Return the result of *steps* if they yield nothing; else an awaitable that runs one step in each turn of the event loop."""
    try:
        next(steps)
    except StopIteration as done:
        result: T | Awaitable[T] = done.value
        return result
    return _in_turns(steps)


async def _in_turns(steps: Steps[T | Awaitable[T]]) -> T:
    while True:
        await Turn()
        try:
            next(steps)
        except StopIteration as done:
            result: T | Awaitable[T] = done.value
            return await result if isinstance(result, Awaitable) else result


def at_once(steps: Steps[T]) -> T:
    """Return the result of *steps*, run one after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
