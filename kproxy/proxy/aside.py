"""Call what takes long in a thread of its own, so that the event loop goes on: decoding and encoding large held frames.

One thread a process, made when first used. The codec gives the interpreter lock up every 0.1 ms in it (object_codec.give_way).
"""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kproxy.protocol.object_codec import give_way

Result = TypeVar("Result")


@functools.cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "kproxy-aside", initializer=give_way)


def end() -> None:
    """End the thread, after the call it is at."""
    if _thread.cache_info().currsize:
        _thread().shutdown(cancel_futures=True)
        _thread.cache_clear()


async def aside(function: Callable[[], Result]) -> Result:
    """Return what *function* returns, or raise what it raises; calls are made one after the other."""
    return await asyncio.get_running_loop().run_in_executor(_thread(), function)
