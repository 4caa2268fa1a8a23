"""The tree of a frame: size, header and body, with the decoded contents of bytes fields. Credentials are withheld."""

from collections.abc import Mapping, Sequence
from typing import Any

from kproxy.page.blocks import Side
from kproxy.page.exchange.positions import LONGEST_VALUE, MOST_ELEMENTS, MOST_NODES, Node, locate
from kproxy.protocol.constants import SIZE_FIELD
from kproxy.protocol.secrets import WITHHELD

MOST_EXACT = 1 << 53  # integers beyond are no numbers of JavaScript
ZEROS = "a credential; the bytes have zeros or x in its place"


def frame_tree(
    side: Side, name: str, header_version: int | None, header: Any, body: Any, embedded: Sequence[Mapping[str, Any]]
) -> Node:
    """Return the tree of a side.

    Args:
        side: with its bytes, from which places are taken; or without.
        name: request or response.
        header_version: None where it is not known.
        header, body: as Kafka's JSON, credentials withheld; None where there is none.
        embedded: decoded contents of its fields, as in the decoded log.
    """
    root = Node(name, "frame")
    if side.data:
        root.start, root.end = 0, len(side.data)
        root.children.append(
            Node("size", "int32", int.from_bytes(side.data[:SIZE_FIELD], "big", signed=True), 0, SIZE_FIELD)
        )
        root.children.append(_header(side, name, header_version))
        root.children.append(_body(side))
        _finish(root.children[1], header, {}, "")
    else:
        counter = _Counter()
        if header is not None:
            root.children.append(counter.node("header", header))
        if body is not None:
            root.children.append(counter.node(side.message or "body", body))
        if not root.children:
            return root
    inside: dict[str, list[Mapping[str, Any]]] = {}
    for one in embedded:
        inside.setdefault(one["path"], []).append(one)
    _finish(root.children[-1], body, inside, "")
    return root


def as_plain(node: Node) -> dict[str, Any]:
    """Convert a node to the page's JSON."""
    value = node.value
    if isinstance(value, int) and not -MOST_EXACT < value < MOST_EXACT:
        value = str(value)
    return {
        "name": node.name,
        "type": node.type,
        "value": value,
        "start": node.start,
        "end": node.end,
        "children": [as_plain(child) for child in node.children],
        "more": node.more,
        "note": node.note,
    }


def _header(side: Side, name: str, version: int | None) -> Node:
    """Return the header's fields; a single node if the bytes do not fit its version."""
    end = side.body_start if side.body_start > SIZE_FIELD else min(2 * SIZE_FIELD, len(side.data))
    if version is not None:
        kind = "RequestHeader" if name == "request" else "ResponseHeader"
        located = locate(kind, version, side.data, SIZE_FIELD, end)
        if located.note is None:
            return Node("header", f"{kind} {located.type}", start=SIZE_FIELD, end=end, children=located.children)
    return Node("header", "bytes", start=SIZE_FIELD, end=end)


def _body(side: Side) -> Node:
    start = side.body_start if side.body_start > SIZE_FIELD else min(2 * SIZE_FIELD, len(side.data))
    end = max(len(side.data) - side.trailing, start)
    if side.message is None:
        return Node("body", "bytes", start=start, end=end, note=side.note or None)
    located = locate(side.message, side.version, side.data, start, end, side.layout)
    if side.cut:
        located.note = side.cut
    return located


def _finish(node: Node, json: Any, inside: Mapping[str, Sequence[Mapping[str, Any]]], path: str) -> None:
    """Withhold what Kafka's JSON of the message withholds, and add the decoded contents of fields."""
    for index, child in enumerate(node.children):
        if child.name.startswith("["):
            at, value = f"{path}{child.name}", _element(json, index)
        else:
            at = f"{path}.{child.name}" if path else child.name
            value = _field(json, child.name)
        if value == WITHHELD:
            child.value, child.note = WITHHELD, ZEROS
        _finish(child, value, inside, at)
        for one in inside.get(at.removesuffix("SizeInBytes"), ()):
            counter = _Counter()
            opened = counter.node(one["kind"], one.get("json"))
            opened.note = one.get("error")
            child.children.append(opened)


def _element(json: Any, index: int) -> Any:
    return json[index] if isinstance(json, list) and index < len(json) else None


def _field(json: Any, name: str) -> Any:
    return json.get(name) if isinstance(json, dict) else None


class _Counter:
    """Makes nodes of Kafka's JSON, without places, and at most MOST_NODES of them."""

    def __init__(self) -> None:
        self.left = MOST_NODES

    def node(self, name: str, value: Any) -> Node:
        """Return the node of a value, with all that the value contains."""
        self.left -= 1
        node = Node(name, _kind(value))
        if isinstance(value, dict | list):
            pairs = (
                list(value.items()) if isinstance(value, dict) else [(f"[{at}]", one) for at, one in enumerate(value)]
            )
            for inner_name, inner in pairs[:MOST_ELEMENTS]:
                if self.left <= 0:
                    break
                node.children.append(self.node(inner_name, inner))
            node.more = len(pairs) - len(node.children)
        else:
            node.value = value[:LONGEST_VALUE] if isinstance(value, str) else value
        return node


def _kind(value: Any) -> str:
    return {dict: "struct", list: "array", str: "string", bool: "bool", int: "integer", float: "number"}.get(
        type(value), "null"
    )
