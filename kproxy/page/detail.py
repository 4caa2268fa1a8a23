"""One exchange, whole: its row, both sides as bytes and as a tree, errors, records."""

import base64
from typing import Any

import msgspec

from kproxy.page.blocks import Item, Side
from kproxy.page.columns import COLUMNS
from kproxy.page.store import Store
from kproxy.protocol.error_codes import error_code

MOST_ERRORS = 100  # different codes that are explained


def detail_of(store: Store, number: int) -> dict[str, Any] | None:
    """The answer of /page/api/exchanges/NUMBER; None where there is no such exchange."""
    item = store.item(number)
    if item is None:
        return None
    columns = list(COLUMNS.values())
    (row,) = store.look_up([number], columns)
    line = msgspec.json.decode(item.line) if item.line else {}
    return {
        "number": number,
        "row": {column.name: value for column, value in zip(columns, row, strict=True)},
        "request": _side(item, item.request, line, "request"),
        "response": _side(item, item.response, line, "response"),
        "errors": _errors(line),
        "records": [one for one in line.get("embedded", ()) if one["kind"] == "records"],
    }


def _side(item: Item, side: Side | None, line: dict[str, Any], name: str) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "bytes": base64.b64encode(side.data).decode() if side.data else None,
        "size": side.size,
        "cut": max(side.size - len(side.data), 0) if side.cut else 0,
        "trailing": side.trailing,
        "tree": _node(name, {"header": line.get(f"{name}Header"), "body": line.get(name)}),
        "rendered": "",
        "note": side.note or None,
    }


def _node(name: str, value: Any) -> dict[str, Any]:
    """A value of Kafka's JSON as a node, without places."""
    children: list[dict[str, Any]] = []
    kind = "null" if value is None else type(value).__name__
    if isinstance(value, dict):
        children, kind = [_node(key, inner) for key, inner in value.items()], "struct"
    elif isinstance(value, list):
        children, kind = [_node(f"[{index}]", inner) for index, inner in enumerate(value)], "array"
    return {
        "name": name,
        "type": kind,
        "value": None if children or isinstance(value, dict | list) else value,
        "start": None,
        "end": None,
        "children": children,
        "more": 0,
        "note": None,
    }


def _errors(line: dict[str, Any]) -> list[dict[str, Any]]:
    codes = list(dict.fromkeys(one["code"] for one in line.get("errors", ())))[:MOST_ERRORS]
    return [
        {
            "code": known.code,
            "name": known.name,
            "meaning": known.meaning,
            "retriable": known.retriable,
            "clients": known.then,
        }
        for known in map(error_code, codes)
    ]
