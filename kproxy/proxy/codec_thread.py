"""Run calls that take long, such as decoding a large held frame, in a thread, so that the event loop goes on.

Each process has one such thread, started when first used. In it the codec releases the interpreter lock every 0.1 ms
(object_codec.give_way).
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
    return ThreadPoolExecutor(1, "kproxy-codec", initializer=give_way)


async def in_codec_thread(function: Callable[[], Result]) -> Result:
    """Return what *function* returns, or raise what it raises; calls are made one after the other."""
    return await asyncio.get_running_loop().run_in_executor(_thread(), function)


def end_codec_thread() -> None:
    """End the thread after the call that it is making; waiting calls are cancelled."""
    if _thread.cache_info().currsize:
        _thread().shutdown(cancel_futures=True)
        _thread.cache_clear()
