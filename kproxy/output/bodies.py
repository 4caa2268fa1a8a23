"""Bodies: both bodies of an exchange as Kafka's JSON, read once for all outputs; credentials are withheld here.

Not here: what a body means (protocol), or how it is shown (text, tree, jsonl).
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from kproxy.errors import DecodeError
from kproxy.output.completeness import read_beginning
from kproxy.output.escaping import well_formed
from kproxy.output.opening import Opener
from kproxy.protocol import ApiKey, Beginning
from kproxy.protocol.embedded import Embedded
from kproxy.protocol.error_codes import error_name
from kproxy.session import Exchange, Frame

# Any field named errorCode or ending in ErrorCode that is not 0. Inside a JSON string the quote would be escaped.
NONZERO_ERROR = re.compile(rb'rrorCode":(-?[1-9][0-9]*)')


# A records field that is not empty. Most answers to a Fetch have none, and then nothing is in them.
SOME_RECORDS = re.compile(rb'ecordsSizeInBytes":[1-9]')
READABLE = 4_000_000  # bytes of a body's JSON that are shown to people; of a larger one only the size
OPENABLE = 16_000_000  # bytes of a body's JSON that is decoded to objects, which need up to twenty times its size
MOST_ERRORS = 1_000  # listed in full; beyond, only codes that are not among them
FETCHES = frozenset((ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT, ApiKey.SHARE_FETCH))  # their requests hold no payloads
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


def read_bodies(exchange: Exchange, opener: Opener | None = None) -> Bodies:
    """Render both bodies of an exchange as JSON; ``undecoded`` says why one cannot be read.

    Payloads inside the bodies are decoded, too, with what *opener* remembers of earlier exchanges; if one body is larger than
    OPENABLE, no payloads of the exchange are decoded.
    """
    bodies = Bodies(undecoded=exchange.undecoded, sasl_mechanism=exchange.connection.sasl_mechanism)
    if exchange.request is not None:
        bodies.request = _read(exchange.request, "request", bodies)
    if exchange.response is not None:
        bodies.response = _read(exchange.response, "response", bodies)
    if len(bodies.request or b"") > OPENABLE or len(bodies.response or b"") > OPENABLE:
        return bodies
    if exchange.api_key not in FETCHES or (bodies.response is not None and SOME_RECORDS.search(bodies.response)):
        bodies.embedded = (Opener() if opener is None else opener).open(exchange)
    return bodies


def _read(frame: Frame, side: str, bodies: Bodies) -> bytes | None:
    if frame.unread:
        return b"{}"  # as the broker reads it
    if frame.cut:
        return _begin(frame, side, bodies)
    if frame.message is None or frame.error is not None:
        if bodies.undecoded is None:
            bodies.undecoded = str(frame.error) if frame.error is not None else "nothing is known about its layout"
        return None
    try:
        return frame.to_json()
    except DecodeError as error:
        if bodies.undecoded is None:
            bodies.undecoded = str(error)
        return None


def _begin(frame: Frame, side: str, bodies: Bodies) -> bytes | None:
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
