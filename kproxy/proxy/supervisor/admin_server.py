"""AdminServer: the admin pages on their address, in the supervisor's event loop. PageEntry: /page/api, loaded when first used."""

import socket
from collections.abc import Callable, Iterable, Sequence

import uvicorn
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Mount, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from kproxy.protocol.addresses import parse_address
from kproxy.proxy.network.http_server import listen_for_pages, server_settings
from kproxy.proxy.supervisor.admin import admin_app
from kproxy.proxy.supervisor.browser_guard import BrowserGuard
from kproxy.proxy.supervisor.fleet import Fleet
from kproxy.proxy.supervisor.live_page import LivePage
from kproxy.proxy.supervisor.overview import Overview

PATH = "/page/api"
OFF = "breakpoints are off: set page.edits in the configuration"


def listen_admin(address: str) -> socket.socket:
    """Return a listening socket. Raises OSError if the address is in use or not one of this machine."""
    listener = listen_for_pages(*parse_address(address, any_host=True))
    listener.setblocking(False)
    return listener


class AdminServer:
    """Uvicorn without its main loop, which would wake up ten times a second to look for signals; the supervisor handles those."""

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


class PageEntry:
    """The ASGI application below /page/api: stopped messages and breakpoints of a fleet. Most runs never load it.

    Args:
        fleet: the fleet.
        on_worker_ended: registers a function that is called with the number of each worker whose process ends.
    """

    def __init__(self, fleet: Fleet, on_worker_ended: Callable[[Callable[[int], None]], None]) -> None:
        self._fleet = fleet
        self._on_worker_ended = on_worker_ended
        self._loaded: ASGIApp | None = None

    def mount(self) -> Mount:
        """Return the route to it."""
        return Mount(PATH, self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification, version 3."""
        app: ASGIApp = JSONResponse({"error": OFF}, 404)
        if self._fleet.config.page.edits:
            self._loaded = app = self._loaded or self._load()
        await app(scope, receive, send)

    def _load(self) -> ASGIApp:
        from kproxy.proxy.supervisor.stop_pages import StopPages  # noqa: PLC0415 - most runs do without
        from kproxy.proxy.supervisor.stopped import StoppedMessages  # noqa: PLC0415

        stopped = StoppedMessages(self._fleet)
        self._on_worker_ended(stopped.forget_worker)
        return Router(routes=StopPages(stopped, lambda: self._fleet.config.page.records).routes())
