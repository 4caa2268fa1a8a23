"""A chain with the filter faults, and the broker behind it: what the broker gets, and what the client gets."""

from collections.abc import Awaitable
from typing import Any

from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Answer, Close, Cut, Outcome, Request, RequestFacts, Send, Silence
from kproxy.filters.error_responses import error_response
from kproxy.filters.faults import FaultInjection
from kproxy.options import read_options
from kproxy.protocol import (
    Direction,
    known_message,
    message,
    read_request_header,
    response_header_version,
)
from kproxy.proxy.filter_runtime import FilterRuntime, Journals
from kproxy.proxy.shared_state import SharedCounts
from tests.support.filtering import connection
from tests.support.messages import request_frame, response_frame

NO_ERROR = 0


def success(api_key: int, version: int, asked: Any) -> Any:
    """A response that says of everything asked for that it went well."""
    return error_response(Request(connection(), api_key, version, 7, None, asked), NO_ERROR)


class Injected:
    """The filter with some faults, before a broker that agrees to everything.

    ``ask`` returns the decoded response, "closed", "silent", ("cut", bytes), or None where nothing is answered.
    """

    def __init__(self, *faults: dict[str, Any]):
        self.counts = SharedCounts.create()
        self.runtime = FilterRuntime("default", Journals(), counts=self.counts)
        self.slept: list[float] = []
        self.runtime.sleep = self._sleep  # type: ignore[method-assign]
        self.runtime.shared_set = lambda name: BoundedSet()  # type: ignore[method-assign, assignment, misc]
        self.filter = FaultInjection(read_options(FaultInjection.Options, {"faults": list(faults)}))  # type: ignore
        self.chain = Chain([self.filter], runtime=self.runtime)
        self.at = connection()
        self.got: list[Any] = []  # the requests that the broker got
        self.frames: list[bytes] = []  # the responses that the client gets
        self.answers: list[Any] = []  # what it answers instead of success
        self.reply_version: int | None = None  # of what the filter answers, if another than the request's

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def fired(self, name: str) -> int:
        """How often a fault has fired."""
        return self._count("fired", name)

    def calls(self, name: str) -> int:
        """How many calls it had."""
        return self._count("calls", name)

    def _count(self, event: str, name: str) -> int:
        return next(row.count for row in self.counts.rows() if (row.event, row.name) == (event, name))

    def ask(self, name: str, version: int, asked: Any, number: int = 7, at: Any = None) -> Any:
        """Send a request through the filter, and its response back."""
        codec = message(f"{name}Request")
        frame = request_frame(f"{name}Request", version, asked, number)
        at = at or self.at
        outcome = _now(self.chain.on_request(at, frame))
        if not isinstance(outcome, Send):
            return self._shown(codec.api_key, version, outcome)
        start = 4 + read_request_header(outcome.frame, 4).size
        self.got.append(codec.decode(version, outcome.frame, start))
        made = self.answers.pop(0) if self.answers else success(codec.api_key or 0, version, self.got[-1])
        if getattr(asked, "acks", 1) == 0:
            return None
        facts = outcome.request or RequestFacts(codec.api_key or 0, version, number)
        body = message(f"{name}Response").encode(version, made)
        back = response_frame(codec.api_key or 0, version, body, number)
        return self._shown(codec.api_key, version, _now(self.chain.on_response(at, facts, back)))

    def _shown(self, api_key: int | None, version: int, outcome: Outcome) -> Any:
        match outcome:
            case Close():
                return "closed"
            case Silence():
                return "silent"
            case Cut(beginning):
                return "cut", beginning
            case Answer(frame) | Send(frame):
                start = 8 + response_header_version(api_key or 0, version)
                if not frame:
                    return None
                self.frames.append(frame)
                codec = known_message(Direction.RESPONSE, api_key or 0)
                fits = version if self.reply_version is None else self.reply_version
                return codec.decode(fits, frame, start)
        raise AssertionError(outcome)


def _now(outcome: Outcome | Awaitable[Outcome]) -> Outcome:
    """The outcome; what is awaited is over at once, as sleeping only notes the time."""
    if not isinstance(outcome, Awaitable):
        return outcome
    try:
        outcome.__await__().send(None)  # type: ignore[attr-defined]
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("the verdict waits for something")
