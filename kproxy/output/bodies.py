"""Bodies: both bodies of an exchange as Kafka's JSON, read once for all outputs by exchange_line.pyx; credentials are withheld.

A body may be cut by a capture's snaplen, by a gap, by the end of the connection, or because the analyzer was behind. The fields
before the cut are shown as usual, then how much is missing. Bytes after a message are counted, because peers skip them.

    Opener                          decodes what is inside bytes and records fields
    find_errors, find_topic_names   what outputs look up in the JSON
    completeness_json, notes        what is missing of a body, for programs and for people

Not here: what a body means (protocol), or how it is shown (text, tree, jsonl).
"""

import re
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct, field

from kproxy.errors import DecodeError
from kproxy.output.escaping import printable, well_formed
from kproxy.output.times import counted
from kproxy.protocol import ApiKey, Beginning
from kproxy.protocol.constants import SIZE_FIELD
from kproxy.protocol.embedded.payload import (
    RECORDS_OF,
    Context,
    Embedded,
    holds_payloads,
    open_records_fields,
    open_request,
    open_response,
)
from kproxy.protocol.embedded.sasl import open_token
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.facts import facts
from kproxy.session import Event, Exchange, Frame, client_software

if TYPE_CHECKING:
    from kproxy.protocol.embedded.payload import Where
    from kproxy.protocol.embedded.viewers import Viewers

Protocols: TypeAlias = tuple[str | None, str | None]  # of a group: type ("consumer") and name ("range")

NO_PROTOCOLS: Protocols = (None, None)
MOST_GROUPS = 10_000
MOST_LEARNED = 8 * 1024 * 1024  # bytes; larger JoinGroup frames are not decoded
HOLDING_APIS = {
    key
    for key, api in facts().apis.items()
    if holds_payloads(f"{api.name}Request") or holds_payloads(f"{api.name}Response")
}


class Opener:
    """Decodes what is inside bytes and records fields of exchanges, with what earlier exchanges of their groups showed.

    SyncGroup names its group's protocol only from version 5 on (KIP-559); JoinGroup, which comes before it, always does. Memory
    is bounded: the groups seen least recently are forgotten. How the bytes are decoded is in kproxy.protocol.embedded.

    Args:
        viewers: decode the records of ordinary topics too, with these; None: only those of Kafka's internal topics.
    """

    def __init__(self, viewers: "Viewers | None" = None) -> None:
        self.viewers = viewers
        self.groups: OrderedDict[str, Protocols] = OrderedDict()

    def open(self, exchange: Exchange) -> list[Embedded]:
        """Decode what is inside the request, then inside the response. Never raises, whatever the bytes are."""
        if exchange.request is not None and exchange.request.unread:
            return _unread(exchange.request)
        if exchange.api_key in RECORDS_OF:
            return self._open_records(exchange, RECORDS_OF[exchange.api_key])
        if exchange.api_key not in HOLDING_APIS:
            return []
        # Only requests that hold payloads are decoded: responses that need their requests belong to those.
        (request_name, request), (response_name, response) = _holding(exchange.request), _holding(exchange.response)
        if request is None and response is None:
            return []
        context = self._context(exchange, request)
        payloads = [] if request is None else open_request(request_name, request, context)
        return payloads if response is None else payloads + open_response(response_name, response, context)

    def learn(self, event: Event) -> None:
        """Remember the group's protocol from a JoinGroup; other events are ignored."""
        if not isinstance(event, Exchange) or event.api_key != ApiKey.JOIN_GROUP:
            return
        asked, answered = event.request, event.response
        if (asked is not None and len(asked.data) > MOST_LEARNED) or (
            answered is not None and len(answered.data) > MOST_LEARNED
        ):
            return
        request, response = event.request_body(), event.response_body()
        if request is None:
            return
        known = self.groups.get(request.group_id, NO_PROTOCOLS)
        name = response.protocol_name if response is not None else None
        self.note_protocols(request.group_id, (request.protocol_type, name or known[1]))

    def note_protocols(self, group_id: str, protocols: Protocols) -> None:
        self.groups[group_id] = protocols
        self.groups.move_to_end(group_id)
        if len(self.groups) > MOST_GROUPS:
            self.groups.popitem(last=False)

    def protocols_of(self, group_id: str) -> Protocols:
        return self.groups.get(group_id, NO_PROTOCOLS)

    def _open_records(self, exchange: Exchange, where: "Where") -> list[Embedded]:
        frame = exchange.request if where == "request" else exchange.response
        fields = [] if frame is None else frame.records_fields()
        if not fields:
            return []  # most answers to a Fetch have none
        return open_records_fields(fields, where, Context(exchange.topic_names, viewers=self.viewers))

    def _context(self, exchange: Exchange, request: Any) -> Context:
        protocol = NO_PROTOCOLS
        if exchange.api_key == ApiKey.SYNC_GROUP and request is not None:
            protocol = self.protocols_of(request.group_id)
        return Context(exchange.topic_names, *protocol, exchange.connection.sasl_mechanism, request, self.viewers)


