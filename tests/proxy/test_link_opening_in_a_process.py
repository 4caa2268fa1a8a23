"""How links begin that are more than two sockets, in a real `kproxy run`: PROXY headers, a proxy on the way, TLS on both legs."""

import contextlib
import itertools
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.proxy.network.proxy_protocol import Header, read_header, write_v1, write_v2
from tests.conftest import Require
from tests.proxy.network.test_outbound_proxy import program
from tests.support.certificates import certificates
from tests.support.kafka.proxies import Proxy, cluster
from tests.support.ports import free_ports
from tests.support.redirected import REQUEST, RESPONSE

PATIENCE_S = 60
CLIENT, BALANCER = "192.0.2.7:1234", "198.51.100.9:9092"


class Broker:
    """Answers every request as one for ApiVersions; ``headers`` are the PROXY headers that connections began with."""

    def __init__(self, *, expects_header: bool = False, tls: ssl.SSLContext | None = None) -> None:
        self.headers: list[Header] = []
        self.subjects: list[Any] = []
        self._expects_header, self._tls = expects_header, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            if self._expects_header:
                self._read_header(client)
            with self._tls.wrap_socket(client, server_side=True) if self._tls else client as talking:
                if isinstance(talking, ssl.SSLSocket):
                    self.subjects.append(talking.getpeercert())
                while size := talking.recv(4):
                    request = talking.recv(int.from_bytes(size))
                    talking.sendall(RESPONSE[:4] + request[4:8] + RESPONSE[8:])

    def _read_header(self, client: socket.socket) -> None:
        received, header = b"", None
        while header is None:
            received += client.recv(1) or b"GET"  # an end where more should come is refused
            header = read_header(received)
        self.headers.append(header)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Proxy]]:
    with contextlib.ExitStack() as stack:

        def start(
            broker: Broker,
            *,
            host: str = "127.0.0.1",
            timeouts: dict[str, Any] | None = None,
            reaches_brokers: bool = True,
            **settings: Any,
        ) -> Proxy:
            stack.callback(broker.close)
            ours = cluster([f"{host}:{broker.port}"], **settings)
            proxy = Proxy(tmp_path / "kproxy", [ours], analysis={"enabled": False}, timeouts=timeouts or {})
            stack.callback(proxy.close)
            return proxy.start(reaches_brokers=reaches_brokers)

        yield start


def connected(proxy: Proxy) -> socket.socket:
    host, _, port = proxy.bootstrap().rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def ask(client: socket.socket) -> bytes:
    client.sendall(REQUEST)
    received = b""
    while len(received) < len(RESPONSE) and (piece := client.recv(100)):
        received += piece
    return received


def known(proxy: Proxy) -> list[str]:
    rows = proxy.connections()
    rows = rows["connections"] if isinstance(rows, dict) else rows
    return [row["client"] for row in rows]


def test_a_client_is_who_the_balancer_says_and_none_without_a_header(begin: Callable[..., Proxy]) -> None:
    proxy = begin(Broker(), proxy_protocol=True)
    for write, piece in itertools.product((write_v1, write_v2), (1_000, 1)):
        header = write(CLIENT, BALANCER)
        with connected(proxy) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(header), piece):
                client.sendall(header[at : at + piece])
            assert ask(client) == RESPONSE
            assert known(proxy)[-1] == CLIENT
    for count, start in enumerate((REQUEST, b"PROXY TCP9 x\r\n", b"\r\n\r\n\x00\r\nQUIX\n"), 1):
        with connected(proxy) as client:
            client.sendall(start)
            with contextlib.suppress(ConnectionError):
                assert client.recv(100) == b""
        assert proxy.count("kproxy_connections_closed_total", "proxy_protocol") == count, proxy.metrics()


def test_brokers_behind_a_socks_proxy(require: Require, begin: Callable[..., Proxy]) -> None:
    require("proxies", shutil.which("microsocks"), "microsocks is not installed")
    port = free_ports()
    with program(port, "microsocks", "-i", "127.0.0.1", "-p", str(port), "-u", "alice", "-P", "s3cr3t"):
        proxy = begin(Broker(), host="localhost", through=f"socks5://alice:s3cr3t@127.0.0.1:{port}")
        with connected(proxy) as client:
            assert ask(client) == RESPONSE
    assert "s3cr3t" not in proxy.log.read_text(encoding="utf-8")


def client_context(ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificates().client.certificate, certificates().client.key)
    return context


def test_tls_on_both_legs_each_with_its_own_identity(begin: Callable[..., Proxy]) -> None:
    files = certificates()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.ca)
    context.load_cert_chain(files.server.certificate, files.server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    broker = Broker(tls=context)
    listener = {"certificate": files.server.certificate, "key": files.server.key}
    proxy = begin(
        broker,
        listener_tls={**listener, "client_ca": files.ca, "client_auth": "required"},
        broker_tls={"ca": files.ca, "certificate": files.client.certificate, "key": files.client.key},
    )
    with (
        connected(proxy) as plain,
        client_context(files.ca).wrap_socket(plain, server_hostname="broker.test") as client,
    ):
        assert ask(client) == RESPONSE
        assert ((("commonName", "alice"),)) in broker.subjects[-1]["subject"]
    with connected(proxy) as plain:
        plain.sendall(REQUEST)  # no TLS
        with contextlib.suppress(ConnectionError):
            assert RESPONSE not in plain.recv(100)
    assert proxy.count("kproxy_connections_closed_total", "tls_client") == 1, proxy.metrics()
