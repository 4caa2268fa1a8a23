"""Clients that log in to kproxy: real ones, and those that send what they should not, before a broker of the test."""

import asyncio
import contextlib
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from struct import pack
from typing import Any, ClassVar

import msgspec
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kproxy.authentication.users import User, new_users_file, set_password
from kproxy.config.structs import Addresses, Authentication, FilterUse, ListenerTls
from kproxy.filters.contract import ConnectionFacts, Filter
from kproxy.proxy.client_logins import MOST_FAILURES, MOST_LOGGED, Failures
from kproxy.proxy.tap.counted import CloseCause, Total
from tests.support.certificates import certificates
from tests.support.links import request
from tests.support.virtual_clusters import Broker, Front, ask, front

FIXED = Addresses(mode="fixed")
NAME, PASSWORD = "alice", "correct horse"
MECHANISMS: Any = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA = 18, 17, 36, 3
HANDSHAKE_PLAIN = request(SASL_HANDSHAKE, 1, 7, pack(">h", 5) + b"PLAIN")
DELAY_S = 0.05


def write_users(path: Path, **passwords: str) -> str:
    file = new_users_file()
    for name, password in passwords.items():
        file.users[name] = User()
        set_password(file.users[name], MECHANISMS, password, 4_096)
    path.write_bytes(msgspec.json.encode(file))
    return str(path)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_users(tmp_path_factory.mktemp("users") / "users.json", **{NAME: PASSWORD})


Serve = Callable[..., contextlib.AbstractAsyncContextManager[tuple[Broker, Front]]]


@pytest.fixture
def serving(users: str) -> Serve:
    @contextlib.asynccontextmanager
    async def serve(filters: Sequence[FilterUse] = (), **words: Any) -> AsyncIterator[tuple[Broker, Front]]:
        settings = {"mechanisms": MECHANISMS, "users": users, "plain_without_tls": True, "failure_delay": DELAY_S}
        authentication = Authentication(**settings | words)
        cluster: dict[str, Any] = {"addresses": FIXED, "authentication": authentication, "filters": list(filters)}
        async with Broker() as broker, front(broker.address, **cluster) as proxy:
            broker.brokers = [(0, "127.0.0.1", proxy.port)]
            yield broker, proxy

    return serve


def librdkafka(address: str, mechanism: str, password: str) -> list[str]:
    errors: list[str] = []
    client = AdminClient(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": NAME,
            "sasl.password": password,
            "error_cb": lambda error: errors.append(error.str()),
            "log_level": 0,
        }
    )
    try:
        client.list_topics(timeout=5 if password == PASSWORD else 0.5)
    except KafkaException as error:
        client.poll(0.1)
        return [*errors, str(error)]
    return []


def kafka_python(address: str, mechanism: str, password: str) -> list[str]:
    from kafka import KafkaConsumer  # noqa: PLC0415 - its import warns
    from kafka.errors import KafkaError  # noqa: PLC0415

    words = {"sasl_plain_username": NAME, "sasl_plain_password": password, "sasl_mechanism": mechanism}
    try:
        client = KafkaConsumer(bootstrap_servers=address, security_protocol="SASL_PLAINTEXT", **words)
        client.topics()
        client.close()
    except KafkaError as error:
        return [repr(error)]
    return []


@pytest.mark.filterwarnings("default")  # of kafka-python
@pytest.mark.parametrize("client", [librdkafka, kafka_python])
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_client_logs_in_and_is_served(serving: Serve, client: Any, mechanism: str) -> None:
    async with serving() as (broker, proxy):
        assert await asyncio.to_thread(client, proxy.address, mechanism, PASSWORD) == []
        keys = {key for key, _ in broker.asked}
        assert METADATA in keys and not keys & {SASL_HANDSHAKE, SASL_AUTHENTICATE}
        assert proxy.total(Total.CLIENT_LOGINS_OK) >= 1
        await proxy.until(lambda: not proxy.worker.links)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_client_with_a_wrong_password_is_told_so(serving: Serve, mechanism: str) -> None:
    async with serving() as (broker, proxy):
        said = " ".join(await asyncio.to_thread(librdkafka, proxy.address, mechanism, "wrong"))
        assert "Invalid username or password" in said or "invalid credentials with SASL mechanism" in said
        await proxy.until(lambda: not proxy.worker.links)
        assert {key for key, _ in broker.asked} <= {API_VERSIONS}
        assert proxy.causes[CloseCause.AUTHENTICATION_FAILED] == proxy.total(Total.CLIENT_LOGINS_FAILED) >= 1


