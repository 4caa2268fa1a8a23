"""Open the sources that a person names, and serve the page: an ASGI application."""

import asyncio
import ctypes
import signal
import socket
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import uvloop
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from kproxy.analyses.loading import Kind, identify_source
from kproxy.errors import KproxyError, UsageError
from kproxy.page.answers import Answers, failed, no_such, of_damaged, wrong
from kproxy.page.recorded import MOST_KEPT, Recorded
from kproxy.page.security import Guard
from kproxy.page.store import Store
from kproxy.page.tables import Tabled
from kproxy.pipeline.run import Options
from kproxy.proxy.network.http_server import PageServer

M_MMAP_THRESHOLD = -3  # malloc.h of glibc
APART = 8_192  # bytes


def page_app(store: Store, token: str, hosts: Iterable[str] = (), once: str = "") -> ASGIApp:
    """Return the ASGI application; the other arguments are those of Guard."""
    import duckdb  # noqa: PLC0415 - heavy, and an extra

    handlers: dict[Any, Any] = {KproxyError: wrong, HTTPException: no_such, Exception: failed}
    handlers[duckdb.Error] = partial(of_damaged, store)
    app = Starlette(routes=Answers(store, token).routes(), exception_handlers=handlers)
    return Guard(app, token, hosts, once)  # outermost, so that answers about failures get its headers too


def serve(app: ASGIApp, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Answer until the process is interrupted, which may be right after *ready*."""

    async def work() -> None:
        interrupted = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
        server = PageServer(app, listener)
        await server.start()
        ready()
        await interrupted.wait()
        await server.stop()

    uvloop.run(work())


def open_sources(
    sources: Sequence[Path],
    options: Options = Options(),  # noqa: B008 - frozen
    *,
    most: int = MOST_KEPT,
    spill: Path | None = None,
    separate: bool = False,
) -> Store:
    """Return the store of these sources; captures and logs are read while it is used. Raises UsageError for what is no source."""
    identified = [identify_source(source) for source in sources]
    kinds = {source.kind for source in identified}
    if len(kinds) > 1:
        raise UsageError("directories of tables cannot be opened together with captures or logs")
    if kinds == {Kind.TABLES}:
        return Tabled([source.path for source in identified])
    store = Recorded([source.path for source in identified], options, most, spill, separate=separate)
    try:
        store.start()
    except UsageError:
        store.close()
        raise
    return store


def keep_large_blocks_apart() -> None:
    """Have malloc map each large block by itself (mallopt(3)), in all of this process from now on.

    The compressed blocks that stay are allocated between large buffers that are freed. On the common heap these freed buffers
    would take several times the bytes of the blocks, as glibc raises the threshold with each of them. Without glibc nothing
    changes.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, APART)
