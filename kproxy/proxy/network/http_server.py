"""Serve pages over HTTP: uvicorn's settings, for the supervisor and the live page."""

import asyncio

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_REQUESTS = 64  # at a time; further ones get 503
REQUEST_S = 30.0  # within which a request must arrive


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 on one connection, which is closed if no request comes.

    A client that connects and sends nothing, or a byte now and then, takes a place from scrapers and health checks. It is closed
    after REQUEST_S, or earlier when all places are taken: then the one that has waited for longest is closed.
    """

    _waits_until: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        waiting = [each for each in self.connections if isinstance(each, BoundedProtocol) and each.is_waiting]
        if len(self.connections) >= MOST_REQUESTS and len(waiting) > 1:
            min(waiting, key=BoundedProtocol.deadline).give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waits_until is not None:
            self._waits_until.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for another request."""
        self._wait()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP with 400, or close the connection if an answer may have begun."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    @property
    def is_waiting(self) -> bool:
        """Whether no complete request has arrived."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def deadline(self) -> float:
        """Return until when the connection may wait, by the event loop's clock."""
        return 0.0 if self._waits_until is None else self._waits_until.when()

    def give_up(self) -> None:
        """Close the connection, if it still waits for a request."""
        if self.is_waiting:
            self.connections.discard(self)
            self.transport.close()

    def _wait(self) -> None:
        if self._waits_until is not None:
            self._waits_until.cancel()
        self._waits_until = self.loop.call_later(REQUEST_S, self.give_up)


def server_settings(app: ASGIApp) -> uvicorn.Config:
    """Return uvicorn's settings for an application: only HTTP/1.1, bounded requests, no headers that identify the server."""
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # bytes that are not a request, from any client, are not worth a line in the log
        access_log=False,
        date_header=False,
        server_header=False,
        proxy_headers=False,  # the audit log has the client: a header must not claim another one
        limit_concurrency=MOST_REQUESTS,
        timeout_graceful_shutdown=1,
    )
