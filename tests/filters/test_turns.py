"""Taking turns."""

import asyncio

from kproxy.filters.turns import Turn


def test_others_have_their_turn_before_it_goes_on() -> None:
    done: list[str] = []

    async def steps(name: str) -> None:
        for step in range(2):
            done.append(f"{name}{step}")
            await Turn()

    async def both() -> None:
        await asyncio.gather(steps("a"), steps("b"))

    asyncio.run(both())
    assert done == ["a0", "b0", "a1", "b1"]
