"""One broker, right or wrong in one way: what is found out, and the words for it; names and dates of certificates."""

import asyncio
import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kproxy.config.structs import BrokerTls, Cluster, ListenerTls
from kproxy.doctor.broker import ask_broker, certificate_names, date_problems, explain_handshake, is_for
from kproxy.login.client_settings import Credentials
from kproxy.proxy.network.tls import listener_context
from tests.support.backend import listening
from tests.support.certificates import ALTERNATIVES, Pair, certificates
from tests.support.doctored import PATIENCE_S, broker, context, login_broker
from tests.support.links import on_loop
from tests.support.ports import free_ports

WRONG = {
    "expired": (certificates().expired, "its certificate has expired", "renew the broker's certificate"),
    "another name": (certificates().wrong_host, "is not for 127.0.0.1; its names are: elsewhere.test", "server_name"),
    "another authority": (certificates().stranger, "signed by an unknown authority", "set broker_tls.ca"),
}


def before(port: int, tls: BrokerTls | None = None) -> Cluster:
    return Cluster(listen="127.0.0.1:1", bootstrap=[f"127.0.0.1:{port}"], broker_tls=tls)


@on_loop
async def test_a_broker_that_answers() -> None:
    async with broker([(7, "kafka.test", 9_092)]) as port:
        found = await ask_broker(before(port), "127.0.0.1", port, PATIENCE_S)
        assert found.failure is None
        assert found.brokers == [(7, "kafka.test", 9_092)]
        assert (found.wants_login, found.clock_ahead_s) == (False, None)


@on_loop
async def test_a_broker_with_tls() -> None:
    async with broker(tls=context(certificates().server)) as port:
        found = await ask_broker(before(port, BrokerTls(ca=certificates().ca)), "127.0.0.1", port, PATIENCE_S)
        assert found.failure is None and found.brokers == [(0, "127.0.0.1", port)]


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("tls", [True, False], ids=["TLS", "no TLS"])
@on_loop
async def test_a_password_crosses_the_network_in_the_clear_only_if_the_file_says_so(protocol: str, tls: bool) -> None:
    login = Credentials("PLAIN", "alice", "pencil", needs_tls=protocol == "SASL_SSL")
    async with login_broker(context(certificates().server) if tls else None) as one:
        cluster = before(one.port, BrokerTls(ca=certificates().ca) if tls else None)
        found = await ask_broker(cluster, "127.0.0.1", one.port, PATIENCE_S, login=login)
        assert found.failure is None
        if login.needs_tls and not tls:
            assert (one.logins, found.logged_in, found.brokers) == ([], False, [])
            assert found.login_failure is not None
            assert "SASL_SSL" in found.login_failure.what and "set broker_tls" in found.login_failure.advice
        else:
            assert one.logins == [b"\0alice\0pencil"]  # RFC 4616
            assert (found.login_failure, found.brokers) == (None, [(0, "127.0.0.1", one.port)])


def test_a_login_that_takes_too_long_does_not_make_the_broker_one_that_fails() -> None:
    """The clock of the loop is set forward when the login has come, so nothing here waits."""

    async def work() -> None:
        loop = asyncio.get_running_loop()
        now = loop.time
        late = lambda: setattr(loop, "time", lambda: now() + 10 * PATIENCE_S)  # noqa: E731
        async with login_broker(never_says=late) as one:
            login = Credentials("PLAIN", "alice", "pencil", needs_tls=False)
            found = await ask_broker(before(one.port), "127.0.0.1", one.port, PATIENCE_S, login=login)
            assert (found.failure, found.mechanisms, found.logged_in) == (None, ["PLAIN"], False)
            assert found.login_failure is not None
            assert "no answer to the login within" in found.login_failure.what

    asyncio.run(work())  # not uvloop, whose clock cannot be set


@pytest.mark.parametrize(("pair", "what", "advice"), WRONG.values(), ids=WRONG)
@on_loop
async def test_a_certificate_that_is_wrong(pair: Pair, what: str, advice: str) -> None:
    async with broker(tls=context(pair)) as port:
        found = await ask_broker(before(port, BrokerTls(ca=certificates().ca)), "127.0.0.1", port, PATIENCE_S)
        assert found.failure is not None
        assert what in found.failure.what and advice in found.failure.advice


@on_loop
async def test_tls_to_a_plain_port() -> None:
    async with broker() as port:
        found = await ask_broker(before(port, BrokerTls(ca=certificates().ca)), "127.0.0.1", port, 2.0)
        assert found.failure is not None
        assert "does not speak TLS" in found.failure.what and "remove broker_tls" in found.failure.advice


