"""Questions of kproxy's own to a broker. test_discovery.py has brokers of every age, and peers that are none."""

import asyncio

import pytest

from kproxy.proxy.asking import Asking
from tests.support.links import run
from tests.support.virtual_clusters import Broker, listening


def test_versions_then_brokers() -> None:
    async def work() -> None:
        told = [(3, "kafka.test", 9_092)]
        async with listening(Broker(told, 9).serve) as port:
            asking = Asking(*await asyncio.open_connection("127.0.0.1", port))
            assert await asking.versions() == {3: 9, 18: 3}
            assert await asking.brokers({3: 9}) == told
            asking.close()

    run(work)


def test_a_peer_that_closes() -> None:
    async def work() -> None:
        async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.close()

        async with listening(closes) as port:
            asking = Asking(*await asyncio.open_connection("127.0.0.1", port))
            with pytest.raises((EOFError, OSError)):
                await asking.versions()
            asking.close()

    run(work)