def _unread(api_versions: Frame) -> list[Embedded]:
    """Return the client software named in an ApiVersions request that the broker did not read."""
    software = client_software(api_versions.data, api_versions.body_start)
    if software is None:
        return []
    name, version = software
    return [Embedded("", "request", "unread", {"clientSoftwareName": name, "clientSoftwareVersion": version})]


def _holding(frame: Frame | None) -> tuple[str, Any]:
    """Return the name and the decoded body of a message that can hold payloads; None for the body of any other."""
    message = None if frame is None else frame.message
    if frame is None or message is None or not holds_payloads(message.name):
        return "", None
    return message.name, frame.body()


# Any field named errorCode or ending in ErrorCode that is not 0. Inside a JSON string the quote would be escaped.
NONZERO_ERROR = re.compile(rb'rrorCode":(-?[1-9][0-9]*)')
READABLE = 4_000_000  # bytes of a body's JSON that are shown to people; of a larger one only the size
OPENABLE = 16_000_000  # bytes of a body's JSON that is decoded to objects, which need up to twenty times its size
MOST_ERRORS = 1_000  # listed in full; beyond, only codes that are not among them
TOPIC_ID = re.compile(rb'opicId":"([A-Za-z0-9_-]{22})"')


class Bodies(Struct):
    """Request and response as Kafka's JSON in UTF-8; None if it is missing or cannot be read.

    For a body that is cut, this is the JSON of the fields before the cut; ``beginnings`` says what is missing.
    """

    request: bytes | None = None
    response: bytes | None = None
    undecoded: str | None = None  # why a body is None although its frame is there
    embedded: list[Embedded] = field(default_factory=list)  # what is inside bytes and records fields
    sasl_mechanism: str | None = None  # what the connection agreed on, for what is inside SaslAuthenticate
    beginnings: dict[str, Beginning] = field(default_factory=dict)  # of a cut body, by its side: what is missing


class FieldError(Struct, frozen=True):
    """An error code in a response."""

    path: str  # responses[0].partitionResponses[2].errorCode; "" in a response beyond OPENABLE
    code: int
    name: str


def begin_body(frame: Frame, side: str, bodies: Bodies) -> bytes | None:
    """Read the fields before the cut of a body; None if there are none. An error before the cut goes to ``undecoded``."""
    beginning = bodies.beginnings[side] = read_beginning(frame)
    if beginning.error is not None and bodies.undecoded is None:
        bodies.undecoded = f"{side}: {beginning.error}"
    return None if beginning.json == b"{}" and beginning.missing is not None else beginning.json


def find_errors(response: bytes | None) -> list[FieldError]:
    """List every error code of a response other than 0, with its path, in the order of the body.

    After MOST_ERRORS, each further code is listed once, at its first path. A response larger than OPENABLE is only searched,
    not decoded to objects: each code is listed once, without its path.
    """
    if response is None or NONZERO_ERROR.search(response) is None:
        return []
    if len(response) > OPENABLE:
        return [FieldError("", code, error_name(code)) for code in count_errors(response)]
    first_errors: list[FieldError] = []
    further: dict[int, FieldError] = {}
    for error in _walk_errors(msgspec.json.decode(response), ""):
        if len(first_errors) < MOST_ERRORS:
            first_errors.append(error)
        else:
            further.setdefault(error.code, error)
    listed = {error.code for error in first_errors}
    return first_errors + [error for code, error in further.items() if code not in listed]


def count_errors(response: bytes | None) -> Counter[int]:
    """Count each error code other than 0 in a response, in the order of the body."""
    return Counter(int(match[1]) for match in NONZERO_ERROR.finditer(response or b""))


def find_topic_names(exchange: Exchange, bodies: Bodies) -> dict[str, str]:
    """Map the topic ids in the bodies to their names, in the order of the bodies; ids without a known name are left out."""
    names = exchange.topic_names
    if isinstance(names, dict) and not names:
        return {}  # no ids in this version; asking a mapping that is made on demand would cost
    found_names: dict[str, str] = {}
    for body in (bodies.request, bodies.response):
        for topic_id in dict.fromkeys(TOPIC_ID.findall(body)) if body is not None else ():
            name = names.get(topic_id.decode())
            if name is not None:
                found_names[topic_id.decode()] = well_formed(name)
    return found_names


