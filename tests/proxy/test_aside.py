"""What takes long runs in one thread, in order, and the loop goes on."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from kproxy.proxy.aside import aside, end


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    end()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kproxy-aside")]


def test_calls_return_and_raise_in_one_thread_that_is_not_the_loops() -> None:
    order: list[int] = []

    def note(number: int) -> int:
        order.append(number)
        return threading.get_ident()

    def fail() -> None:
        raise ValueError("aside")

    async def go() -> set[int]:
        threads = await asyncio.gather(*(aside(lambda n=n: note(n)) for n in range(20)))
        with pytest.raises(ValueError, match="aside"):
            await aside(fail)
        return set(threads)

    (thread,) = asyncio.run(go())
    assert thread != threading.get_ident()
    assert order == list(range(20))


def test_the_loop_goes_on_meanwhile() -> None:
    async def go() -> None:
        gate = threading.Event()
        waiting = asyncio.ensure_future(aside(gate.wait))
        await asyncio.sleep(0)
        assert not waiting.done()
        gate.set()
        assert await waiting

    asyncio.run(go())
