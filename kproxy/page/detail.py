"""One exchange in detail: row, both sides as bytes and as a tree of fields, errors, records. Two exchanges compared."""

import base64
from collections.abc import Iterator
from typing import Any

import msgspec

from kproxy.errors import CaptureError, KproxyError
from kproxy.output.from_jsonl import LogReader
from kproxy.output.text.tree import Tree
from kproxy.page.blocks import Side
from kproxy.page.columns import COLUMNS
from kproxy.page.frame_tree import as_plain, frame_tree
from kproxy.page.store import Store
from kproxy.protocol import message, request_header_version, request_message, response_header_version, response_message
from kproxy.protocol.constants import SIZE_FIELD
from kproxy.protocol.error_codes import ErrorCode, error_code

MOST_ERRORS = 100  # different codes that are explained
MOST_INLINE = 65_536  # bytes of a frame that is in the answer itself; larger ones have an answer of their own
MOST_RECORDS = 2_000  # of an exchange, MOST_OF_PARTITION of each partition
MOST_OF_PARTITION = 500
LONGEST_TEXT = 2_000  # characters of a key or a value
LARGEST = 16_000_000  # bytes of a line that is decoded
ENCODED = "these bytes are encoded anew from the fields: a decoded log has none"
MOST_DIFFERENCES = 5_000
LONGEST_DIFFERENCE = 200  # characters
COMPARED = ("requestHeader", "request", "responseHeader", "response")
FIELDS = (
    "client",
    "broker",
    "clientId",
    "apiName",
    "apiVersion",
    "requestSize",
    "responseSize",
    "unanswered",
    "undecoded",
    "bodies",
)
EXPECTED = {"correlationId"}  # fields whose difference is no news
ABSENT = object()  # stands for a field that one of two exchanges lacks
STEMS = ("├", "└", "│", " ")


def detail_of(store: Store, number: int) -> dict[str, Any] | None:
    """Return the answer of /page/api/exchanges/NUMBER; None if there is no such exchange."""
    item = store.item(number)
    if item is None:
        return None
    row = _row(store, number)
    line: dict[str, Any] = msgspec.json.decode(item.line) if 0 < len(item.line) <= LARGEST else {}
    rendered = _rendered(item.line) if "event" in line else {}
    return {
        "number": number,
        "row": row,
        "request": _side(item.request or _side_of(row, line, "request"), row, line, "request", rendered),
        "response": _side(item.response or _side_of(row, line, "response"), row, line, "response", rendered),
        "errors": _errors(row),
        "records": _records(line),
    }


def bytes_of(store: Store, number: int, name: str) -> bytes | None:
    """Return the frame of a side (request, response) with its size field; None if there are no bytes of it."""
    item = store.item(number)
    if item is None:
        return None
    side = item.request if name == "request" else item.response
    if side is not None and side.data:
        return side.data
    row = _row(store, number)
    line: dict[str, Any] = msgspec.json.decode(item.line) if 0 < len(item.line) <= LARGEST else {}
    side = side or _side_of(row, line, name)
    if side is None:
        return None
    made = _encoded(side, name, _header_version(row, side, name), line.get(f"{name}Header"), line.get(name))
    return None if made is None else made.data


def _row(store: Store, number: int) -> dict[str, Any]:
    columns = list(COLUMNS.values())
    (values,) = store.look_up([number], columns)
    return {column.name: value for column, value in zip(columns, values, strict=True)}


