"""The pages of the admin port with which breakpoints are set and stopped messages changed. Off unless page.edits is set.

    GET  /page/api/breakpoints       [{"condition": CEL, "direction": "request" | "response"}]
    PUT  /page/api/breakpoints       the same; 400 {"error"} for a condition that cannot be used
    POST /page/api/breakpoints/check a breakpoint: {"apis": names of the APIs that it may stop, "all": whether these are all that
                                     can be stopped}, or 422 {"error", "column": from 1 or null, "length": in characters}
    GET  /page/api/stops             {"generation": n, "nowMs": n, "total": n, "stops": [STOP], "breakpoints": as above,
                                     "givenUp": [{"condition", "direction", "why": in sentences}]: breakpoints that were given
                                     up, as they take too long;
                                     "ended": [{"id", "action", "by", "why", "how"}]: the latest stops that have ended};
                                     waits for another
                                     generation with ?after=GENERATION&wait=SECONDS; ?limit= stops, the oldest
    GET  /page/api/stops/errors      [{"code", "name", "meaning", "retriable", "clients"}]: the errors that an answer can have
    GET  /page/api/stops/ID          STOP, with "json": the body as text to edit. Without page.records, each records field is
                                     {"withheld": n, "bytes": n} in it: left where it is, it is sent as it came
    POST /page/api/stops/ID          {"action": "resume" | "replace" | "error" | "drop" | "close" | "keep"} and, of replace,
                                     "json"; of error, "error": NAME; of keep, "seconds" from now
    POST /page/api/stops/check       {"id", "json"}: {"json", "size", "changed"} as it would be sent, or 422 {"error", "path",
                                     "line", "column"}
    POST /page/api/stops/rule        {"id", "action", ...} as above: {"yaml"}, the rule to keep, or 422 {"error"}
    POST /page/api/stops/resume-all  {"resumed": n}

Every request needs the token of the page's address (browser_guard.py). STOP is messages.Stop in camel case.
"""

import functools
import json
from collections.abc import Awaitable, Callable
from time import time_ns
from typing import Any, TypeVar, cast

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from kproxy.errors import ProtocolError, UsageError, did_you_mean
from kproxy.filters.breakpoints.breakpoint import Breakpoint, BreakpointMistake, stoppable_apis
from kproxy.filters.breakpoints.decision import Action, how_it_ended
from kproxy.filters.breakpoints.described import DescribedContents
from kproxy.filters.breakpoints.editing import MOST_TEXT_SIZE, Mistake, changed_paths, from_json, shown
from kproxy.filters.breakpoints.filter import message_of
from kproxy.filters.breakpoints.kept_rules import NoRule, kept_rule
from kproxy.options import quoted
from kproxy.protocol.error_codes import ErrorCode, error_codes
from kproxy.protocol.expressions import located
from kproxy.protocol.facts import facts
from kproxy.proxy.codec_thread import in_codec_thread
from kproxy.proxy.messages import Decide, Stop
from kproxy.proxy.stops import ACTIONS
from kproxy.proxy.supervisor.stopped import MOST_SHOWN, NotDone, StoppedMessages
from kproxy.schemas.settings import SchemaSources
from kproxy.schemas.store import SCHEMAS_S, Schemas

MOST_ENDS_SHOWN = 100
MOST_BODY = 32 << 20  # bytes of a request: JSON is longer than what it describes
Answer = Callable[[Request], Awaitable[Response]]
T = TypeVar("T")


class StopRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request about a stopped message."""

    id: str = ""
    action: str = "replace"
    json: str | None = None
    error: str | None = None
    seconds: float | None = None


class Refused(Exception):
    """An answer that refuses a request, with the reason."""

    def __init__(self, status: int, error: str, **more: Any) -> None:
        super().__init__(error)
        self.status = status
        self.answer = {"error": error, **more}


class StopPages:
    """The pages below /page/api.

    Args:
        stopped: the messages that are stopped, and the breakpoints.
        shows_records: returns whether contents of records may be shown (page.records).
        sources: returns the sources of schemas (schemas in the configuration).
    """

    def __init__(
        self,
        stopped: StoppedMessages,
        shows_records: Callable[[], bool] = lambda: False,
        sources: Callable[[], SchemaSources] = SchemaSources,
    ) -> None:
        self._stopped = stopped
        self._shows_records = shows_records
        self._sources = sources
        self._schemas: tuple[SchemaSources, Schemas] | None = None

    def routes(self) -> list[Route]:
        return [
            Route("/breakpoints", self._guarded(self._breakpoints)),
            Route("/breakpoints", self._guarded(self._set), methods=["PUT"]),
            Route("/breakpoints/check", self._guarded(self._check_breakpoint), methods=["POST"]),
            Route("/stops", self._guarded(self._stops)),
            Route("/stops/errors", self._guarded(self._errors)),
            Route("/stops/check", self._guarded(self._check), methods=["POST"]),
            Route("/stops/rule", self._guarded(self._rule), methods=["POST"]),
            Route("/stops/resume-all", self._guarded(self._resume_all), methods=["POST"]),
            Route("/stops/{id}", self._guarded(self._stop)),
            Route("/stops/{id}", self._guarded(self._decide), methods=["POST"]),
        ]

    def _guarded(self, answer: Answer) -> Answer:
        """Return a handler that turns refusals into answers, and notes that a page is open."""

        async def guarded(request: Request) -> Response:
            try:
                self._stopped.look()
                return await answer(request)
            except Refused as refused:
                return _json(refused.answer, refused.status)
            except NotDone as error:
                return _json({"error": str(error)}, 409)

        return guarded

    async def _breakpoints(self, _request: Request) -> Response:
        return _json(msgspec.to_builtins(self._stopped.breakpoints))

    async def _set(self, request: Request) -> Response:
        wanted = await _sent(request, list[Breakpoint])
        try:
            await self._stopped.use(wanted, _by(request))
        except BreakpointMistake as error:
            raise Refused(400, str(error), column=error.wrong.column, length=error.wrong.length) from error
        except ValueError as error:
            raise Refused(400, str(error)) from error
        return _json(msgspec.to_builtins(self._stopped.breakpoints))

    async def _check_breakpoint(self, request: Request) -> Response:
        wanted = await _sent(request, Breakpoint)
        try:
            apis = await in_codec_thread(lambda: stoppable_apis(wanted))
        except ValueError as error:
            wrong = located(str(error), wanted.condition, "condition")
            raise Refused(422, wrong.sentence, column=wrong.column, length=wrong.length) from error
        return _json({"apis": apis, "all": len(apis) == _stoppable_count()})

    async def _errors(self, _request: Request) -> Response:
        errors = [one for one in error_codes().values() if one.code != ErrorCode.NONE]
        shown = [
            {
                "code": one.code,
                "name": one.name,
                "meaning": one.meaning,
                "retriable": one.retriable,
                "clients": one.then,
            }
            for one in errors
        ]
        return _json(shown)

    async def _stops(self, request: Request) -> Response:
        query = request.query_params
        try:
            after, wait = int(query.get("after", -1)), float(query.get("wait", 0))
            limit = int(query.get("limit", MOST_SHOWN))
        except ValueError:
            raise Refused(400, "after, wait and limit are numbers") from None
        if wait > 0:
            await self._stopped.news(after, wait)
        stops = self._stopped.stops()
        shown = {
            "generation": self._stopped.generation,
            "nowMs": time_ns() // 1_000_000,
            "total": len(stops),
            "stops": [_shown_stop(stop) for stop in stops[: max(limit, 0)]],
            "ended": [
                {**msgspec.structs.asdict(one), "how": how_it_ended(one.action, one.by, one.why)}
                for one in self._stopped.ended(MOST_ENDS_SHOWN)
            ],
            "breakpoints": msgspec.to_builtins(self._stopped.breakpoints),
            "givenUp": [{**msgspec.to_builtins(one), "why": why} for one, why in self._stopped.given_up.items()],
        }
        return _json(shown)

    async def _stop(self, request: Request) -> Response:
        stop = self._stopped.stop(request.path_params["id"])
        body = await self._stopped.body(stop.id)
        try:
            text = await in_codec_thread(lambda: self._shown(stop, body, body))
        except ProtocolError as error:
            raise Refused(422, str(error)) from error
        return _json({**_shown_stop(stop), "json": text})

    async def _decide(self, request: Request) -> Response:
        sent = await _sent(request, StopRequest)
        stop = self._stopped.stop(request.path_params["id"])
        if sent.action not in (*ACTIONS, "keep"):
            raise Refused(400, f"there is no action {quoted(sent.action)}: {did_you_mean(sent.action, ACTIONS)}")
        body = await self._edited(stop, sent) if sent.action == "replace" else b""
        error = _error(stop, sent) if sent.action == "error" else 0
        decision = Decide(0, stop.id, sent.action, _by(request), error, sent.seconds or 0.0)
        await self._stopped.decide(stop.id, decision, body)
        return _json({"done": True})

    async def _check(self, request: Request) -> Response:
        sent = await _sent(request, StopRequest)
        stop = self._stopped.stop(sent.id)
        before = await self._stopped.body(stop.id)
        after = await self._edited(stop, sent, before)
        message = message_of(stop.direction, stop.api_key)
        text = await in_codec_thread(lambda: self._shown(stop, after, before))
        changed = await in_codec_thread(lambda: changed_paths(message, stop.api_version, before, after))
        return _json({"json": text, "size": len(after), "changed": changed})

    async def _rule(self, request: Request) -> Response:
        sent = await _sent(request, StopRequest)
        stop = self._stopped.stop(sent.id)
        before = await self._stopped.body(stop.id) if sent.action == "replace" else b""
        after = await self._edited(stop, sent, before) if sent.action == "replace" else b""
        error = _error(stop, sent) if sent.action == "error" else 0
        message = message_of(stop.direction, stop.api_key)
        about = (stop.condition, stop.direction, message, stop.api_version, cast(Action, sent.action))
        try:
            return _json({"yaml": kept_rule(*about, error=error, before=before, after=after)})
        except NoRule as why:
            raise Refused(422, str(why)) from why

    async def _resume_all(self, request: Request) -> Response:
        return _json({"resumed": await self._stopped.resume_all(_by(request))})

    def _shown(self, stop: Stop, body: bytes, original: bytes) -> str:
        """Return a body as JSON. *original*: the body as it came, whose records are not shown without page.records."""
        message = message_of(stop.direction, stop.api_key)
        if self._shows_records():
            return shown(message, stop.api_version, body, contents=self._contents())
        return shown(message, stop.api_version, body, original)

    def _contents(self) -> DescribedContents | None:
        """Return what shows keys and values by their schemas, in the codec thread, as a registry may be asked."""
        if not self._shows_records():
            return None
        sources = self._sources()
        try:
            if self._schemas is None or self._schemas[0] != sources:
                self._schemas = sources, sources.open(wait_s=SCHEMAS_S)
        except UsageError:  # a folder that is gone; the filters that need it say so
            return None
        return DescribedContents(self._schemas[1])

    async def _edited(self, stop: Stop, sent: StopRequest, before: bytes | None = None) -> bytes:
        """Return the body that the edited text describes."""
        message = message_of(stop.direction, stop.api_key)
        original = await self._stopped.body(stop.id) if before is None else before
        text = sent.json
        if text is None:
            raise Refused(400, "give the message as json")
        try:
            after = await in_codec_thread(
                lambda: from_json(message, stop.api_version, text, original, self._contents())
            )
        except Mistake as error:
            raise Refused(422, str(error), path=error.path, line=error.line, column=error.column) from error
        if len(after) > MOST_TEXT_SIZE:
            raise Refused(422, f"the message would have {len(after):,} bytes, and {MOST_TEXT_SIZE:,} are allowed")
        return after


@functools.cache
def _stoppable_count() -> int:
    """Return how many APIs have messages that can be stopped."""
    return len(stoppable_apis(Breakpoint("true")))


def _error(stop: Stop, sent: StopRequest) -> int:
    if not stop.can_fail:
        raise Refused(
            422, f"a response of {facts().apis[stop.api_key].name} has no place for an error: drop or close it"
        )
    name = sent.error or ""
    if name not in ErrorCode.__members__ or name == "NONE":
        raise Refused(422, f"there is no error {quoted(name)}: {did_you_mean(name, ErrorCode.__members__)}")
    return int(ErrorCode[name])


def _shown_stop(stop: Stop) -> dict[str, Any]:
    """Return a stop as JSON, with the name of its API."""
    return {**msgspec.to_builtins(stop), "api": facts().apis[stop.api_key].name}


def _by(request: Request) -> str:
    return f"{request.client.host}:{request.client.port}" if request.client is not None else "unknown"


async def _sent(request: Request, kind: type[T]) -> T:
    """Decode a request of up to MOST_BODY bytes. Values for which *kind* has no field are not built: 32 MiB take 40 ms."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > MOST_BODY:
                raise Refused(413, f"a request has at most {MOST_BODY:,} bytes")
    except ClientDisconnect:
        raise Refused(400, "the request has not come whole") from None
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"the request is wrong: {error}") from None


def _json(value: Any, status: int = 200) -> Response:
    """Return JSON in ASCII, as text from traffic may hold surrogates, which UTF-8 cannot."""
    return Response(json.dumps(value), status, media_type="application/json")
