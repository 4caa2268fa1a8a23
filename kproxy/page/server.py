"""The page as an ASGI application, and uvicorn on a loopback port."""

import socket
from collections.abc import Callable, Iterable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from kproxy.errors import KproxyError
from kproxy.page.answers import Answers, failed, no_such, wrong
from kproxy.page.security import Guard
from kproxy.page.store import Store

MOST_REQUESTS = 64  # at a time; the next get 503
BACKLOG = 64


def page_app(store: Store, token: str, hosts: Iterable[str] = ()) -> ASGIApp:
    """The ASGI application; *hosts* are names under which it may be asked, beside loopback ones and IP addresses."""
    handlers: dict[Any, Any] = {KproxyError: wrong, HTTPException: no_such, Exception: failed}
    routes = Answers(store, token).routes()
    return Guard(
        Starlette(routes=routes, exception_handlers=handlers), token, hosts
    )  # outside of what answers for failures


def serve(app: ASGIApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until the process is interrupted."""
    settings = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        date_header=False,
        server_header=False,
        limit_concurrency=MOST_REQUESTS,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(settings)
    ready()
    server.run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 for any that is free. Raises OSError."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener
