"""Audit: one JSON line for each request of the control plane: who asked for what, from where, and how it went.

Only an audited API is held; Produce and Fetch pass as if there were no audit, unless ``topics`` names some of theirs.
"""

import itertools
import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from kproxy.filters.contract import (
    Close,
    ConnectionFacts,
    Direction,
    Filter,
    Forward,
    Journal,
    Reply,
    Request,
    RequestFacts,
    Response,
    Verdict,
)
from kproxy.filters.error_responses import error_response
from kproxy.filters.matching import matches
from kproxy.filters.named_resources import MOST_RESOURCES, Resource, errors_of, resources_of
from kproxy.options import Options, Rotated, Seconds, text
from kproxy.protocol import ApiKey, MessageStruct
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.facts import facts

STATE = "audit"
LOGIN = "login"
REFUSED = "kproxy has refused the login"
NO_REQUEST = "no request followed: the broker has refused the login, or the client has left"
AUDITS = "audits"  # in Runtime.kept: the filters that are in use
MOST_LOOKED_AT = 100_000  # resources of a request among which chosen topics are looked for
MOST_ERRORS = 100  # different error codes in a line
RETRY_S = 0.05
LATE_S = 0.01
TOPIC_APIS = {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH}
# What clients send all the time, and what only brokers and controllers send: everything else is the control plane
DATA_PLANE = {
    *(
        "Produce",
        "Fetch",
        "ListOffsets",
        "Metadata",
        "OffsetForLeaderEpoch",
        "DescribeTopicPartitions",
        "DescribeCluster",
    ),
    *("FindCoordinator", "OffsetCommit", "OffsetFetch", "Heartbeat", "SyncGroup", "ConsumerGroupHeartbeat"),
    *("ShareGroupHeartbeat", "StreamsGroupHeartbeat", "ShareFetch", "ShareAcknowledge", "ApiVersions", "SaslHandshake"),
    *("AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "InitProducerId", "TxnOffsetCommit"),
    *("GetTelemetrySubscriptions", "PushTelemetry", "WriteTxnMarkers", "InitializeShareGroupState"),
    *("ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState", "ReadShareGroupStateSummary"),
}


class AuditOptions(Options, frozen=True):
    """Options of audit."""

    file: Annotated[
        Rotated,
        text("Where lines are written. Each worker has a file of its own: audit.jsonl is audit-0.jsonl in worker 0."),
    ]
    mode: Annotated[
        Literal["block", "drop-and-count"],
        text(
            "What happens while lines cannot be written. block: audited requests wait, then are refused, and no response leaves "
            "before its line is in the file. drop-and-count: traffic goes on, and what is missing is counted."
        ),
    ] = "block"
    patience: Annotated[
        Seconds, text("How long a request or a response waits in the mode block until it is refused.")
    ] = 10.0
    api_name: Annotated[tuple[str, ...], text("Names of the APIs that are audited; empty: the control plane.")] = ()
    topics: Annotated[
        tuple[str, ...],
        text(
            'Topics whose Produce and Fetch requests are audited as well, by name or pattern ("orders-*"), where they name them: '
            "in a fetch session only the first does. A topic by an id that is not known counts as one of them. In the mode block "
            "clients get at most half of limits.held_frame_size by a Fetch, whatever they ask for."
        ),
    ] = ()

    def __post_init__(self) -> None:
        known = {api.name for api in facts().apis.values()}
        for name in self.api_name:
            if name not in known:
                raise ValueError(f"api_name: there is no API {name!r}; kproxy api lists them")


class Audit(Filter):
    """Write who did what: a JSON line for each request of the control plane, with its outcome.

    Audited by default is everything that administers: topics, groups, settings, ACLs, quotas, users, tokens, logins. A line has
    the time, the principal (of SASL or of the certificate), client id, software, addresses, API, what the request names
    (resources), and the error codes of the response. It never has values of settings, credentials, tokens or records. Operations,
    permissions and patterns of ACLs have Kafka's names; a quota has the type of its entity, and the name null where it is the
    default. A login by raw tokens (SaslHandshake v0) has the API SaslAuthenticate with the version null, and is "done" when
    requests follow it; it cannot wait for the file, so mode block ends such a connection at its next audited request. A login
    that kproxy itself has refused is a line with the user that was claimed among the resources.
    List audit before filters that refuse requests: what does not come to it is not in its log.

    Lines are numbered (sequence). A number is taken for each audited request that is forwarded: it is "seen" then. Its line is
    written before the response leaves, or when the connection closes without one. At any time
    seen = written + dropped + in flight, also after kill -9 of a worker: what was in flight then is in the next line
    {"event": "lost"}. Dropped numbers are in a line {"event": "dropped"}, so that each number is in the file exactly once, or
    said to be missing.

    In the mode block, an API at a version that kproxy does not know is not offered to clients, as it could not be audited.
    """

    name = "audit"
    identifies = True
    sees_all = True
    Options = AuditOptions

    def __init__(self, options: AuditOptions) -> None:
        self.options = options
        self._state = f"{STATE} {options.file.path}"  # of connections: each journal has requests of its own
        apis = facts().apis.items()
        names = set(options.api_name)
        chosen = {
            key for key, api in apis if api.name in names or (not names and is_control_plane(api.name, api.listeners))
        }
        self._always = frozenset(chosen)
        self.requests = self.responses = self._always | (TOPIC_APIS if options.topics else frozenset())
        self.names_topics = bool(options.topics)
        self.fails_open = options.mode != "block"
        self.required = options.mode == "block"
        self.timeout = options.patience + 5.0
        self._journal: Journal | None = None

    def on_start(self) -> None:
        """Open the journal of this worker."""
        self._journal = self.runtime.journal(self.options.file)
        self.runtime.kept.setdefault(AUDITS, []).append(self)
        if self.blocks:
            self.runtime.require_journal(self.options.file, True)

    def on_stop(self) -> None:
        """Keep the journal open for the requests that have its numbers."""
        in_use = self.runtime.kept.get(AUDITS, [])
        if self in in_use:
            in_use.remove(self)
        if self.blocks:
            self.runtime.require_journal(self.options.file, False)

    @property
    def blocks(self) -> bool:
        """Whether a request passes only if its line can be written."""
        return self.options.mode == "block"

    @property
    def journal(self) -> Journal:
        """The journal, after the filter was started."""
        assert self._journal is not None
        return self._journal

    def on_request(self, request: Request) -> Verdict | Any:
        """Take a number, and forward; in the mode block only while lines can be written."""
        resources = self._resources(request)
        if resources is None:
            return Forward()
        if self.options.mode == "block" and not self.journal.is_writable:
            return self._wait_to_begin(request, resources)
        return self._begin(request, resources)

    async def _wait_to_begin(self, request: Request, resources: list[Resource]) -> Verdict:
        until = self.runtime.monotonic() + self.options.patience
        while not self.journal.is_writable:
            if self.runtime.monotonic() >= until:
                refused = error_response(request, ErrorCode.KAFKA_STORAGE_ERROR, "the audit log cannot be written")
                if not request.expects_response:
                    refused = None  # as a broker: the client learns from the connection that something is wrong
                return Close("the audit log cannot be written") if refused is None else Reply(refused)
            await self.runtime.sleep(RETRY_S)
        return self._begin(request, resources)

    def _begin(self, request: Request, resources: list[Resource]) -> Verdict:
        entry = self._entry(request, resources)
        if not request.expects_response:
            self._settle(entry, "no response is expected")
        else:
            self._pending(request.connection).setdefault(request.correlation_id, []).append(entry)
        return Forward()

    def on_too_large(
        self, connection: ConnectionFacts, direction: Direction, api_key: int, api_version: int, size: int
    ) -> None:
        """Write the line of a request that is forwarded without being read, or that of one whose response is not read."""
        reason = f"the {direction} of {size} bytes is too large to be read"
        if direction == Direction.REQUEST:
            asked = Request(connection, api_key, api_version, -1, None, MessageStruct())
            self._settle(self._entry(asked, []), reason)
            return
        name = facts().apis[api_key].name
        for correlation_id, entries in self._pending(connection).items():  # responses come in order: it is the oldest
            if entries[0].fields["api"] == name:
                taken = self._taken(connection, RequestFacts(api_key, api_version, correlation_id))
                assert taken is not None
                self._settle(taken, reason)
                return

    def on_response(self, response: Response) -> Verdict | Any:
        """Write the line before the response leaves."""
        entry = self._taken(response.connection, response.request)
        if entry is None:
            return Forward()
        errors = errors_of(response.request.api_key, response.request.api_version, response.message)
        if self._settle(entry, "failed" if errors else "done", errors, wait=True):
            return Forward()
        return self._wait_to_settle(entry)

    def _may_wait(self, entry: "Entry") -> bool:
        """Return whether a line that could not be written is tried again before its response leaves."""
        return self.options.mode == "block" or entry.journal.is_late

    async def _wait_to_settle(self, entry: "Entry") -> Verdict:
        until = self.runtime.monotonic() + self.options.patience
        while self.runtime.monotonic() < until and self._may_wait(entry):
            await self.runtime.sleep(LATE_S if entry.journal.is_late else RETRY_S)
            if entry.journal.write(entry.number, entry.line):
                return Forward()
        entry.journal.drop(entry.number)
        return Close("the audit log cannot be written") if self.options.mode == "block" else Forward()

    def on_raw_login(self, connection: ConnectionFacts, is_accepted: bool) -> None:
        """Take a number for a login by raw SASL tokens, and write its line when requests follow it."""
        if ApiKey.SASL_AUTHENTICATE not in self._always:
            return
        if is_accepted:
            entry = connection.state.pop(f"{self._state} {LOGIN}", None)
            if entry is not None:
                self._settle(entry, "done")
            return
        entry = self._entry(Request(connection, ApiKey.SASL_AUTHENTICATE, 0, 0, None, MessageStruct()), [])
        entry.fields |= {"apiVersion": None, "correlationId": None}
        connection.state[f"{self._state} {LOGIN}"] = entry

    def on_close(self, connection: ConnectionFacts) -> None:
        """Write the lines of requests that got no response."""
        login = connection.state.pop(f"{self._state} {LOGIN}", None)
        if login is not None and connection.refused_user is not None:
            login.fields |= _shown(
                [{"type": "user", "name": connection.refused_user}] if connection.refused_user else []
            )
            self._settle(login, REFUSED)
        elif login is not None:
            self._settle(login, NO_REQUEST)
        for entries in connection.state.pop(self._state, {}).values():
            for entry in entries:
                self._settle(entry, "no response")

    def _settle(
        self, entry: "Entry", outcome: str, errors: dict[str, int] | None = None, *, wait: bool = False
    ) -> bool:
        """Write the line, or drop it. Returns False if it did neither, as the caller can *wait* and try again."""
        latency = round((self.runtime.monotonic() - entry.began) * 1_000, 3)
        # the principal as it is now: a client may send requests behind its login, before the broker has accepted it
        who = {"principal": shortened(entry.connection.principal), "mechanism": shortened(entry.connection.mechanism)}
        named = dict(itertools.islice((errors or {}).items(), MOST_ERRORS))
        fields = {**entry.fields, **who, "outcome": outcome, "errors": named, "latencyMs": latency}
        entry.line = json.dumps(fields, separators=(",", ":")).encode("ascii")  # JSON escapes control characters
        if entry.journal.write(entry.number, entry.line):
            return True
        if wait and self._may_wait(entry):
            return False
        entry.journal.drop(entry.number)
        return True

    def _resources(self, request: Request) -> list[Resource] | None:
        is_chosen = request.api_key not in self._always  # chosen by its topics, so all of them are looked at
        most = MOST_LOOKED_AT if is_chosen else MOST_RESOURCES
        resources = resources_of(request.api_key, request.api_version, request.message, most)
        names = self.topic_names
        for resource in resources:
            if "id" in resource and (name := names.get(resource["id"])) is not None:
                resource["name"] = name
        return (list(filter(self._is_chosen, resources)) or None) if is_chosen else resources

    def _is_chosen(self, resource: Resource) -> bool:
        """Return whether a resource is a topic that is audited, or may be one, as its name is not known."""
        name = resource.get("name")
        return resource["type"] == "topic" and (name is None or matches(name, self.options.topics))

    def _pending(self, connection: ConnectionFacts) -> dict[int, list["Entry"]]:
        """Return the unsettled entries of a connection, by correlation id, which a client may use twice."""
        entries: dict[int, list[Entry]] = connection.state.setdefault(self._state, {})
        return entries

    def _taken(self, connection: ConnectionFacts, request: RequestFacts) -> "Entry | None":
        entries = self._pending(connection).get(request.correlation_id)
        if not entries:
            return None
        entry = entries.pop(0)
        if not entries:
            del self._pending(connection)[request.correlation_id]
        return entry

    def _entry(self, request: Request, resources: list[Resource]) -> "Entry":
        connection = request.connection
        software = connection.software or (None, None)
        api = facts().apis[request.api_key]
        at = datetime.fromtimestamp(self.runtime.now(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        fields = {
            "event": "request",
            "at": at,
            "worker": self.runtime.worker,
            "cluster": connection.cluster,
            "connection": connection.number,
            "client": connection.client,
            "listener": connection.listener,
            "broker": connection.broker,
            "principal": None,  # and the mechanism: when it is settled
            "mechanism": None,
            "clientId": shortened(request.client_id),
            "software": shortened(software[0]),
            "softwareVersion": shortened(software[1]),
            "api": api.name,
            "apiVersion": request.api_version,
            "correlationId": request.correlation_id,
            **_shown(resources),
        }
        return Entry(self.journal, connection, fields, self.runtime.monotonic())


class Entry:
    """A request that is audited and not settled yet. It belongs to the journal that has its number, also after a reload."""

    __slots__ = ("began", "connection", "fields", "journal", "line", "number")

    def __init__(self, journal: Journal, connection: ConnectionFacts, fields: dict[str, Any], began: float) -> None:
        self.journal = journal
        self.number = journal.take()
        self.connection = connection
        self.fields = fields
        self.began = began
        self.line = b""


def is_control_plane(name: str, listeners: tuple[str, ...]) -> bool:
    """Return whether an API is audited by default."""
    return name not in DATA_PLANE and "broker" in listeners


def _shown(resources: list[Resource]) -> dict[str, Any]:
    """Return the resources that fit into a line, and whether these are all."""
    shown = that_fit([_cleaned(each) for each in resources[:MOST_RESOURCES]])
    settings = sum(len(each.get("settings", ())) for each in shown)
    are_all = len(shown) == len(resources) and settings == sum(len(each.get("settings", ())) for each in resources)
    return {"resources": shown, "allResources": are_all}


def _cleaned(resource: Resource) -> Resource:
    return {
        name: that_fit([shortened(each) for each in value], LONGEST_LIST // 2)
        if isinstance(value, tuple)
        else shortened(value)
        for name, value in resource.items()
    }


LONGEST_NAME = 1_000  # characters of a name in a line
LONGEST_LIST = 48_000  # bytes of JSON of what a request names, so that a line stays under 64 KiB


def shortened(value: Any) -> Any:
    """Return text with a bounded length and U+FFFD for bytes that were not UTF-8; other values as they are."""
    if not isinstance(value, str):
        return value
    return value[:LONGEST_NAME].encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def that_fit(values: list[Any], room: int = LONGEST_LIST) -> list[Any]:
    """Return the first values that together take at most *room* bytes as JSON."""
    ends = itertools.accumulate(len(json.dumps(value)) + 1 for value in values)
    return [value for value, end in zip(values, ends, strict=True) if end <= room]
