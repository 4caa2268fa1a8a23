"""The page as an ASGI application, and how it is served."""

import socket
from collections.abc import Callable, Iterable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from kproxy.errors import KproxyError
from kproxy.page.answers import Answers, failed, no_such, of_damaged, wrong
from kproxy.page.security import Guard
from kproxy.page.store import Store
from kproxy.proxy.network.http_server import server_settings


def page_app(store: Store, token: str, hosts: Iterable[str] = (), once: str = "") -> ASGIApp:
    """Return the ASGI application; the other arguments are those of Guard."""
    import duckdb  # noqa: PLC0415 - heavy, and an extra

    async def unanswered(_request: Request, error: Exception) -> Response:
        return await of_damaged(store, error)

    handlers: dict[Any, Any] = {
        KproxyError: wrong,
        HTTPException: no_such,
        duckdb.Error: unanswered,
        Exception: failed,
    }
    routes = Answers(store, token).routes()
    return Guard(
        Starlette(routes=routes, exception_handlers=handlers), token, hosts, once
    )  # outermost, so that answers about failures get its headers too


def serve(app: ASGIApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until the process is interrupted."""
    server = uvicorn.Server(server_settings(app))
    ready()
    server.run(sockets=[listener])
