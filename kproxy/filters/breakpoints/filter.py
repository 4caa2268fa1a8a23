"""Breakpoints: the filter. A message that matches a breakpoint is given to the Holder, and waits for its Decision.

A message that a person changed, answered or dropped, or whose connection a person closed, has a line in the audit log. There is
also a line if the client or the broker closed the connection while the message was stopped: action "resume", "why".

    {"event": "edit", "at": ..., "worker": 0, "cluster": ..., "connection": 7, "client": ..., "principal": ..., "clientId": ...,
     "api": "Produce", "apiVersion": 9, "correlationId": 4, "direction": "request", "action": "replace", "by": "127.0.0.1:40312",
     "why": null, "condition": ..., "before": {"size": 96, "sha256": ...}, "after": {...} or null, "error": null,
     "changed": [paths]}

It has paths and digests of what was changed and no values, as more people read an audit log than may see the traffic.
"""

import hashlib
import json
from collections.abc import Awaitable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from kproxy.errors import DecodeError
from kproxy.filters.audit import AUDITS, Audit, shortened, that_fit
from kproxy.filters.breakpoints.breakpoint import (
    ActiveBreakpoint,
    Breakpoint,
    StoppedSubject,
    activate,
    carries_credentials,
    why_api_is_refused,
)
from kproxy.filters.breakpoints.decision import MOST_HOLD_S, Decision, Holder, Stopped, Why
from kproxy.filters.breakpoints.editing import changed_paths
from kproxy.filters.contract import (
    Close,
    ConnectionFacts,
    Direction,
    Filter,
    Forward,
    Replace,
    Reply,
    Request,
    RequestFacts,
    Response,
    Silence,
    Verdict,
    Want,
)
from kproxy.filters.error_responses import error_places
from kproxy.filters.faults import effects
from kproxy.filters.turns import Steps, in_turns
from kproxy.protocol import Message, MessageStruct, known_message
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import facts

MARGIN_S = 10.0  # that a verdict may take beyond the longest hold
LOST: tuple[Why, ...] = (  # ends of stops after which the message that a person saw may not have arrived
    "client closed",
    "broker closed",
    "connection closed",
)
PASSED, ENDED, GIVEN_UP = "passed", "ended", "given up"  # events that are counted


