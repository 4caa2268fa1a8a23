"""Verdicts that take long are made in steps, between which other connections have their turn; others are tried again."""

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

from kproxy.filters.contract import Runtime

LOOK_S = 0.01  # between two attempts

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


class NotYet(Exception):
    """What is needed was asked for, and has not come."""


async def retried(runtime: Runtime, until: float, attempt: Callable[[bool], Awaitable[T]]) -> T:
    """Return the result of *attempt*, which is made again while it raises NotYet.

    Args:
        runtime: the clock and timer.
        until: the time of ``runtime.monotonic`` from which on nothing is waited for.
        attempt: gets whether it is that late; then it has to do without what has not come.
    """
    while True:
        try:
            return await attempt(runtime.monotonic() >= until)
        except NotYet:
            await runtime.sleep(LOOK_S)
