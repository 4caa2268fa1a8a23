"""Why the page's process has ended, as one line of the log."""

import asyncio
import re
import signal
from contextlib import suppress

KEPT = 4096  # bytes of what it wrote last
READ_S = 1.0  # how long the rest is waited for: a process that it started may hold the pipe open
# The last line of a traceback: its type. The text may quote traffic
EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit))(?::|$)")
OURS = "kproxy page: "  # before what the process says itself (kproxy.page.live.process, which is not imported here)
# it was asked to end, for example by systemd, which signals all processes of a service
ASKED = (0, -signal.SIGTERM, -signal.SIGINT)


class Ending:
    """Reads what the process of the page writes to standard error, and keeps the end of it.

    Args:
        stream: its standard error.
    """

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._tail = b""
        self._reading = asyncio.ensure_future(self._read())

    async def reason(self, code: int) -> str:
        """Return in words why the process ended; *code*: its exit code, as subprocess.Popen.returncode."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._reading, READ_S)
        explanation = self._said()
        if code >= 0:
            return explanation or f"it ended with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        hint = ", as the kernel does where memory is short" if -code == signal.SIGKILL else ""
        return f"{explanation}; {name}" if explanation else f"it was ended by {name}{hint}"

    def close(self) -> None:
        """Read no more."""
        self._reading.cancel()

    def _said(self) -> str:
        """Return what the process wrote about its end: its own sentence, or the type of an exception; "" if neither."""
        for line in reversed(self._tail.decode("utf-8", "replace").splitlines()):
            if line.startswith(OURS):
                return line.removeprefix(OURS)
            exception = EXCEPTION.match(line)
            if exception is not None:
                return exception[1]
        return ""

    async def _read(self) -> None:
        while data := await self._stream.read(KEPT):
            self._tail = (self._tail + data)[-KEPT:]
