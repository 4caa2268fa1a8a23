"""PageEntry: what the admin port answers below /page/api. It is loaded when it is first used, as most runs do without."""

from collections.abc import Callable

from starlette.responses import JSONResponse
from starlette.routing import Mount, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from kproxy.proxy.supervisor.fleet import Fleet

PATH = "/page/api"
OFF = "breakpoints are off: set page.edits in the configuration"


class PageEntry:
    """An ASGI application.

    Args:
        fleet: of which it shows the stopped messages.
        on_worker_ended: is given a function to call with the number of a worker whose process has ended.
    """

    def __init__(self, fleet: Fleet, on_worker_ended: Callable[[Callable[[int], None]], None]) -> None:
        self._fleet = fleet
        self._on_worker_ended = on_worker_ended
        self._loaded: ASGIApp | None = None

    def mount(self) -> Mount:
        """The route to it."""
        return Mount(PATH, self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification, version 3."""
        app: ASGIApp = JSONResponse({"error": OFF}, 404)
        if self._fleet.config.page.edits:
            self._loaded = app = self._loaded or self._load()
        await app(scope, receive, send)

    def _load(self) -> ASGIApp:
        from kproxy.proxy.supervisor.stop_pages import StopPages  # noqa: PLC0415 - see above
        from kproxy.proxy.supervisor.stopped import StoppedMessages  # noqa: PLC0415

        stopped = StoppedMessages(self._fleet)
        self._on_worker_ended(stopped.forget_worker)
        return Router(routes=StopPages(stopped).routes())
