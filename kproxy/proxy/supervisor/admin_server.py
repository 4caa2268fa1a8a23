"""The admin application on its address, in the supervisor's event loop."""

import socket
from collections.abc import Iterable, Sequence

import uvicorn
from starlette.routing import BaseRoute

from kproxy.protocol.addresses import parse_address
from kproxy.proxy.network.http_server import listen_for_pages, server_settings
from kproxy.proxy.supervisor.admin import admin_app
from kproxy.proxy.supervisor.browser_guard import BrowserGuard
from kproxy.proxy.supervisor.live_page import LivePage
from kproxy.proxy.supervisor.overview import Overview


def listen_admin(address: str) -> socket.socket:
    """A listening socket. Raises OSError where the address is in use or none of this machine's."""
    listener = listen_for_pages(*parse_address(address, any_host=True))
    listener.setblocking(False)
    return listener


class AdminServer:
    """Uvicorn without its main loop, which wakes up ten times a second to look for signals that are ours."""

    def __init__(
        self,
        listener: socket.socket,
        source: Overview,
        hosts: Iterable[str],
        guard: BrowserGuard | None = None,
        more: Sequence[BaseRoute] = (),
        page: LivePage | None = None,
    ) -> None:
        settings = server_settings(admin_app(source, hosts, guard=guard, more=more, page=page))
        settings.load()
        self._server = uvicorn.Server(settings)
        self._server.lifespan = settings.lifespan_class(settings)
        self._listener = listener

    async def start(self) -> None:
        """Answer from now on."""
        await self._server.startup(sockets=[self._listener])

    async def stop(self) -> None:
        """Accept no more and close what is open, within about a second."""
        await self._server.shutdown(sockets=[self._listener])
