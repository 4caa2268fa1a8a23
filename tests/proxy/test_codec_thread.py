"""What takes long runs in one thread, in order, and the loop goes on."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from kproxy.proxy.codec_thread import end_codec_thread, in_codec_thread


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    end_codec_thread()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kproxy-codec")]


def test_calls_return_and_raise_in_one_thread_that_is_not_the_loops() -> None:
    order: list[int] = []

    def note(number: int) -> int:
        order.append(number)
        return threading.get_ident()

    def fail() -> None:
        raise ValueError("too bad")

    async def go() -> set[int]:
        threads = await asyncio.gather(*(in_codec_thread(lambda n=n: note(n)) for n in range(20)))
        with pytest.raises(ValueError, match="too bad"):
            await in_codec_thread(fail)
        return set(threads)

    (thread,) = asyncio.run(go())
    assert thread != threading.get_ident()
    assert order == list(range(20))


async def test_the_loop_goes_on_meanwhile() -> None:
    gate = threading.Event()
    waiting = asyncio.ensure_future(in_codec_thread(gate.wait))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()
    assert await waiting