def _walk_errors(value: Any, path: str) -> Iterator[FieldError]:
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        for name, inner in value.items():
            if isinstance(inner, dict | list):
                yield from _walk_errors(inner, f"{prefix}{name}")
            elif inner and isinstance(inner, int) and name.endswith("rrorCode"):
                yield FieldError(f"{prefix}{name}", inner, error_name(inner))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if isinstance(inner, dict | list):
                yield from _walk_errors(inner, f"{path}[{index}]")


_encode = msgspec.json.Encoder().encode


def read_beginning(frame: Frame) -> Beginning:
    """Read the fields before the cut of a body, credentials withheld; none if the version is newer than the facts."""
    if frame.message is None or frame.assumed_version is not None:
        return Beginning(b"{}")
    return frame.message.beginning(frame.body_version, frame.data, frame.body_start, withhold=True)


def frames_of(exchange: Exchange) -> list[tuple[str, Frame]]:
    """Return ("request", frame) and ("response", frame), without those that are missing."""
    both = (("request", exchange.request), ("response", exchange.response))
    return [(side, frame) for side, frame in both if frame is not None]


def trailing_of(exchange: Exchange) -> dict[str, int]:
    """Return how many bytes come after the message of each side; sides without any are left out."""
    return {side: frame.trailing for side, frame in frames_of(exchange) if frame.trailing}


def completeness_json(exchange: Exchange, beginnings: Mapping[str, Beginning]) -> bytes:
    """Return the last fields of a line of the decoded log: bodies, trailing, missing and edited, with a comma before each.

    *beginnings*: what was read of the bodies that are cut, by side.
    """
    missing = {side: one.missing for side, one in beginnings.items()}
    fields = {
        "bodies": exchange.bodies,
        "trailing": trailing_of(exchange) or None,
        "missing": missing or None,
        "edited": exchange.edited,
    }
    return b"," + _encode(fields)[1:-1]


def trailing_words(size: int) -> str:
    """Say how many bytes come after a message."""
    return f"{counted(size, 'byte')} after the message"


def why_cut(exchange: Exchange) -> dict[str, str]:
    """Return why bodies are cut, in words, by side."""
    cut = [side for side, frame in frames_of(exchange) if frame.cut]
    words = exchange.bodies or ""
    if len(cut) == 2 and words.startswith("request: "):
        request, _, response = words.removeprefix("request: ").partition("; response: ")
        return {"request": request, "response": response}
    return dict.fromkeys(cut, words)


def notes(exchange: Exchange) -> str:
    """Return the end of a line of text: which sides are cut and why, how many bytes come after them, what filters did."""
    if is_plain(exchange.request) and is_plain(exchange.response):
        return ""
    why = why_cut(exchange)
    words = []
    for side, frame in frames_of(exchange):
        if frame.cut:
            words.append(f"{side}: {why[side]}{share_here(frame)}")
        if frame.trailing:
            words.append(f"{side}: {trailing_words(frame.trailing)}")
    words.extend(printable(edit) for edit in exchange.edited)
    return "  ".join(words)


def is_plain(frame: Frame | None) -> bool:
    """Return whether a frame needs no note: it is not cut, nothing follows its message, and no filter changed it."""
    return frame is None or not (frame.cut or frame.trailing or frame.edits)


def share_here(frame: Frame) -> str:
    """Say how much of a cut frame was captured; "" if that is not known, as for a decoded log."""
    return f", {len(frame.data) + SIZE_FIELD:,} of {frame.wire_size:,} bytes are here" if frame.data else ""


def lists_all(beginning: Beginning | None) -> bool:
    """Return whether every element of every array in a cut body was at least begun, so that only records can be missing."""
    if beginning is None or beginning.missing is None:
        return True
    path = beginning.missing
    if not path.endswith(("ecords", "_taggedFields")) or (not beginning.counts and "[" in path):
        return False
    return all(path.startswith(f"{array}[{count - 1}]") for array, count in beginning.counts.items())


def user_of(exchange: Exchange, request: Any, bodies: Bodies | None) -> str | None:
    """Return the user name in a client's SASL token, if the mechanism sends it in the clear. A decoded log has it in *bodies*."""
    if type(exchange.request) is not Frame:
        return _shown_user(bodies)
    try:
        name = open_token(request.auth_bytes or b"", exchange.connection.sasl_mechanism, from_client=True).get(
            "username"
        )
    except DecodeError:
        return None
    return name if isinstance(name, str) and name else None


def _shown_user(bodies: Bodies | None) -> str | None:
    for one in bodies.embedded if bodies is not None else ():
        if one.kind == "sasl-token" and one.where == "request" and isinstance(one.json, dict):
            name = one.json.get("username")
            return name if isinstance(name, str) and name else None
    return None