class Breakpoints(Filter):
    """Stops requests and responses for a person to change. kproxy puts it before all other filters if page.edits is set.

    Args:
        breakpoints: those that are set now. Without any, the filter wants no frames.
        holder: holds what is stopped.

    Raises ValueError for a condition that cannot be used.
    """

    name = "breakpoints"
    fails_open = True
    identifies = True  # conditions may use the principal, also of clients that logged in before a breakpoint is set
    names_topics = True
    timeout = MOST_HOLD_S + MARGIN_S

    def __init__(self, breakpoints: Sequence[Breakpoint], holder: Holder) -> None:
        self._met = activate(list(breakpoints))
        self._holder = holder

    def use(self, breakpoints: Sequence[Breakpoint]) -> None:
        """Replace the breakpoints. Raises ValueError. Call ``Chain.forget_wants`` afterwards."""
        before = {one.breakpoint: one for one in self._met}
        self._met = [before.get(one.breakpoint, one) for one in activate(list(breakpoints))]

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """Hold messages that a breakpoint can match; for a response, its request as well."""
        if not self._met or why_api_is_refused(api_key) is not None:
            return Want.PASS
        met = (one for one in self._met if direction in (Direction.REQUEST, one.direction))
        return Want.HOLD if any(one.may_match(api_key, api_version) for one in met) else Want.PASS

    def wants_frame(self, connection: ConnectionFacts, direction: Direction, request: RequestFacts) -> bool:
        """Return whether a breakpoint may match a message, judging by its header alone; for a request, also its response."""
        if direction == Direction.RESPONSE and request.message is None:
            return False  # its request came before the breakpoint was set, or was not wanted
        about = request.request(connection, None)
        met = (one for one in self._met if direction in (Direction.REQUEST, one.direction))
        return any(one.may_match(about.api_key, about.api_version) and not one.cannot_match(about) for one in met)

    def wants_of_large(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """Do not hold frames that are too large."""
        return Want.PASS

    def on_too_large(
        self, connection: ConnectionFacts, direction: Direction, api_key: int, api_version: int, size: int
    ) -> None:
        """Count a frame that passes because it is too large."""
        self._count(PASSED, "too large")

    def on_close(self, connection: ConnectionFacts) -> None:
        """Release the stopped messages of the connection."""
        self._holder.release(connection.number)

    def on_request(self, request: Request) -> Verdict | Awaitable[Verdict]:
        """Stop the request if it matches a breakpoint."""
        return self._stop_if_matching(Direction.REQUEST, request, None)

    def on_response(self, response: Response) -> Verdict | Awaitable[Verdict]:
        """Stop the response if it matches a breakpoint."""
        facts_of_request = response.request
        if facts_of_request.message is None:  # the request came before the breakpoint was set
            return Forward()
        request = facts_of_request.request(response.connection, facts_of_request.message)
        return self._stop_if_matching(Direction.RESPONSE, request, response.message)

    def _stop_if_matching(
        self, direction: Direction, request: Request, response: MessageStruct | None
    ) -> Verdict | Awaitable[Verdict]:
        """Stop the response, or the request if *response* is None, if it matches a breakpoint.

        No condition is evaluated on a message that carries credentials, as the result would say something about them.
        """
        met = [
            one
            for one in self._met
            if one.direction == direction
            and one.given_up is None
            and one.may_match(request.api_key, request.api_version)
        ]
        if not met:
            return Forward()
        if _has_credentials(request, response):
            return self._pass("credentials")
        return in_turns(self._evaluate(met, request, response))

    def _evaluate(
        self, met: list[ActiveBreakpoint], request: Request, response: MessageStruct | None
    ) -> Steps[Verdict | Awaitable[Verdict]]:
        subject = StoppedSubject(request, self.topic_names, response)
        for one in met:
            matches = yield from one.matches(subject)
            if one.given_up is not None:
                self._count(GIVEN_UP, "too slow")
                self._holder.give_up(one.breakpoint.condition, one.breakpoint.direction, one.given_up)
            if matches:
                return self._stop(request, response, one.breakpoint.condition)
        return Forward()

    def _stop(self, request: Request, response: MessageStruct | None, condition: str) -> Verdict | Awaitable[Verdict]:
        """Stop the response, or the request if *response* is None; a message that may not be stopped passes, and is counted."""
        stopped = self._stopped(request, response, condition)
        held = self._holder.hold(stopped)
        if isinstance(held, str):
            return self._pass(held)
        return self._decided(stopped, request, response, held)

    def _stopped(self, request: Request, response: MessageStruct | None, condition: str) -> Stopped:
        """Return the message as it is shown to a person."""
        direction: Literal["request", "response"] = "request" if response is None else "response"
        message = message_of(direction, request.api_key)
        value = request.message if response is None else response
        body = message.encode(request.api_version, value)
        return Stopped(
            request.connection,
            request.client_id,
            direction,
            request.api_key,
            request.api_version,
            request.correlation_id,
            body,
            condition,
            request.expects_response,
            error_places(request.api_key, request.api_version) is not None,
        )

    def _pass(self, why: object) -> Verdict:
        self._count(PASSED, str(why))
        return Forward()

    async def _decided(
        self, stopped: Stopped, request: Request, response: MessageStruct | None, held: Awaitable[Decision]
    ) -> Verdict:
        """Wait for the decision, write it to the audit logs, and return the verdict that carries it out."""
        decision = await held
        self._count(ENDED, decision.action if decision.by else decision.why)
        if decision.action == "resume":
            if decision.why in LOST:
                self._write_line(stopped, decision, [])
            return Forward()
        changed = _changed(stopped, decision)
        if not self._write_line(stopped, decision, changed):
            self._holder.note(stopped, decision, changed, "the audit log cannot be written")
            return Forward()
        self._holder.note(stopped, decision, changed, "")
        return _verdict(stopped, decision, request, response)

    def _write_line(self, stopped: Stopped, decision: Decision, changed: list[str]) -> bool:
        """Write the decision to the audit logs. Returns False if one that blocks cannot be written."""
        line = edit_line(stopped, decision, changed, self.runtime.worker, self.runtime.now())
        return write_lines(self.runtime.kept.get(AUDITS, ()), line)

    def _count(self, event: str, name: str) -> None:
        self.runtime.shared_count(self.name, event, name).add()


def _verdict(stopped: Stopped, decision: Decision, request: Request, response: MessageStruct | None) -> Verdict:
    match decision.action:
        case "replace":
            message = message_of(stopped.direction, stopped.api_key)
            return Replace(message.decode(stopped.api_version, decision.body))
        case "error" if response is None:
            return effects.error_reply(request, decision.error) or _closed(decision)
        case "error":
            return _failed(request, response, decision)
        case "drop" if response is None and not request.expects_response:
            return Reply(request.new_response())  # only drops the request: the client expects no response and gets none
        case "drop":
            return Silence()
    return _closed(decision)


def _failed(request: Request, response: Any, decision: Decision) -> Verdict:
    """Return the verdict that puts the error in place of the broker's response."""
    if request.api_key in effects.ALWAYS_IN_PLACE:
        effects.put_in_place(request, response, decision.error, lambda name, topic_id: True)
        return Replace(response)
    reply = effects.error_reply(request, decision.error)
    return _closed(decision) if reply is None else Replace(reply.message)


def _closed(decision: Decision) -> Close:
    return Close(f"at a breakpoint, by {decision.by}")


def _has_credentials(request: Request, response: MessageStruct | None) -> bool:
    """Return whether the request or the response carries credentials."""
    messages = (
        [("request", request.message)] if response is None else [("request", request.message), ("response", response)]
    )
    about = request.api_key, request.api_version
    return any(carries_credentials(message_of(one, about[0]), about[1], value) for one, value in messages)


def message_of(direction: str, api_key: int) -> Message:
    return known_message(Direction.of(direction), api_key)  # APIs that are not in the facts are not stopped


def _changed(stopped: Stopped, decision: Decision) -> list[str]:
    if decision.action != "replace":
        return []
    message = message_of(stopped.direction, stopped.api_key)
    try:
        return changed_paths(message, stopped.api_version, stopped.body, decision.body)
    except DecodeError:  # it was checked when it was sent here
        return []


def edit_line(stopped: Stopped, decision: Decision, changed: list[str], worker: int, now: float) -> bytes:
    """Return the line of the audit log for a decision. *now*: seconds since the epoch."""
    at = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    connection = stopped.connection
    fields = {
        "event": "edit",
        "at": at,
        "worker": worker,
        "cluster": connection.cluster,
        "connection": connection.number,
        "client": connection.client,
        "listener": connection.listener,
        "broker": connection.broker,
        "principal": shortened(connection.principal),
        "clientId": shortened(stopped.client_id),
        "api": facts().apis[stopped.api_key].name,
        "apiVersion": stopped.api_version,
        "correlationId": stopped.correlation_id,
        "direction": stopped.direction,
        "action": decision.action,
        "by": decision.by or None,
        "why": decision.why or None,
        "condition": shortened(stopped.condition),
        "before": _digest(stopped.body),
        "after": _digest(decision.body) if decision.action == "replace" else None,
        "error": error_name(decision.error) if decision.action == "error" else None,
        "changed": that_fit([shortened(path) for path in changed], 16_000),
    }
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def write_lines(audits: Iterable[Audit], line: bytes) -> bool:
    """Write a line to the journal of each audit.

    Returns False if one that blocks cannot be written: do not make the change then.
    """
    logs = {id(audit.journal): audit for audit in audits}
    if not all(audit.journal.is_writable for audit in logs.values() if audit.blocks):
        return False
    is_written = True
    for audit in logs.values():
        number = audit.journal.take()
        if not audit.journal.write(number, line):
            audit.journal.drop(number)
            is_written = is_written and not audit.blocks
    return is_written


def _digest(body: bytes) -> dict[str, Any]:
    return {"size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
