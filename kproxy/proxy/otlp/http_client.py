"""OTLP/HTTP: posts to one URL over a connection that is kept open, by http.client in a thread; a time limit ends whatever hangs.

The thread is a daemon, so that a name server or a collector that hangs does not hold up the end of the process. It follows no
redirect and uses no proxy of the environment: what is exported goes where the configuration says.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    IncompleteRead,
    RemoteDisconnected,
)
from threading import Thread

from kproxy import __version__
from kproxy.proxy.otlp.transport import (
    LARGEST_ANSWER,
    LONGEST_WAIT_S,
    Outcome,
    Refused,
    Unavailable,
    outcome_of_answer,
)

RETRIED = (429, 502, 503, 504)
OK = range(200, 300)


class HttpClient:
    """Posts requests, one at a time; a Transport.

    Args:
        host, port, path: of the collector.
        headers: of each request.
        context: for TLS; None: in the clear.
        timeout: seconds for one request, connecting included.
    """

    def __init__(
        self,
        host: str,
        port: int,
        path: str,
        headers: Mapping[str, str],
        *,
        context: ssl.SSLContext | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._host, self._port, self._path = host, port, path
        self._headers = {
            "User-Agent": f"kproxy/{__version__}",
            "Content-Type": "application/x-protobuf",
            **headers,
        }
        self._context = context
        self._timeout = timeout
        self._too_late = f"no answer within {timeout:g} s"
        self._connection = self._new_connection()

    async def send(self, body: bytes) -> Outcome:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Outcome] = loop.create_future()
        connection = self._connection

        def answer(outcome: Outcome) -> None:
            if not answered.done():
                answered.set_result(outcome)

        def post() -> None:
            outcome = self._post(connection, body)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(answer, outcome)

        Thread(target=post, name="export", daemon=True).start()
        try:
            async with asyncio.timeout(self._timeout):
                return await answered
        except TimeoutError:
            self.close()
            return Unavailable(self._too_late)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, also for a thread that waits for it, and use another one from now on."""
        connection, self._connection = self._connection, self._new_connection()
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()

    def _new_connection(self) -> HTTPConnection:
        if self._context is None:
            return HTTPConnection(self._host, self._port, timeout=self._timeout)
        return HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)

    def _post(self, connection: HTTPConnection, body: bytes) -> Outcome:
        """Post a request and return what came of it; called in the thread."""
        try:
            response = self._response(connection, body)
            outcome = _outcome(response)
            if not response.isclosed():  # not read to its end
                connection.close()
            return outcome
        except ssl.SSLError as error:
            reason = f"TLS: {error.reason or 'the handshake failed'}"
        except (RemoteDisconnected, IncompleteRead):
            reason = "the connection was closed"
        except HTTPException as error:  # its text may quote what came
            connection.close()
            return Refused(f"the answer is not HTTP: {type(error).__name__}")
        except socket.gaierror as error:
            reason = f"{self._host}: {error.strerror}"
        except TimeoutError:  # the socket's own, which may come first
            reason = self._too_late
        except (OSError, EOFError) as error:
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        connection.close()
        return Unavailable(reason)

    def _response(self, connection: HTTPConnection, body: bytes) -> HTTPResponse:
        """Send a request and return its response; if the connection was closed while it was idle, over a new one."""
        was_open = connection.sock is not None
        try:
            connection.request("POST", self._path, body, self._headers)
            return connection.getresponse()
        except ConnectionError:
            if not was_open:
                raise
        connection.close()
        connection.request("POST", self._path, body, self._headers)
        return connection.getresponse()


def _outcome(response: HTTPResponse) -> Outcome:
    """Read the body of a response; return the outcome. Raises EOFError if the body ends too early."""
    length = response.getheader("Content-Length", "0")
    if not (length.isascii() and length.isdigit()):
        raise HTTPException
    answer = response.read(LARGEST_ANSWER + 1)
    if len(answer) <= LARGEST_ANSWER and response.length:
        raise EOFError("the connection was closed")
    if response.status in RETRIED:
        return Unavailable(f"HTTP {response.status}", _retry_after(response))
    if response.status not in OK:
        return Refused(f"HTTP {response.status}")
    if len(answer) > LARGEST_ANSWER:
        return Refused(f"the answer has more than {LARGEST_ANSWER:,} bytes")
    return outcome_of_answer(answer)


def _retry_after(response: HTTPResponse) -> float:
    """Return the seconds of a Retry-After header. A date is ignored, as it would need a clock that can be trusted."""
    value = response.getheader("Retry-After", "")
    return min(float(value), LONGEST_WAIT_S) if value.isascii() and value.isdigit() and len(value) < 10 else 0.0