def plain(password: str = PASSWORD, name: str = NAME, version: int = 1) -> bytes:
    token = f"\0{name}\0{password}".encode()
    return request(SASL_AUTHENTICATE, version, 8, pack(">i", len(token)) + token)


async def logged_in(proxy: Front) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await proxy.connect()
    assert (await ask(reader, writer, HANDSHAKE_PLAIN))[8:10] == b"\0\0"
    assert (await ask(reader, writer, plain()))[8:10] == b"\0\0"
    return reader, writer


async def refused(proxy: Front, *frames: bytes) -> bytes:
    """What a client gets that sends these frames at once, until it is disconnected."""
    reader, writer = await proxy.connect()
    writer.write(b"".join(frames))
    received = b""
    with contextlib.suppress(ConnectionResetError):  # what is not of Kafka is not read to its end
        received = await reader.read()
    writer.close()
    await proxy.until(lambda: not proxy.worker.links)
    return received


HEARTBEAT = request(12, 0, 9)


async def test_what_is_sent_behind_the_login_is_forwarded_after_it(serving: Serve) -> None:
    async with serving() as (broker, proxy):
        reader, writer = await proxy.connect()
        writer.write(HANDSHAKE_PLAIN + plain() + HEARTBEAT)
        answers = await reader.readexactly(
            4 + 4 + 2 + 4 + sum(2 + len(name) for name in MECHANISMS) + 4 + 4 + 2 + 2 + 4 + 8
        )
        assert (await reader.readexactly(8))[4:] == pack(">i", 9)
        assert [key for key, _ in broker.asked] == [12], answers
        writer.close()


@pytest.mark.parametrize(
    ("frames", "received"),
    [
        ([HEARTBEAT], b""),
        ([HANDSHAKE_PLAIN, HEARTBEAT], b"0007"),
        ([HANDSHAKE_PLAIN, plain("wrong"), HEARTBEAT], b"0007 0008"),
        ([HANDSHAKE_PLAIN, plain(name="nobody")], b"0007 0008"),
        ([HANDSHAKE_PLAIN, plain()[:-1] + b"\xff"], b"0007 0008"),
        ([HANDSHAKE_PLAIN, plain("x" * 4_096)], b"0007 0008"),
        ([HANDSHAKE_PLAIN, plain("x" * 9_000)], b"0007"),
        ([HANDSHAKE_PLAIN, request(SASL_AUTHENTICATE, 1, 8, pack(">i", 1 << 30))], b"0007"),
        ([pack(">i", 1 << 30)], b""),
        ([pack(">i", -1)], b""),
        ([b"GET / HTTP/1.1\r\n\r\n"], b""),
        ([b"\x16\x03\x01\x02\0" + bytes(64)], b""),
        ([request(SASL_HANDSHAKE, 0, 7, pack(">h", 5) + b"PLAIN"), pack(">i", 3) + b"\0a\0"], b"0007"),
    ],
)
async def test_what_is_no_login_reaches_no_broker(serving: Serve, frames: list[bytes], received: bytes) -> None:
    async with serving() as (broker, proxy):
        answers = await refused(proxy, *frames)
        ids = []
        while answers:
            size = int.from_bytes(answers[:4], "big")
            ids.append(b"%04d" % int.from_bytes(answers[4:8], "big"))
            answers = answers[4 + size :]
        assert b" ".join(ids) == received
        assert broker.came == 0 and proxy.total(Total.CLIENT_LOGINS_OK) == 0


