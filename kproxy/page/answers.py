"""Answer each URL of the page, as the package docstring of kproxy.page describes it."""

import asyncio
import html
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import msgspec
from markdown_it import MarkdownIt
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from kproxy import __version__
from kproxy.errors import UsageError
from kproxy.manual import TOPICS, text
from kproxy.page import findings
from kproxy.page.activity import activity, groups, heatmap
from kproxy.page.columns import COLUMNS, SHOWN
from kproxy.page.detail import bytes_of, compare, detail_of
from kproxy.page.exporting import MOST_SECONDS as EXPORT_SECONDS
from kproxy.page.exporting import Selection, in_pieces
from kproxy.page.filtering.completion import complete
from kproxy.page.filtering.filter import FilterError
from kproxy.page.filtering.parts import searched_texts
from kproxy.page.findings import Findings
from kproxy.page.replaying import MOST_SECONDS as MOST_REPLAY_SECONDS
from kproxy.page.replaying import Chosen, Replaying, Wanted
from kproxy.page.security import refusal
from kproxy.page.store import Store
from kproxy.page.work import MOST_SECONDS, Cancelled, Work
from kproxy.protocol.embedded.payload import to_json
from kproxy.protocol.vocabulary import Scope, fields_in

EVENTS_S = 0.25  # between two checks for changes
KEEP_ALIVE_S = 15.0
INSTANCE = token_hex(8)  # identifies this process: exchange numbers restart with each process
MOST_NUMBER = (1 << 63) - 1  # of an exchange, and nanoseconds
MOST_DAMAGES = 3  # named in an answer
POLL_S = 0.05  # between two checks whether the browser still waits
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

T = TypeVar("T")


