"""The admin port over HTTP: who may ask, by which name, and what becomes of it when we end."""

import asyncio
import http.client
import socket
from collections.abc import Callable
from typing import Any

import pytest

from kproxy.proxy.supervisor.admin_server import AdminServer, listen_admin
from kproxy.proxy.tap.counters import Counters
from tests.support.ports import free_ports


class Source:
    """Of nothing."""

    def counters(self) -> list[Counters]:
        return []

    def analysis(self) -> dict[str, Any]:
        return {}

    def ready(self) -> tuple[bool, str]:
        return False, "not ready: worker 0"

    def clusters(self) -> list[Any]:
        return []

    async def connections(self) -> list[dict[str, Any]]:
        return []


def get(port: int, path: str, host: str = "localhost") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def served(ask: Callable[[int], Any]) -> Any:
    async def main() -> Any:
        listener = listen_admin(f"127.0.0.1:{free_ports()}")
        port = listener.getsockname()[1]
        server = AdminServer(listener, Source(), ["kproxy.example"])
        await server.start()
        try:
            return await asyncio.to_thread(ask, port)
        finally:
            await server.stop()

    return asyncio.run(main())


def test_it_answers() -> None:
    assert served(lambda port: get(port, "/healthz")) == (200, "ok\n")
    assert served(lambda port: get(port, "/readyz")) == (503, "not ready: worker 0\n")


@pytest.mark.parametrize(("host", "status"), [("kproxy.example", 200), ("127.0.0.1", 200), ("evil.example", 421)])
def test_only_by_names_that_are_ours(host: str, status: int) -> None:
    assert served(lambda port: get(port, "/healthz", host))[0] // 100 == status // 100


def test_an_endless_header_is_not_kept() -> None:
    def ask(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)
            return client.recv(100)

    assert b" 400 " in served(ask)
