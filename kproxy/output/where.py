"""Where: a condition in CEL that decides which events are shown.

It uses the fields of :mod:`kproxy.protocol.vocabulary` for complete exchanges and other lines of the decoded log. Bodies are read
only when the condition uses a field that is made from them.
A field that an exchange does not have makes the condition false for it, and is reported once.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from kproxy.errors import OptionError
from kproxy.output.bodies import OPENABLE, Bodies, Opener, trailing_of
from kproxy.output.escaping import well_formed
from kproxy.output.exchange_line import read_bodies
from kproxy.output.jsonl import event_line
from kproxy.output.times import render_instant, render_size
from kproxy.protocol.addresses import address_of
from kproxy.protocol.embedded.viewers import records_and_problems
from kproxy.protocol.expressions import Expression, check_types, first_sentence
from kproxy.protocol.vocabulary import Scope, fields_in
from kproxy.session import Connection, Event, Exchange, Frame

_split = msgspec.json.Decoder(dict[str, msgspec.Raw])
if TYPE_CHECKING:
    from kproxy.output.entities import Entities

# cel's message for a function with arguments of other types, such as null.startsWith("a")
NOTHING = msgspec.Raw(b"[]")
UNDEFINED = re.compile(r"Undefined variable or function: ('\w+')")


class Where:
    """A compiled condition; ``where(event)`` returns whether the event is shown.

    Raises OptionError, one sentence, when the expression is malformed, names what does not exist, compares what is never
    equal, or has a value other than true or false. ``notes`` collects, each once, the reasons why
    the condition could not be answered for some events and counted as false.
    """

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self.notes: list[str] = []
        try:
            self._program = Expression(expression, NAMES, "where")
            check_types(expression, "where")
        except ValueError as error:
            raise OptionError(str(error)) from error
        self._names = self._program.names
        self._cheap = all(name in CHEAP or name in OF_CONNECTION for name in self._names)
        self._of_line = any(name in OF_LINE for name in self._names)
        self._needs_errors = "errorNames" in self._names
        self._entities = _entities() if any(name in ENTITIES for name in self._names) else None

    @property
    def names(self) -> list[str]:
        """The names that the expression uses, sorted."""
        return list(self._names)

    @property
    def reads_bodies(self) -> bool:
        """Whether deciding needs more than headers, sizes and times."""
        return not self._cheap

    def __call__(self, event: Event, bodies: Bodies | None = None, line: bytes | None = None) -> bool:
        """Return whether the event is shown.

        Args:
            event: of the decoded log.
            bodies: those of the exchange, if they were read already.
            line: the line of the decoded log that the event was read from; its fields count as they are.
        """
        others: dict[str, Any] = {}
        if isinstance(event, Exchange):
            others = {name: OF_CONNECTION[name](event.connection) for name in self._names if name in OF_CONNECTION}
            if self._entities is not None:
                others |= self._entities.of(event, bodies)
            if line is None and not self._of_line:
                return self._evaluate(others | {name: CHEAP[name](event) for name in self._names if name in CHEAP})
        return self.holds_for(event_line(event, bodies) if line is None else line, others)

    def holds_for(self, line: bytes, others: Mapping[str, Any] = MappingProxyType({})) -> bool:
        """Return whether a line of the decoded log is shown; *others*: values that it lacks. Raises msgspec.DecodeError."""
        fields = _split.decode(line)
        if self._needs_errors and "errors" in fields and len(memoryview(fields["errors"])) <= OPENABLE:
            names = dict.fromkeys(error["name"] for error in msgspec.json.decode(fields["errors"]))
            others = {**others, "errorNames": list(names)}
        if "record" in self._names:
            fields["record"] = fields.get("embedded", NOTHING)
        named = {name: fields[name] for name in self._names if name in fields and name not in others}
        for name, value in named.items():
            if len(memoryview(value)) > OPENABLE:
                self.note(f"{name} of more than {render_size(OPENABLE)} as JSON was not looked into")
                return False
        values = dict(others) | {name: msgspec.json.decode(value) for name, value in named.items()}
        if "record" not in values:
            return self._evaluate(values)
        records = self._records(values["record"])
        return any(self._evaluate(values | {"record": record}, unopened) for record, unopened in records)

    def _records(self, embedded: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str | None]]:
        if any(one["kind"] == "records" and "records" not in one.get("json", ("records",)) for one in embedded):
            self.note("records were not read: add --records")
        return records_and_problems(embedded)

    def read_bodies(self, event: Event, opener: Opener | None = None) -> Bodies | None:
        """Return the bodies of an exchange if the condition needs them, so that outputs need not read them again; else None."""
        return read_bodies(event, opener) if self._of_line and isinstance(event, Exchange) else None

    def _evaluate(self, values: dict[str, Any], unopened: str | None = None) -> bool:
        for name in self._names:
            if name not in values:
                return False  # a gap has no apiKey
        try:
            result = self._program.evaluate(values)
        except (LookupError, TypeError, ArithmeticError, RuntimeError, ValueError) as error:
            self._note(error, unopened)
            return False
        if not isinstance(result, bool):
            kind = type(result).__name__
            raise OptionError(f"where {self.expression!r} must give true or false, not {result!r:.60} ({kind})")
        return result

    def _note(self, error: Exception, unopened: str | None) -> None:
        what = first_sentence(error)
        if unopened is not None:
            what = unopened
        elif isinstance(error, KeyError):
            what = f"no field {error}"
        elif match := UNDEFINED.match(what):
            what = f"{match[1]} does not work on a value of this type"
        elif what.startswith("No such overload") and "record" in self._names:
            what = "an operator does not work on values of these types; decimals are text: double(record.value.total) > 100.0"
        self.note(what)

    def note(self, what: str) -> None:
        """Remember why the condition could not be answered."""
        if what not in self.notes and len(self.notes) < 20:
            self.notes.append(what)


def _entities() -> "Entities":
    from kproxy.output.entities import Entities  # noqa: PLC0415 - the bodies' objects, which few conditions need

    return Entities()


def _text(text: str | None) -> str | None:
    return None if text is None else well_formed(text)


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
    "clientId": lambda x: _text(x.client_id),
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
    "edited": lambda x: [_text(edit) for edit in x.edited],
    "trailing": lambda x: trailing_of(x) or None,
}
OF_CONNECTION: dict[str, Callable[[Connection], str | None]] = {  # not in the lines of exchanges
    "address": lambda connection: address_of(connection.client),
    "software": lambda connection: _text(connection.client_software_name),
    "softwareVersion": lambda connection: _text(connection.client_software_version),
    "mechanism": lambda connection: _text(connection.sasl_mechanism),
}
ENTITIES = ("topics", "groups", "principal")  # of kproxy.output.entities, which is imported where they are named
NAMES = tuple(fields_in(Scope.LOG, Scope.OTHER_LINES))
OF_LINE = frozenset(NAMES).difference(CHEAP, OF_CONNECTION, ENTITIES)  # need the line, and so the bodies of an exchange