class Answers:
    """The answers for one store.

    Args:
        store: the exchanges that are open.
        token: what requests that change something need in a header.
    """

    def __init__(self, store: Store, token: str) -> None:
        self._store = store
        self._token = token
        self._findings = Findings(store)
        self._replaying = Replaying(store)
        self._static = {one.name: one for one in files("kproxy.page").joinpath("static").iterdir()}

    def routes(self) -> list[Route]:
        return [
            Route("/", self.index),
            Route("/page/static/{name}", self.static),
            Route("/page/help/{topic}", self.manual),
            Route("/page/api/source", self.source),
            Route("/page/api/exchanges", self.exchanges),
            Route("/page/api/exchanges/{number}", self.exchange),
            Route("/page/api/exchanges/{number}/{side}", self.frame),
            Route("/page/api/position", self.position),
            Route("/page/api/activity", self.activity),
            Route("/page/api/heatmap", self.heatmap),
            Route("/page/api/groups", self.groups),
            Route("/page/api/analyses", self.analyses),
            Route("/page/api/analyses/{name}", self.analysis),
            Route("/page/api/compare", self.compare),
            Route("/page/api/complete", self.complete),
            Route("/page/api/command", self.command),
            Route("/page/api/export", self.export),
            Route("/page/api/events", self.events),
            Route("/page/api/replay/plan", self.replay_plan, methods=["POST"]),
            Route("/page/api/replay", self.replay, methods=["POST"]),
        ]

    async def index(self, _request: Request) -> Response:
        return HTMLResponse(self._static["index.html"].read_bytes())

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        path, kind = self._static.get(name), TYPES.get(name[name.rfind(".") :])
        if path is None or kind is None:
            return refusal(404, "there is no such file")
        return Response(path.read_bytes(), headers={"content-type": kind})

    async def manual(self, request: Request) -> Response:
        topic = request.path_params["topic"]
        if topic not in TOPICS:
            return refusal(404, f"the manual has no such topic; it has {', '.join(TOPICS)}")
        return HTMLResponse(await run_in_threadpool(manual_page, topic))

    async def source(self, _request: Request) -> Response:
        store = self._store
        return _json(
            await run_in_threadpool(_news, store)
            | {
                "name": store.name,
                "version": __version__,
                "live": store.live,
                "editable": store.editable,
                "mayHaveEdits": store.may_have_edits,
                "clientAddresses": list(store.client_addresses),
                "token": self._token,
                "mostBytes": store.most_size,
                "fed": store.fed,
                "grown": await run_in_threadpool(store.grown),
                "columns": [
                    {"name": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning, "shown": c.shown}
                    for c in COLUMNS.values()
                ],
                "names": [
                    {"name": field.name, "type": field.type, "meaning": field.meaning}
                    for field in fields_in(Scope.LOG).values()
                ],
            }
        )

    async def exchanges(self, request: Request) -> Response:
        """Return some rows of a view."""
        query = request.query_params
        names = query.get("columns")
        columns = SHOWN if names is None else tuple(filter(None, names.split(",")))
        offset, limit = _whole_number(query.get("offset"), 0), _whole_number(query.get("limit"), 100)
        condition, sort = query.get("filter", ""), query.get("sort") or self._store.default_sort
        page = await answer(request, lambda work: self._store.page(work, condition, sort, offset, limit, columns))
        shown = msgspec.structs.asdict(page) | {"texts": searched_texts(condition)}
        return _json(shown, BackgroundTask(self._store.worker.start))  # a filter comes next

    async def position(self, request: Request) -> Response:
        """Return the place of an exchange in a view."""
        query = request.query_params
        number, condition = _whole_number(query.get("number"), 0), query.get("filter", "")
        sort = query.get("sort") or self._store.default_sort
        offset = await answer(request, lambda work: self._store.index(work, condition, sort).offset_of(number))
        return _json({"offset": offset})

    async def exchange(self, request: Request) -> Response:
        number = _whole_number(request.path_params["number"], 0)
        detail = await answer(request, lambda work: detail_of(self._store, number))
        return refusal(404, f"there is no exchange {number} here (any more)") if detail is None else _json(detail)

    async def frame(self, request: Request) -> Response:
        number, side = _whole_number(request.path_params["number"], 0), request.path_params["side"]
        if side not in ("request", "response"):
            return refusal(404, "an exchange has a request and a response")
        data = await answer(request, lambda work: bytes_of(self._store, number, side))
        if data is None:
            return refusal(404, f"there are no bytes of the {side} of exchange {number} here (any more)")
        return Response(data, media_type="application/octet-stream", headers=_download(f"{side}-{number}.bin"))

    async def activity(self, request: Request) -> Response:
        """Return counts of exchanges over time."""
        query, span = request.query_params, _span(request)
        by, condition = query.get("by", "api"), query.get("filter", "")
        return _json(await answer(request, lambda work: activity(self._store, work, condition, by, *span)))

    async def heatmap(self, request: Request) -> Response:
        """Return latencies over time."""
        condition, span = request.query_params.get("filter", ""), _span(request)
        return _json(await answer(request, lambda work: heatmap(self._store, work, condition, *span)))

    async def groups(self, request: Request) -> Response:
        _, start, end = _span(request)
        return _json(await answer(request, lambda work: groups(self._store, work, start, end)))

    async def analyses(self, _request: Request) -> Response:
        return _json(self._findings.list())

    async def analysis(self, request: Request) -> Response:
        name, (_, start, end) = request.path_params["name"], _span(request)
        result = await answer(request, lambda work: self._findings.run(work, name, start, end), findings.MOST_SECONDS)
        return refusal(404, f"there is no analysis {name[:60]!r}") if result is None else _json(result)

    async def compare(self, request: Request) -> Response:
        """Return the differences between two exchanges."""
        a, b = (_whole_number(request.query_params.get(name), 0) for name in ("a", "b"))
        differences = await answer(request, lambda work: compare(self._store, a, b))
        if differences is None:
            return refusal(404, "one of these exchanges is not here (any more)")
        return _json(differences)

    async def complete(self, request: Request) -> Response:
        """Complete a filter, or the condition of a breakpoint, at the cursor."""
        text, of = request.query_params.get("text", ""), request.query_params.get("of", "filter")
        cursor = _whole_number(request.query_params.get("cursor"), len(text))
        return _json(await answer(request, lambda work: complete(self._store, work, text, cursor, of)))

    async def command(self, request: Request) -> Response:
        """Return the commands that give a selection in a terminal."""
        form, selection = self._selection(request)
        return _json(await answer(request, lambda work: selection.commands(form)))

    async def export(self, request: Request) -> Response:
        form, selection = self._selection(request)
        if form == "jsonl":
            lines, kind = await answer(request, selection.lines), "application/x-ndjson"
            return StreamingResponse(in_pieces(lines), media_type=kind, headers=_download("exchanges.jsonl"))
        kind = "application/octet-stream"
        if self._store.live and form.startswith("pcapng"):
            made = await answer(request, lambda work: selection.packets(work, form), EXPORT_SECONDS)
            return StreamingResponse(made[1], media_type=kind, headers=_download(made[0]))
        folder = TemporaryDirectory(prefix="kproxy-")
        try:
            target = Path(folder.name)
            path: Path = await answer(request, lambda work: selection.write(work, form, target), EXPORT_SECONDS)
        except BaseException:
            folder.cleanup()
            raise
        done = BackgroundTask(folder.cleanup)
        return FileResponse(path, media_type=kind, headers=_download(path.name), background=done)

    def _selection(self, request: Request) -> tuple[str, Selection]:
        """Return format and exchanges of a request for a selection."""
        query, (_, start, end) = request.query_params, _span(request)
        return query.get("format", "jsonl"), Selection(self._store, query.get("filter", ""), start, end)

    async def replay_plan(self, request: Request) -> Response:
        """Return the plan of a replay: what it would send."""
        wanted = await _sent(request, Wanted)
        return _json(await answer(request, lambda work: self._replaying.plan(work, wanted), MOST_REPLAY_SECONDS))

    async def replay(self, request: Request) -> Response:
        chosen = await _sent(request, Chosen)
        return _json(await answer(request, lambda work: self._replaying.send(work, chosen), MOST_REPLAY_SECONDS))

    async def events(self, request: Request) -> Response:
        """Send news of the store as server-sent events."""
        return StreamingResponse(self._events(request), media_type="text/event-stream")

    async def _events(self, request: Request) -> AsyncIterator[bytes]:
        store, last_sent, quiet = self._store, None, 0.0
        while not await request.is_disconnected():
            now = store.generation, store.loading, store.narrowed.now
            if now != last_sent:
                last_sent, quiet = now, 0.0
                rows = await run_in_threadpool(_news, store)
                yield b"event: rows\ndata: " + to_json(rows) + b"\n\n"
            elif quiet >= KEEP_ALIVE_S:
                quiet = 0.0
                yield b": still here\n\n"
            await asyncio.sleep(EVENTS_S)
            quiet += EVENTS_S


