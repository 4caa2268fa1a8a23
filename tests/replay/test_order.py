"""When requests may be sent, on a clock that stands still or jumps: nothing here waits."""

import asyncio

from kproxy.replay.order import Order

MS = 1_000_000


def test_at_the_times_they_had() -> None:
    now = [100.0]
    order = Order(1.0, 50 * MS, lambda: now[0])
    assert order.due_in(50 * MS) == 0
    assert abs(order.due_in(550 * MS) - 0.5) < 1e-9
    now[0] = 100.6
    assert order.due_in(550 * MS) == 0


def test_by_a_factor_and_without_waiting() -> None:
    assert abs(Order(10.0, 0, lambda: 0.0).due_in(500 * MS) - 0.05) < 1e-9
    assert Order(None, 0, lambda: 0.0).due_in(500_000 * MS) == 0


def test_what_brokers_hold_together_does_not_wait_for_each_other() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        order, answered = Order(None, 0, loop.time), loop.create_future()
        order.add(10, answered, "generation 1 of g")
        await order.wait(20, "generation 1 of g")
        waiting = asyncio.ensure_future(order.wait(20, "generation 1 of h"))
        await asyncio.sleep(0)
        assert not waiting.done()
        answered.set_result(None)
        await waiting

    asyncio.run(work())


def test_after_the_answers_that_came_before_it() -> None:
    async def work() -> None:
        order = Order(None, 0, asyncio.get_running_loop().time)
        loop = asyncio.get_running_loop()
        early, late = loop.create_future(), loop.create_future()
        order.add(30, late)
        order.add(10, early)
        await order.wait(9)  # sent before either was answered
        waiting = asyncio.ensure_future(order.wait(20))
        await asyncio.sleep(0)
        assert not waiting.done()
        early.set_result(None)
        await waiting
        everything = asyncio.ensure_future(order.wait_for_all())
        await asyncio.sleep(0)
        assert not everything.done()
        late.set_result(None)
        await everything

    asyncio.run(work())