async def test_a_failure_takes_as_long_whatever_was_wrong(serving: Serve) -> None:
    """The answer comes at a fixed time after the request; hashing, which would differ, is within that time."""
    async with serving(failure_delay=0.4) as (_, proxy):
        clock = asyncio.get_running_loop().time
        took = []
        for frame in (plain("wrong"), plain(name="nobody"), request(SASL_AUTHENTICATE, 1, 8, pack(">i", 1) + b"x")):
            began = clock()
            await refused(proxy, HANDSHAKE_PLAIN, frame)
            took.append(clock() - began)
        assert min(took) >= 0.4


async def test_raw_tokens_after_the_handshake_of_version_0(serving: Serve) -> None:
    async with serving() as (broker, proxy):
        reader, writer = await proxy.connect()
        token = f"\0{NAME}\0{PASSWORD}".encode()
        assert (await ask(reader, writer, request(SASL_HANDSHAKE, 0, 7, pack(">h", 5) + b"PLAIN")))[8:10] == b"\0\0"
        assert await ask(reader, writer, pack(">i", len(token)) + token) == b"\0\0\0\0"
        assert (await ask(reader, writer, HEARTBEAT))[4:8] == pack(">i", 9)
        assert [key for key, _ in broker.asked] == [12]
        writer.close()


async def test_a_session_ends_unless_the_client_logs_in_again(serving: Serve) -> None:
    async with serving(session=0.3) as (broker, proxy):
        reader, writer = await logged_in(proxy)
        [link] = proxy.worker.links
        first_end = link.session_ends_at
        assert (await ask(reader, writer, HANDSHAKE_PLAIN))[8:10] == b"\0\0"
        assert (await ask(reader, writer, plain()))[-8:] == pack(">q", 300)
        assert link.session_ends_at > first_end and proxy.total(Total.CLIENT_LOGINS_REPEATED) == 1
        assert (await ask(reader, writer, HEARTBEAT))[4:8] == pack(">i", 9)
        link.session_ends_at = 1  # long ago
        assert (await ask(reader, writer, HANDSHAKE_PLAIN))[8:10] == b"\0\0"
        assert (await ask(reader, writer, plain()))[8:10] == b"\0\0"
        assert (await ask(reader, writer, HEARTBEAT))[4:8] == pack(">i", 9)
        link.session_ends_at = 1
        writer.write(HEARTBEAT)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        assert proxy.causes == {CloseCause.SESSION_EXPIRED: 1}
        assert {key for key, _ in broker.asked} == {12}
        writer.close()


async def test_a_client_that_becomes_another_or_fails_is_disconnected_after_the_answer(
    serving: Serve, tmp_path: Path
) -> None:
    users = write_users(tmp_path / "users.json", **{NAME: PASSWORD, "bob": "other"})
    async with serving(users=users) as (_, proxy):
        for frame in (plain("other", "bob"), plain("wrong")):
            reader, writer = await logged_in(proxy)
            assert (await ask(reader, writer, HANDSHAKE_PLAIN))[8:10] == b"\0\0"
            writer.write(frame)
            assert (await reader.read())[4:10] == pack(">ih", 8, 58)
            writer.close()
        await proxy.until(lambda: not proxy.worker.links)


async def test_changed_users_are_taken_and_a_file_that_is_none_is_not(serving: Serve, tmp_path: Path) -> None:
    users = write_users(tmp_path / "users.json", eve="x")
    async with serving(users=users) as (_, proxy):
        assert (await refused(proxy, HANDSHAKE_PLAIN, plain()))[-30:]
        write_users(tmp_path / "users.json", **{NAME: PASSWORD})
        proxy.cluster.opener.reload()
        (tmp_path / "users.json").write_text("{}")
        proxy.cluster.opener.reload()
        _, writer = await logged_in(proxy)
        writer.close()


async def test_the_brokers_own_users_are_refused(serving: Serve) -> None:
    describe = request(50, 0, 9, b"\0\0\0")
    async with serving() as (broker, proxy):
        reader, writer = await logged_in(proxy)
        writer.write(describe)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        assert broker.asked == []
        writer.close()
    async with serving(broker_users="pass") as (broker, proxy):
        reader, writer = await logged_in(proxy)
        await ask(reader, writer, describe)
        assert broker.asked == [(50, 0)]
        writer.close()