async def _sent(request: Request, kind: type[T]) -> T:
    """Return the values in the JSON body of a request. Raises HTTPException."""
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HTTPException(400, f"the request is wrong: {error}") from None


def _news(store: Store) -> dict[str, Any]:
    """Return what may change of a source while it is open."""
    try:
        first, last = store.times()
    except UsageError:  # a damaged source: "damages" says so
        first = last = None
    return {
        "exchanges": store.exchanges,
        "bytes": store.size,
        "left": store.left,
        "dropped": store.dropped,
        "seen": store.seen,
        "share": store.share,
        "damages": store.damages,
        "unread": store.unread,
        "narrowed": store.narrowed.now,
        "instance": INSTANCE,
        "generation": store.generation,
        "firstNs": None if first is None else str(first),
        "lastNs": None if last is None else str(last),
        "loading": msgspec.to_builtins(store.loading),
        "spill": msgspec.to_builtins(store.spill),
    }


def _download(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"'}


def _span(request: Request) -> tuple[int, int | None, int | None]:
    """Return the number of buckets, and both ends of the span in nanoseconds; None where an end is not given."""
    query = request.query_params
    ends = [_whole_number(query[name], 0) if query.get(name) else None for name in ("fromNs", "toNs")]
    return _whole_number(query.get("buckets"), 120), ends[0], ends[1]


def _whole_number(text: str | None, otherwise: int) -> int:
    if not text:
        return otherwise
    if not text.isascii() or not text.isdecimal() or len(text) > 19 or int(text) > MOST_NUMBER:
        raise HTTPException(400, f"{text[:40]!r} is no whole number from 0 to {MOST_NUMBER:,}")
    return int(text)


def _json(value: Any, background: BackgroundTask | None = None) -> Response:
    return Response(to_json(value), media_type="application/json", background=background)


async def wrong(_request: Request, error: Exception) -> Response:
    if isinstance(error, Cancelled):
        return refusal(503, str(error))
    if isinstance(error, FilterError):
        return refusal(400, str(error), error.column, error.length)
    return refusal(400, str(error))


async def of_damaged(store: Store, _request: Request, error: Exception) -> Response:
    """Answer with the damages of the sources; raise *error* where there are none."""
    damages = await run_in_threadpool(store.look_for_damages)
    if damages:
        return refusal(400, "; ".join(damages[:MOST_DAMAGES]))
    raise error


async def failed(_request: Request, error: Exception) -> Response:
    """Answer that kproxy has failed; the traceback is on standard error."""
    return refusal(500, f"kproxy could not answer ({type(error).__name__}); what happened is on its standard error")


async def answer(request: Request, function: Callable[[Work], Any], seconds: float = MOST_SECONDS) -> Any:
    """Return what *function* returns in a thread; cancel it once the browser has disconnected. Raises Cancelled."""
    work = Work(seconds)
    task = asyncio.ensure_future(run_in_threadpool(function, work))
    try:
        while not task.done():
            await asyncio.wait([task], timeout=POLL_S)
            if not task.done() and await request.is_disconnected():
                work.cancel()
        return task.result()
    except asyncio.CancelledError:
        work.cancel()
        raise


async def no_such(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, error.detail)


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{topic} - kproxy</title>
<link rel="icon" href="/page/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/page/static/page.css">
</head>
<body class="manual">
<nav aria-label="Topics"><a href="/">kproxy</a>{links}</nav>
<main>
{body}</main>
</body>
</html>
"""


def manual_page(topic: str) -> str:
    """Return the HTML document of *topic*. Raises UsageError when there is no such topic."""
    links = "".join(
        f'<a href="/page/help/{name}" title="{html.escape(line)}"{" aria-current=page" if name == topic else ""}>{name}</a>'
        for name, line in TOPICS.items()
    )
    return _PAGE.format(topic=html.escape(topic), links=links, body=_MARKDOWN.render(text(topic)))