@on_loop
async def test_plain_to_a_tls_port() -> None:
    async with broker(tls=context(certificates().server)) as port:
        found = await ask_broker(before(port), "127.0.0.1", port, PATIENCE_S)
        assert found.failure is not None
        assert found.failure.what == "it speaks TLS, and kproxy would not"
        assert "set broker_tls" in found.failure.advice


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("own", [None, certificates().stranger], ids=["none", "another authority's"])
@on_loop
async def test_a_certificate_is_wanted(version: ssl.TLSVersion, own: Pair | None) -> None:
    """In TLS 1.3 the broker's alert comes after the handshake, at the first read (RFC 8446, 4.4.2.4)."""
    server, ca = certificates().server, certificates().ca
    wants = ListenerTls(certificate=server.certificate, key=server.key, client_ca=ca, client_auth="required")
    made = listener_context(wants)
    made.minimum_version = made.maximum_version = version
    tls = BrokerTls(ca=ca, certificate=own and own.certificate, key=own and own.key)
    with refusing(made) as port:
        found = await ask_broker(before(port, tls), "127.0.0.1", port, PATIENCE_S)
    assert found.failure is not None
    if own is not None:
        assert found.failure.what == f"it does not accept the certificate {own.certificate}: tlsv1 alert unknown ca"
    elif version is ssl.TLSVersion.TLSv1_3:
        assert found.failure.what == "it wants a certificate of its clients, and kproxy has none for it"
    assert "set broker_tls.certificate" in found.failure.advice


@contextmanager
def refusing(context: ssl.SSLContext) -> Iterator[int]:
    """A server whose handshakes fail, with the alert that says why; asyncio's servers send none. Gives its port."""

    def serve() -> None:
        while True:
            try:
                connected, _ = server.accept()
            except OSError:  # closed
                return
            with connected, suppress(OSError):
                context.wrap_socket(connected, server_side=True)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@on_loop
async def test_nobody_listens() -> None:
    port = free_ports(1)
    found = await ask_broker(before(port), "127.0.0.1", port, PATIENCE_S)
    assert found.failure is not None
    assert found.failure.what == "nothing listens on that port" and "correct the port" in found.failure.advice


@on_loop
async def test_a_name_that_is_not_known() -> None:
    """RFC 6761: .invalid never resolves; without any name server the answer is another."""
    found = await ask_broker(before(1), "kafka.invalid", 9_092, PATIENCE_S)
    assert found.failure is not None and found.failure.what.startswith("the name ")
    assert "DNS" in found.failure.advice or "name server" in found.failure.advice


@on_loop
async def test_a_peer_that_is_no_broker() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with listening(web) as port:
        found = await ask_broker(before(port), "127.0.0.1", port, PATIENCE_S)
    assert found.failure is not None
    assert "does not answer as Kafka" in found.failure.what and "HTTP" in found.failure.what


def der(file: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(Path(file).read_text(encoding="ascii"))


def test_names_are_those_of_the_certificate() -> None:
    file = certificates().server.certificate
    assert sorted(certificate_names(der(file))) == sorted(ALTERNATIVES)
    with_text = b"Bag Attributes: none\n" + Path(file).read_bytes()  # as `openssl pkcs12` writes it
    assert sorted(certificate_names(with_text)) == sorted(ALTERNATIVES)
    assert certificate_names(der(certificates().client.certificate)) == ["alice"]  # no alternatives: its common name
    assert certificate_names(b"no certificate") == [] == certificate_names(None)


@pytest.mark.parametrize(
    ("host", "holds"),
    [
        ("broker.test", True),
        ("BROKER.test.", True),
        ("a.kafka.test", True),
        ("a.b.kafka.test", False),
        ("kafka.test", False),
        ("127.0.0.1", True),
        ("127.0.0.2", False),
        ("::1", True),
        ("elsewhere.test", False),
    ],
)
def test_a_wildcard_stands_for_one_label(host: str, holds: bool) -> None:
    """RFC 6125, 6.4.3."""
    assert is_for(list(ALTERNATIVES), host) is holds


def test_dates() -> None:
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    pem = Path(certificates().server.certificate).read_bytes()  # from a day ago to in a day
    [soon] = date_problems(pem, now)
    assert soon.startswith("expires on ")
    [ended] = date_problems(pem, now + 2 * day)
    assert ended.startswith("has expired ")
    [early] = date_problems(der(certificates().server.certificate), now - 2 * day)
    assert early.startswith("is not valid before ")
    assert list(date_problems(b"nothing", now)) == []


def test_other_errors_keep_the_words_of_openssl() -> None:
    error = ssl.SSLError(1, "no protocols")
    error.reason = "NO_PROTOCOLS_AVAILABLE"
    assert explain_handshake(error, "a", [], None).what == "no TLS handshake: no protocols available"
    assert explain_handshake(OSError(104, "Connection reset by peer"), "a", [], None).what.endswith(
        "connection reset by peer"
    )


def test_a_certificate_of_ours_that_is_refused() -> None:
    error = ssl.SSLError(1, "alert")
    error.reason = "TLSV1_ALERT_UNKNOWN_CA"
    words = explain_handshake(error, "a", [], "own.pem")
    assert words.what == "it does not accept the certificate own.pem: tlsv1 alert unknown ca"
    assert "broker_tls.certificate" in words.advice
