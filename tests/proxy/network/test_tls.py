"""TLS on both legs through the transports of uvloop and asyncio: who is let in, who is believed, and what a reload changes."""

import asyncio
import contextlib
import gc
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kproxy.config.structs import BrokerTls, ListenerTls
from kproxy.errors import UsageError
from kproxy.proxy.network.tls import (
    Contexts,
    broker_context,
    listener_context,
    principal_of,
    server_name,
    server_name_of,
)
from tests.conftest import Require
from tests.support.certificates import Authority, Pair, certificates
from tests.support.loops import LOOPS, run

ALICE = "CN=alice,OU=orders,O=kproxy tests"


def listening(pair: Pair | None = None, **words: Any) -> ListenerTls:
    pair = pair or certificates().server
    return ListenerTls(certificate=pair.certificate, key=pair.key, **words)


def connecting(pair: Pair | None = None, **words: Any) -> BrokerTls:
    own = {"certificate": pair.certificate, "key": pair.key} if pair else {}
    return BrokerTls(**({"ca": certificates().ca} | own | words))


class Seen(asyncio.Protocol):
    """A server's side: remembers what TLS says of the client and sends back what it gets."""

    def __init__(self, facts: "asyncio.Queue[dict[str, Any]]") -> None:
        self.facts = facts

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport  # uvloop's is no asyncio.Transport
        tls = transport.get_extra_info("ssl_object")
        seen = {"name": server_name_of(tls), "principal": principal_of(tls), "version": tls.version()}
        self.facts.put_nowait(seen | {"alpn": tls.selected_alpn_protocol()})

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@contextlib.asynccontextmanager
async def serving(context: ssl.SSLContext) -> AsyncIterator[tuple[int, "asyncio.Queue[dict[str, Any]]"]]:
    facts: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    faults: list[object] = []
    loop.set_exception_handler(lambda _, context: faults.append(context.get("exception")))
    server = await loop.create_server(lambda: Seen(facts), "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], facts
    assert [fault for fault in faults if not isinstance(fault, OSError)] == []  # OSError: a handshake that failed


async def talk(port: int, context: ssl.SSLContext, name: str) -> str:
    """Do the handshake and one exchange; returns the serial number of the server's certificate."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    try:
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        tls = writer.get_extra_info("ssl_object")
        return ssl.DER_cert_to_PEM_cert(tls.getpeercert(True))
    finally:
        writer.transport.abort()


async def principal(server: ssl.SSLContext, pair: Pair) -> str | None:
    """Whom a server takes a client with that certificate for."""
    async with serving(server) as (port, facts):
        await talk(port, broker_context(connecting(pair)), "broker.test")
        name: str | None = (await facts.get())["principal"]
        return name


def handshake(loop: str, listener: ListenerTls, broker: BrokerTls, host: str = "broker.test") -> dict[str, Any]:
    """What the server saw of a client that got through; raises what stopped the client."""

    async def main() -> dict[str, Any]:
        async with serving(listener_context(listener, names=True)) as (port, facts):
            await talk(port, broker_context(broker), server_name(broker, host))
            return await facts.get()

    return run(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_handshake_has_tls_1_3_a_server_name_no_alpn_and_nobody_s_principal(loop: str) -> None:
    expected = {"name": "broker.test", "principal": None, "version": "TLSv1.3", "alpn": None}
    assert handshake(loop, listening(), connecting()) == expected


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("host", "told", "seen"),
    [
        ("broker.test", None, "broker.test"),
        ("10.0.0.1", "broker-7.kafka.test", "broker-7.kafka.test"),
        ("127.0.0.1", None, None),  # RFC 6066, section 3: no addresses in server names
        ("::1", None, None),
        ("Localhost.", None, "Localhost"),
    ],
)
def test_the_server_name_is_the_broker_s_host_unless_told(
    loop: str, host: str, told: str | None, seen: str | None
) -> None:
    assert handshake(loop, listening(), connecting(server_name=told), host)["name"] == seen


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("auth", ["requested", "required"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_s_subject_is_its_principal(loop: str, auth: str, version: ssl.TLSVersion) -> None:
    server = listener_context(listening(client_ca=certificates().ca, client_auth=auth))
    server.maximum_version = version
    assert await principal(server, certificates().client) == ALICE


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_resumed_session_keeps_the_principal_and_its_own_server_name(loop: str) -> None:
    server = listener_context(listening(client_ca=certificates().ca, client_auth="required"), names=True)
    client = broker_context(connecting(certificates().client))
    client.maximum_version = ssl.TLSVersion.TLSv1_2  # where the session is there as soon as the handshake is done
    async with serving(server) as (port, facts):
        session = None
        for _ in range(2):
            session = await asyncio.to_thread(resume, port, client, session)
            seen = await facts.get()
            assert (seen["principal"], seen["name"]) == (ALICE, "broker.test")


def resume(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="broker.test", session=session) as wrapped,
    ):
        assert wrapped.session_reused == (session is not None)
        return wrapped.session


@pytest.mark.parametrize("loop", LOOPS)
def test_who_must_show_a_certificate_and_who_may(loop: str) -> None:
    mutual = {"client_ca": certificates().ca}
    assert handshake(loop, listening(client_auth="requested", **mutual), connecting())["principal"] is None
    assert handshake(loop, listening(), connecting(certificates().client))["principal"] is None
    stranger = certificates().stranger
    for auth, pair in (("required", None), ("required", stranger), ("requested", stranger)):
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            handshake(loop, listening(client_auth=auth, **mutual), connecting(pair))


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("pair", "words", "reason"),
    [
        ("server", {"ca": "other_ca"}, "unable to get local issuer|self-signed|unknown"),
        ("server", {"ca": None}, "unable to get local issuer|self-signed|unknown"),
        ("expired", {}, "certificate has expired"),
        ("wrong_host", {}, "mismatch"),
        ("server", {"server_name": "elsewhere.test"}, "mismatch"),
    ],
)
def test_a_broker_that_is_not_who_it_should_be(loop: str, pair: str, words: dict[str, Any], reason: str) -> None:
    files = certificates()
    if words.get("ca"):
        words = {"ca": getattr(files, words["ca"])}
    with pytest.raises(ssl.SSLCertVerificationError, match=rf"(?i){reason}"):
        handshake(loop, listening(getattr(files, pair)), connecting(**words))
    assert handshake(loop, listening(getattr(files, pair)), BrokerTls(verify=False))["version"] == "TLSv1.3"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_tls_1_1_is_not_spoken_on_either_leg(loop: str) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(certificates().ca)
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    for lowest, spoken in ((ssl.TLSVersion.TLSv1_1, True), (listener_context(listening()).minimum_version, False)):
        server = listener_context(listening())
        server.set_ciphers("ALL:@SECLEVEL=0")
        server.minimum_version = lowest
        async with serving(server) as (port, facts):
            if spoken:
                await talk(port, old, "broker.test")
                assert (await facts.get())["version"] == "TLSv1.1"
                continue
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await talk(port, old, "broker.test")
    assert broker_context(connecting()).minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_new_authority_of_clients_is_believed_after_a_reload(tmp_path: Path) -> None:
    files = certificates()
    ca = tmp_path / "clients.pem"
    ca.write_bytes(Path(files.other_ca).read_bytes())
    contexts = Contexts(listening(client_ca=str(ca), client_auth="required"))

    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        run("uvloop", principal(contexts.current, files.client))
    ca.write_bytes(Path(files.ca).read_bytes())
    assert contexts.reload() is None
    assert run("uvloop", principal(contexts.current, files.client)) == ALICE


def test_bad_files_keep_the_old_and_say_why() -> None:
    authority = Authority()
    pair = authority.issue("server")
    contexts = Contexts(listening(pair))
    old = contexts.current
    good = Path(pair.key).read_bytes()
    for key, reason in (
        (b"", "no certificate and key in PEM"),
        (good[:100], "no certificate and key in PEM"),
        (Path(certificates().client.key).read_bytes(), "is not the key of"),
        (Path(certificates().encrypted.key).read_bytes(), "is encrypted"),
    ):
        Path(pair.key).write_bytes(key)
        problem = contexts.reload()
        assert problem is not None
        assert reason in problem
        assert "\n" not in problem
        assert contexts.current is old
    Path(pair.key).unlink()
    assert "cannot be read: No such file or directory" in str(contexts.reload())
    Path(pair.key).write_bytes(good)
    assert contexts.reload() is None
    assert contexts.current is not old


def test_there_is_no_beginning_with_bad_files(tmp_path: Path) -> None:
    files = certificates()
    empty = tmp_path / "empty.pem"
    empty.write_bytes(b"")
    for tls in (
        listening(Pair(files.server.certificate, files.client.key)),
        listening(Pair("nul\x00", files.client.key)),
        listening(client_auth="required"),
        listening(client_auth="required", client_ca=str(empty)),
        listening(client_auth="required", client_ca=str(tmp_path / "missing.pem")),
        connecting(ca=str(empty)),
        connecting(files.encrypted),
    ):
        with pytest.raises(UsageError):
            Contexts(tls)


def client_hello(name: bytes) -> bytes:
    """A ClientHello with these bytes for a server name, of a client that Python would not let ask for them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    out = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="q" * len(name))
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = out.read()
    assert hello.count(b"q" * len(name)) == 1
    return hello.replace(b"q" * len(name), name)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", [b"\xff\xfe.test", b"a\x00b.test", b"\x1b[31m.test\n", b"x" * 63], ids=repr)
def test_a_hostile_server_name_costs_no_more_than_its_connection(
    loop: str, name: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    shouted: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", shouted.append)

    async def main() -> None:
        async with serving(Contexts(listening(), names=True).current) as (port, facts):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(client_hello(name))
            writer.write_eof()
            await reader.read()
            writer.close()
            await talk(port, broker_context(connecting()), "broker.test")
            assert (await facts.get())["name"] == "broker.test"

    run(loop, main())
    assert shouted == []
    another: Any = SimpleNamespace(exc_value=ValueError(), object=None)
    sys.unraisablehook(another)
    assert shouted == [another]


def test_a_context_that_is_replaced_is_freed() -> None:
    contexts = Contexts(listening(), names=True)
    gc.collect()
    before = sum(isinstance(thing, ssl.SSLContext) for thing in gc.get_objects())
    for _ in range(10):
        assert contexts.reload() is None
    gc.collect()
    assert sum(isinstance(thing, ssl.SSLContext) for thing in gc.get_objects()) == before


JAVA = """
import java.io.FileInputStream;
import java.security.cert.*;
public class Principal {
    public static void main(String[] files) throws Exception {
        for (String file : files)
            System.out.println(((X509Certificate) CertificateFactory.getInstance("X.509")
                .generateCertificate(new FileInputStream(file))).getSubjectX500Principal().getName());
    }
}
"""
SUBJECTS = [
    [("C", "DE"), ("ST", "Berlin"), ("L", "Berlin"), ("O", 'Ex, "Inc" + <x>;\\y'), ("OU", "orders"), ("CN", "alice")],
    [("DC", "org"), ("DC", "example"), ("CN", "#hash")],
    [("CN", " blanks around "), ("O", "Größe")],
]


def test_principals_are_those_that_java_gives_kafka(require: Require, tmp_path: Path) -> None:
    require("java", shutil.which("java"), "java is not installed")
    (tmp_path / "Principal.java").write_text(JAVA, encoding="utf-8")
    authority = Authority()
    pairs = [authority.issue(f"client-{number}", subject, ()) for number, subject in enumerate(SUBJECTS)]
    words = ["java", "-Dstdout.encoding=UTF-8", "-Dfile.encoding=UTF-8", str(tmp_path / "Principal.java")]
    run_java = subprocess.run(
        [*words, *(pair.certificate for pair in pairs)], capture_output=True, check=True, encoding="utf-8"
    )

    server = listener_context(listening(client_ca=authority.ca, client_auth="required"))
    assert [run("uvloop", principal(server, pair)) for pair in pairs] == run_java.stdout.splitlines()
