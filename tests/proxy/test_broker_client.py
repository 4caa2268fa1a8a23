"""BrokerClient: requests of kproxy's own, to brokers of every age and to peers that are no brokers."""

import asyncio
from struct import pack
from typing import Any

import pytest

from kproxy.config.structs import BrokerTls, ListenerTls
from kproxy.errors import UpstreamError
from kproxy.filters.contract import Direction
from kproxy.protocol import known_message
from kproxy.proxy.broker_client import MOST_ANSWER, BrokerClient, discover, explain_foreign_protocol
from kproxy.proxy.network.tls import broker_context, listener_context
from kproxy.proxy.network.upstream import Upstream
from tests.support.backend import listening
from tests.support.certificates import certificates
from tests.support.links import run
from tests.support.ports import free_ports
from tests.support.virtual_clusters import Broker


async def test_versions_then_brokers() -> None:
    told = [(3, "kafka.test", 9_092)]
    async with listening(Broker(told, 9).serve) as port:
        asking = BrokerClient(*await asyncio.open_connection("127.0.0.1", port))
        assert await asking.versions() == {3: 9, 18: 3}
        assert await asking.brokers({3: 9}) == told
        asking.close()


async def test_a_peer_that_closes() -> None:
    async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with listening(closes) as port:
        asking = BrokerClient(*await asyncio.open_connection("127.0.0.1", port))
        with pytest.raises((EOFError, OSError)):
            await asking.versions()
        asking.close()


BROKERS = [(0, "kafka-0.example", 9_092), (7, "10.1.2.3", 19_092), (2_000_000_000, "::1", 1)]
OLDEST, NEWEST = 0, 13


async def asked(port: int, **words: Any) -> list[tuple[int, str, int]]:
    return await discover(Upstream([f"127.0.0.1:{port}"]), words.get("tls"), lambda host: host)


@pytest.mark.parametrize("most", [OLDEST, 1, 4, 8, 9, 12, NEWEST, 40])
async def test_a_broker_of_any_age_is_asked_in_its_newest_version(most: int) -> None:
    """Kafka 0.10 has Metadata 0 to 1, 4.3 has it to 13; 40 is one that nobody knows yet."""
    broker = Broker(BROKERS, most)
    async with listening(broker.serve) as port:
        assert await asked(port) == BROKERS
    assert broker.asked == [(18, 0), (3, min(most, NEWEST))]


def test_what_is_asked_creates_no_topic_and_asks_for_none() -> None:
    frames: list[bytes] = []

    class Writes(Broker):
        def answer(self, frame: bytes) -> bytes:
            frames.append(frame)
            return super().answer(frame)

    async def work() -> None:
        broker = Writes(BROKERS)
        async with listening(broker.serve) as port:
            await asked(port)

    run(work)
    message = known_message(Direction.REQUEST, 3)
    value: Any = message.decode(12, frames[1][8 + 2 + len("kproxy") + 1 :])
    assert value.topics == [] and value.allow_auto_topic_creation is False
    assert not value.include_topic_authorized_operations


async def test_over_tls() -> None:
    broker = Broker(BROKERS)
    pair = certificates().server
    listener = listener_context(ListenerTls(certificate=pair.certificate, key=pair.key))
    async with listening(broker.serve, listener) as port:
        assert await asked(port, tls=broker_context(BrokerTls(ca=certificates().ca))) == BROKERS
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the broker's, whom we refuse
        with pytest.raises(UpstreamError, match="certificate"):
            await asked(port, tls=broker_context(BrokerTls(ca=certificates().other_ca)))


ANSWERS = {
    "nothing": b"",
    "half a size": b"\0\0",
    "a negative size": b"\xff\xff\xff\xff",
    "too small for a correlation id": b"\0\0\0\3abc",
    "four gigabytes, nearly": b"\x7f\xff\xff\xff" + bytes(100),
    "one byte more than is read": pack(">i", MOST_ANSWER + 1),
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a TLS alert": b"\x15\x03\x03\0\2\2\x46",
    "an empty body": pack(">ii", 4, 18),
    "a count past all bounds": pack(">iihi", 10, 18, 0, 0x7FFFFFFF),
    "noise": pack(">i", 500) + bytes(range(250)) * 2,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_what_is_no_broker_is_an_error_that_names_it(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(answer)
        writer.write_eof()
        await reader.read()

    async with listening(serve) as port:
        with pytest.raises(UpstreamError, match=f"127.0.0.1:{port}"):
            await asked(port)


async def test_a_broker_that_wants_a_login_first_closes_and_that_is_said() -> None:
    """After ApiVersions, which SaslServerAuthenticator lets pass, Metadata ends the connection."""

    class Locked(Broker):
        def answer(self, frame: bytes) -> bytes:
            if frame[:2] == b"\0\3":
                raise OSError("closed")
            return super().answer(frame)

    broker = Locked()
    async with listening(broker.serve) as port:
        with pytest.raises(UpstreamError, match=r"does not list the brokers: .*node_ids"):
            await asked(port)


async def test_a_broker_that_wants_tls_says_so_in_an_alert() -> None:
    """fatal, unexpected_message (RFC 8446, section 6): what Java's SSLEngine sends when a request comes in the clear."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(b"\x15\x03\x03\0\2\2\x0a")

    async with listening(serve) as port:
        with pytest.raises(UpstreamError, match="broker_tls"):
            await asked(port)


async def test_nobody_there() -> None:
    with pytest.raises(UpstreamError, match="refused"):
        await asked(free_ports())


async def test_bytes_after_an_answer_are_passed_over() -> None:
    """As librdkafka's mock cluster sends one after Metadata."""

    class Longer(Broker):
        def answer(self, frame: bytes) -> bytes:
            answer = super().answer(frame)
            return (len(answer) - 4 + 3).to_bytes(4, "big") + answer[4:] + b"\1\0\0"

    broker = Longer(BROKERS, NEWEST)
    async with listening(broker.serve) as port:
        assert await asked(port) == BROKERS


@pytest.mark.parametrize(
    ("start", "direction", "setting"),
    [
        (b"\x16\x03\x01\x02", Direction.REQUEST, "listener_tls"),
        (b"\x15\x03\x03\x00", Direction.RESPONSE, "broker_tls"),
        (b"PROX", Direction.REQUEST, "proxy_protocol"),
        (b"\r\n\r\n", Direction.REQUEST, "proxy_protocol"),
        (b"GET ", Direction.REQUEST, "HTTP"),
    ],
)
def test_what_is_to_be_set_is_said(start: bytes, direction: Direction, setting: str) -> None:
    said = explain_foreign_protocol(start, direction)
    assert said is not None and setting in said
    assert "keylog" not in said  # an option of kproxy decode


def test_nothing_is_said_of_bytes_that_are_unknown() -> None:
    assert explain_foreign_protocol(b"\xff\xff\xff\xff", Direction.REQUEST) is None
    assert explain_foreign_protocol(b"\0\0\0\x10", Direction.RESPONSE) is None
