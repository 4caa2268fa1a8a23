"""Serving pages: the listening socket, and what a client sees of the server's settings."""

import asyncio
import errno
import http.client
import socket

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kproxy.proxy.network.http_server import listen_for_pages, server_settings
from tests.support.ports import free_ports


def test_answers_tell_nothing_of_the_server() -> None:
    def head(port: int) -> dict[str, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/")
        with connection.getresponse() as answer:
            answer.read()
            connection.close()
            return {name.lower(): value for name, value in answer.getheaders()}

    async def main() -> dict[str, str]:
        app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("here"))])
        with listen_for_pages("127.0.0.1", 0) as listener:
            server = uvicorn.Server(server_settings(app))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(server.serve([listener]))
                answered = await asyncio.to_thread(head, listener.getsockname()[1])
                server.should_exit = True
        return answered

    assert sorted(asyncio.run(main())) == ["content-length", "content-type"]


def test_an_address_in_use_is_an_error_and_one_that_was_left_is_free() -> None:
    with listen_for_pages("127.0.0.1", free_ports()) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match="in use") as caught:
            listen_for_pages("127.0.0.1", port)
        assert caught.value.errno == errno.EADDRINUSE
    listen_for_pages("127.0.0.1", port).close()


def test_without_a_host_it_is_reached_over_both_families() -> None:
    port = free_ports()
    with listen_for_pages("", port):
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port), 20).close()


def test_ipv6() -> None:
    try:
        listener = listen_for_pages("::1", free_ports())
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    assert listener.family == socket.AF_INET6
    listener.close()
