"""The line of the audit log for a message that a person changed, answered or dropped, or whose connection a person closed.

There is also a line if the client or the broker closed the connection while the message was stopped: action "resume", "why".

    {"event": "edit", "at": ..., "worker": 0, "cluster": ..., "connection": 7, "client": ..., "principal": ..., "clientId": ...,
     "api": "Produce", "apiVersion": 9, "correlationId": 4, "direction": "request", "action": "replace", "by": "127.0.0.1:40312",
     "why": null, "condition": ..., "before": {"size": 96, "sha256": ...}, "after": {...} or null, "error": null,
     "changed": [paths]}

It has paths and digests of what was changed and no values, as more people read an audit log than may see the traffic.
"""

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

from kproxy.filters.bounded_lines import shortened, that_fit
from kproxy.filters.breakpoints.decision import Decision, Stopped
from kproxy.filters.contract import Journal
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import facts


class AuditLog(Protocol):
    """A filter audit, as seen from here."""

    @property
    def journal(self) -> Journal:
        """The journal that it writes to."""

    @property
    def blocks(self) -> bool:
        """Whether nothing may pass that cannot be written down."""


def edit_line(stopped: Stopped, decision: Decision, changed: list[str], worker: int, now: float) -> bytes:
    """Return the line. *now*: seconds since the epoch."""
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


def write_lines(audits: Iterable[AuditLog], line: bytes) -> bool:
    """Write a line to each journal. Returns False if a blocking journal cannot be written: do not make the change then."""
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