async def test_who_guesses_is_refused_unread(serving: Serve) -> None:
    async with serving(failures_per_address=2) as (_, proxy):
        for _ in range(2):
            assert b"Invalid username or password" in await refused(proxy, HANDSHAKE_PLAIN, plain("wrong"))
        assert b"too many failed logins" in await refused(proxy, HANDSHAKE_PLAIN, plain())


def tls_of_a_client(with_certificate: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates().ca)
    if with_certificate:
        context.load_cert_chain(certificates().client.certificate, certificates().client.key)
    return context


async def test_a_certificate_is_a_name_and_without_one_a_client_logs_in(users: str) -> None:
    """All that follows the login within TLS arrives, although it came with it."""
    server = certificates().server
    listener = ListenerTls(
        certificate=server.certificate, key=server.key, client_ca=certificates().ca, client_auth="requested"
    )
    authentication = Authentication(
        mechanisms=["PLAIN"], users=users, certificates="RULE:^CN=(.*?),.*$/$1/U", failure_delay=DELAY_S
    )
    words: dict[str, Any] = {"addresses": FIXED, "listener_tls": listener, "authentication": authentication}
    async with Broker() as broker, front(broker.address, **words) as proxy:
        names = []
        for certificate, sent, before in ((True, HEARTBEAT, 0), (False, HANDSHAKE_PLAIN + plain() + HEARTBEAT, 2)):
            tls = tls_of_a_client(certificate)
            reader, writer = await proxy.connect(ssl=tls, server_hostname="broker.test")
            writer.write(sent)
            for _ in range(before):
                size = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size)
            assert (await reader.readexactly(8))[4:] == pack(">i", 9)
            [link] = proxy.worker.links
            names.append((link.facts.principal, link.facts.mechanism))
            writer.close()
            await proxy.until(lambda: not proxy.worker.links)
        assert names == [("ALICE", None), (NAME, "PLAIN")]
        reader, writer = await proxy.connect(ssl=tls_of_a_client(True), server_hostname="broker.test")
        assert (await ask(reader, writer, HANDSHAKE_PLAIN))[8:10] == pack(
            ">h", 34
        )  # as a broker's listener without SASL
        writer.close()


class Noting(Filter):
    """Notes logins, and who is known then."""

    logins: ClassVar[list[tuple[bool, str | None]]] = []

    def on_raw_login(self, connection: ConnectionFacts, is_accepted: bool) -> None:
        self.logins.append((is_accepted, connection.principal))


async def test_who_is_logged_in_is_known_to_filters(serving: Serve) -> None:
    Noting.logins.clear()
    async with serving(filters=[FilterUse(use="tests.proxy.test_client_logins:Noting")]) as (_, proxy):
        _, writer = await logged_in(proxy)
        [link] = proxy.worker.links
        assert (link.facts.principal, link.facts.mechanism) == (NAME, "PLAIN")
        writer.close()
        await refused(proxy, HANDSHAKE_PLAIN, plain("wrong"))
    assert sys.modules["tests.proxy.test_client_logins"].Noting.logins == [(False, None), (True, NAME), (False, None)]


def test_failed_logins_of_a_kind_are_logged_once_a_minute_with_their_number() -> None:
    now = [100.0]
    failures = Failures(lambda: now[0])
    assert [failures.note("10.0.0.1", user, "why") for user in ("a", "a", "b", "a")] == [1, 0, 1, 0]
    now[0] += 60
    assert [failures.note("10.0.0.1", "a", "why") for _ in range(2)] == [3, 0]
    assert sum(failures.note("10.0.0.2", str(number), "why") for number in range(MOST_FAILURES + 1)) == MOST_LOGGED - 1
    assert len(failures._seen) == MOST_FAILURES
    now[0] += 60
    assert failures.note("10.0.0.2", str(MOST_FAILURES), "why") == 2
