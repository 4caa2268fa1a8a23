"""Pages over HTTP: the listening socket, and how uvicorn serves an ASGI application on it, in the supervisor and in the page."""

import socket

import uvicorn
from starlette.types import ASGIApp

from kproxy.proxy.network.listening import unbound_socket

MOST_REQUESTS = 64  # at a time; the next get 503
BACKLOG = 64


def listen_for_pages(host: str, port: int) -> socket.socket:
    """A listening socket; "" for all addresses of both families, port 0 for any that is free.

    Raises OSError where the address is in use or none of this machine's.
    """
    listener, name = unbound_socket(host, port)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(name)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def server_settings(app: ASGIApp) -> uvicorn.Config:
    """How an application is served: HTTP/1.1 alone, a bounded number of requests, nothing in headers that tells of the server."""
    return uvicorn.Config(
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
