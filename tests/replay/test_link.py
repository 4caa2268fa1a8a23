"""One connection before brokers that answer, close, lie about sizes and order, or say nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from struct import pack

import pytest

from kproxy.errors import UpstreamError
from kproxy.protocol import ApiKey, read_request_header
from kproxy.proxy.network.upstream import Upstream
from kproxy.replay.link import Link, LinkClosed, header, is_answered
from tests.support.ports import free_ports
from tests.support.replayed import PATIENCE_S, Serve, serving


async def linked(serve: Serve, work: Callable[[Link], Awaitable[None]]) -> None:
    async with serving(serve) as port:
        link = await Link.open(Upstream(allow_link_local=True), "127.0.0.1", port, None, PATIENCE_S)
        await work(link)
        link.abort("done")


async def request(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def ask(link: Link) -> bytes:
    future = await link.send(ApiKey.API_VERSIONS, 0, b"")
    assert future is not None
    return await asyncio.wait_for(future, PATIENCE_S)


def test_answers_in_their_order() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        both = [await request(reader), await request(reader)]
        writer.write(b"".join(pack(">i", 6) + one[4:8] + pack(">h", n) for n, one in enumerate(both)))
        await reader.read(1)

    async def work(link: Link) -> None:
        one, two = asyncio.ensure_future(ask(link)), asyncio.ensure_future(ask(link))
        assert (await one)[4:] == b"\0\0" and (await two)[4:] == b"\0\1"

    asyncio.run(linked(serve, work))


BAD = {
    "closed": (b"", "closed the connection"),
    "half a frame": (b"\0\0\0\x10\0\0", "closed the connection"),
    "a size that Kafka does not send": (b"\x7f\xff\xff\xff", "sent a size field of 2147483647"),
    "TLS": (b"\x15\x03\x03\x00\x02\x02\x46", "speaks TLS: give --tls"),  # a fatal alert, protocol_version
    "no Kafka": (b"HTTP/1.1 400 Bad Request", "is it a broker, without TLS"),
    "another correlation id": (pack(">ii", 4, 999), "in another order"),
}


@pytest.mark.parametrize(("sent", "words"), BAD.values(), ids=BAD)
def test_a_broker_that_fails(sent: bytes, words: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(sent)

    async def work(link: Link) -> None:
        with pytest.raises(LinkClosed, match=words):
            await ask(link)
        with pytest.raises(LinkClosed, match=words):
            await link.send(ApiKey.API_VERSIONS, 0, b"")

    asyncio.run(linked(serve, work))


def test_an_answer_to_nothing() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(pack(">ii", 4, 1))
        await reader.read()

    async def work(link: Link) -> None:
        while link.closed is None:
            await asyncio.sleep(0.01)
        assert "an answer to nothing" in link.closed

    asyncio.run(linked(serve, work))


def test_a_request_that_is_not_answered_by_design() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        second = await request(reader)
        writer.write(pack(">i", 4) + second[4:8])
        await reader.read(1)

    async def work(link: Link) -> None:
        assert await link.send(ApiKey.PRODUCE, 3, b"", answered=False) is None
        assert len(await ask(link)) == 4

    asyncio.run(linked(serve, work))


def test_a_port_where_nothing_listens() -> None:
    async def work() -> None:
        with pytest.raises(UpstreamError):
            await Link.open(Upstream(), "127.0.0.1", free_ports(1), None, PATIENCE_S)

    asyncio.run(work())


def test_headers_are_read_again() -> None:
    tags = ((3, b"abc"), (200, b"x" * 200))
    for version, kept in ((4, tags), (0, ())):  # ApiVersions is flexible from 3 on
        read = read_request_header(header(ApiKey.API_VERSIONS, version, 7, "käse".encode(), tags))
        assert (read.api_version, read.correlation_id, read.client_id) == (version, 7, "käse")
        assert read.unknown_tags == kept
    assert read_request_header(header(ApiKey.FETCH, 4, 1, None)).client_id is None


def test_what_is_answered() -> None:
    class Body:
        acks = 0

    assert not is_answered(ApiKey.PRODUCE, Body())
    assert is_answered(ApiKey.FETCH, Body())
