"""Conditions: a CEL expression over the names of the decoded log decides which exchanges are shown.

The names are those of :mod:`kproxy.output.jsonl` and of :mod:`kproxy.output.entities`: an exchange's topics and groups, its
client's principal. Bodies are read only when the expression names something in them.
A field that an exchange does not have makes the expression false for it, and is reported once.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from kproxy.errors import OptionError
from kproxy.output.bodies import OPENABLE, Bodies, read_bodies
from kproxy.output.completeness import trailing_of
from kproxy.output.escaping import well_formed
from kproxy.output.jsonl import event_line
from kproxy.output.opening import Opener
from kproxy.output.times import render_instant, render_size
from kproxy.output.where_types import check_types
from kproxy.protocol.expressions import Expression, first_sentence
from kproxy.session import Event, Exchange, Frame

_split = msgspec.json.Decoder(dict[str, msgspec.Raw])
if TYPE_CHECKING:
    from kproxy.output.entities import Entities

# cel's message for a function with arguments of other types, such as null.startsWith("a")
UNDEFINED = re.compile(r"Undefined variable or function: ('\w+')")


class Where:
    """A compiled condition; ``where(event)`` returns whether the event is shown.

    Raises OptionError, one sentence, when the expression is malformed, names what does not exist, compares what is never
    equal, or has a value other than true or false. ``notes`` collects why it
    could not be answered for some events and was taken as false, each reason once.
    """

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.notes: list[str] = []
        try:
            self._program = Expression(expression, [*CHEAP, *COSTLY, *ENTITIES, *OTHER], "where")
        except ValueError as error:
            raise OptionError(str(error)) from error
        self._names = self._program.names
        check_types(expression)
        self._cheap = all(name in CHEAP for name in self._names)
        self._of_line = any(name in COSTLY or name in OTHER for name in self._names)
        self._entities = _entities() if any(name in ENTITIES for name in self._names) else None

    @property
    def names(self) -> list[str]:
        """The names that it uses, sorted."""
        return list(self._names)

    @property
    def reads_bodies(self) -> bool:
        """Whether deciding needs more than headers, sizes and times."""
        return not self._cheap

    def __call__(self, event: Event, bodies: Bodies | None = None, line: bytes | None = None) -> bool:
        """Whether the event is shown. *line*: the line of the decoded log that it was read from, which counts as it stands."""
        of_exchange = self._entities.of(event, bodies) if self._entities and isinstance(event, Exchange) else {}
        if line is None and isinstance(event, Exchange) and not self._of_line:
            cheap = {name: CHEAP[name](event) for name in self._names if name in CHEAP}
            return self._evaluate(of_exchange | cheap)
        return self.holds_for(event_line(event, bodies) if line is None else line, of_exchange)

    def holds_for(self, line: bytes, others: Mapping[str, Any] = MappingProxyType({})) -> bool:
        """The same for a line of the decoded log, and the values of names that it does not have. Raises msgspec.DecodeError."""
        fields = _split.decode(line)
        named = {name: fields[name] for name in self._names if name in fields and name not in others}
        for name, value in named.items():
            if len(memoryview(value)) > OPENABLE:
                self.note(f"{name} of more than {render_size(OPENABLE)} as JSON was not looked into")
                return False
        return self._evaluate(dict(others) | {name: msgspec.json.decode(value) for name, value in named.items()})

    def read_bodies(self, event: Event, opener: Opener | None = None) -> Bodies | None:
        """The bodies of an exchange if deciding needs them, so that its outputs need not read them again; else None."""
        return read_bodies(event, opener) if self._of_line and isinstance(event, Exchange) else None

    def _evaluate(self, values: dict[str, Any]) -> bool:
        for name in self._names:
            if name not in values:
                return False  # a gap has no apiKey
        try:
            result = self._program.evaluate(values)
        except (LookupError, TypeError, ArithmeticError, RuntimeError, ValueError) as error:
            self._note(error)
            return False
        if not isinstance(result, bool):
            kind = type(result).__name__
            raise OptionError(f"where {self.expression!r} must give true or false, not {result!r:.60} ({kind})")
        return result

    def _note(self, error: Exception) -> None:
        what = first_sentence(error)
        if isinstance(error, KeyError):
            what = f"no field {error}"
        elif found := UNDEFINED.match(what):
            what = f"{found[1]} cannot be had from what it was asked of"
        self.note(what)

    def note(self, what: str) -> None:
        """Remember why the condition could not be answered."""
        if what not in self.notes and len(self.notes) < 20:
            self.notes.append(what)


def _entities() -> "Entities":
    from kproxy.output.entities import Entities  # noqa: PLC0415 - the bodies' objects, which few conditions need

    return Entities()


def _instant(frame: Frame | None, ended: bool) -> str | None:
    if frame is None:
        return None
    return render_instant(frame.ended_at if ended else frame.started_at)


def _size(frame: Frame | None) -> int | None:
    return None if frame is None else frame.wire_size


CHEAP: dict[str, Callable[[Exchange], Any]] = {
    "event": lambda _: "exchange",
    "connection": lambda x: x.connection.number,
    "client": lambda x: x.connection.client,
    "broker": lambda x: x.connection.broker,
    "apiKey": lambda x: x.api_key,
    "apiName": lambda x: x.api_name,
    "apiVersion": lambda x: x.api_version,
    "correlationId": lambda x: x.correlation_id,
    "clientId": lambda x: x.client_id if x.client_id is None else well_formed(x.client_id),
    "requestAt": lambda x: _instant(x.request, ended=False),
    "responseAt": lambda x: _instant(x.response, ended=True),
    "latencyMs": lambda x: x.latency_ms,
    "requestInProxyMs": lambda x: x.request_in_proxy_ms,
    "brokerMs": lambda x: x.broker_ms,
    "responseInProxyMs": lambda x: x.response_in_proxy_ms,
    "requestSize": lambda x: _size(x.request),
    "responseSize": lambda x: _size(x.response),
    "unanswered": lambda x: x.unanswered,
    "expectsResponse": lambda x: x.expects_response,
    "bodies": lambda x: x.bodies,
    "trailing": lambda x: trailing_of(x) or None,
}
COSTLY = (
    "requestHeader",
    "request",
    "responseHeader",
    "response",
    "embedded",
    "errors",
    "undecoded",
    "topicNames",
    "layout",
    "assumedVersion",
    "missing",
)
ENTITIES = ("topics", "groups", "principal")  # of kproxy.output.entities, which is imported where they are named
OTHER = ("at", "direction", "size", "skipped", "reason", "kind", "what", "tls")