def _records(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the records of each partition as the decoded log has them, limited to what a person looks at."""
    left, partitions = MOST_RECORDS, []
    for one in line.get("embedded", ()):
        if one["kind"] != "records":
            continue
        json = one.get("json") or {}
        records = json.get("records") or []
        shown = [_shortened(record) for record in records[: min(max(left, 1), MOST_OF_PARTITION)]]
        left -= len(shown)
        if len(shown) < len(records):
            json = {"count": len(records)} | json
        partitions.append(one if "records" not in json else one | {"json": json | {"records": shown}})
    return partitions


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}…"
    if isinstance(value, dict):
        return {name: _shortened(one) for name, one in value.items()}
    return [_shortened(one) for one in value] if isinstance(value, list) else value


def _side(
    side: Side | None, row: dict[str, Any], line: dict[str, Any], name: str, rendered: dict[str, str]
) -> dict[str, Any] | None:
    if side is None:
        return None
    note, body, header = side.note, line.get(name), line.get(f"{name}Header")
    version = _header_version(row, side, name)
    data = side.data
    if not data and (made := _encoded(side, name, version, header, body)) is not None:
        side, note = made, ENCODED
    embedded = [one for one in line.get("embedded", ()) if one.get("in") == name]
    tree = frame_tree(side, name, version, header, body, embedded)
    if tree.note is None and side.message is None and body is None:
        tree.note = row["undecoded"] or (None if name in line else "the tables have no bodies")
    return {
        "bytes": base64.b64encode(side.data).decode() if 0 < len(side.data) <= MOST_INLINE else None,
        "apart": len(side.data) > MOST_INLINE,
        "size": side.size,
        "cut": max(side.size - len(side.data), 0) if side.cut else 0,
        "why": side.cut or None,
        "trailing": side.trailing,
        "tree": as_plain(tree),
        "rendered": rendered.get(name, ""),
        "note": note or None,
    }


def _side_of(row: dict[str, Any], line: dict[str, Any], name: str) -> Side | None:
    """Make a side without bytes of what a row tells, as for tables."""
    size, key, version = row[f"{name}Size"], row["apiKey"], row["apiVersion"]
    if size is None:
        return None
    of = None if key is None else request_message(key) if name == "request" else response_message(key)
    known = of is not None and version is not None and version in of.versions and line.get(name) is not None
    return Side(b"", int(size), of.name if known and of is not None else None, version or 0)


def _header_version(row: dict[str, Any], side: Side, name: str) -> int | None:
    """Return the version of the header; None if it is not known."""
    key, version = row["apiKey"], row["apiVersion"]
    if key is None or version is None or request_message(key) is None:
        return None
    if name == "request":
        return request_header_version(key, version)
    return response_header_version(key, side.version if side.message else version)


def _encoded(side: Side, name: str, header_version: int | None, header: Any, body: Any) -> Side | None:
    """Encode a side anew from its fields; None if that fails, or gives another size than was sent."""
    if side.message is None or header_version is None or header is None or body is None or side.cut:
        return None
    try:
        of_header = message("RequestHeader" if name == "request" else "ResponseHeader")
        head = of_header.encode(header_version, of_header.from_json(header_version, msgspec.json.encode(header)))
        of = message(side.message)
        encoded = of.encode(side.version, of.from_json(side.version, msgspec.json.encode(body)))
    except KproxyError:
        return None
    data = (len(head) + len(encoded)).to_bytes(SIZE_FIELD, "big") + head + encoded
    if len(data) != side.size:
        return None
    return msgspec.structs.replace(side, data=data, body_start=SIZE_FIELD + len(head))


def _rendered(line: bytes) -> dict[str, str]:
    """Return the text of ``kproxy decode -v`` by side; errors belong to the response."""
    try:
        exchange, bodies = LogReader().read(line if line.endswith(b"\n") else line + b"\n")
    except CaptureError:
        return {}
    lines_of_side: dict[str, list[str]] = {}
    side = "request"
    for text in Tree().render(exchange, bodies):  # type: ignore[arg-type]  # the line is that of an exchange
        if text.startswith(("  request  ", "  response  ")):
            side = text.split()[0]
        elif text.startswith("  fetch session "):
            side = ""  # it needs the exchanges before this one
        elif not text[2:].startswith(STEMS):
            side = "response"
        lines_of_side.setdefault(side, []).append(text)
    return {side: "\n".join(lines) for side, lines in lines_of_side.items()}


def _errors(row: dict[str, Any]) -> list[dict[str, Any]]:
    names = list(dict.fromkeys(row["errorCodes"] or ()))[:MOST_ERRORS]
    return [
        {
            "code": known.code,
            "name": known.name,
            "meaning": known.meaning,
            "retriable": known.retriable,
            "clients": known.then,
        }
        for known in map(error_code, map(_code_of, names))
    ]


def _code_of(name: str) -> int:
    known = ErrorCode.__members__.get(name)
    return int(name.removeprefix("UNKNOWN_")) if known is None else int(known)


def compare(store: Store, a: int, b: int) -> dict[str, Any] | None:
    """Return the answer of /page/api/compare; None if one of the exchanges is not here."""
    first, second = store.item(a), store.item(b)
    if first is None or second is None:
        return None
    one, other = (msgspec.json.decode(item.line) if item.line else {} for item in (first, second))
    differences = [
        {"side": "exchange", "path": name, "a": one.get(name), "b": other.get(name)}
        for name in FIELDS
        if one.get(name) != other.get(name)
    ]
    for side in COMPARED:
        for path, left, right in _differences("", one.get(side), other.get(side)):
            if path not in EXPECTED:
                differences.append({"side": side, "path": path, "a": _shown(left), "b": _shown(right)})
            if len(differences) >= MOST_DIFFERENCES:
                return {"differences": differences, "more": True}
    return {"differences": differences, "more": False}


def _differences(path: str, a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in [*a, *(name for name in b if name not in a)]:
            yield from _differences(f"{path}.{name}" if path else name, a.get(name, ABSENT), b.get(name, ABSENT))
    elif isinstance(a, list) and isinstance(b, list):
        for at in range(max(len(a), len(b))):
            left, right = (one[at] if at < len(one) else ABSENT for one in (a, b))
            yield from _differences(f"{path}[{at}]", left, right)
    elif a != b or type(a) is not type(b):
        yield path, a, b


def _shown(value: Any) -> Any:
    """Return a value as the page shows it; None if it is absent."""
    if value is ABSENT:
        return None
    if isinstance(value, dict | list):
        text = msgspec.json.encode(value).decode()
        return text if len(text) <= LONGEST_DIFFERENCE else f"{text[:LONGEST_DIFFERENCE]}…"
    return value
