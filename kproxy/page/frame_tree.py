"""The tree of a frame: size, header and body, with the decoded contents of bytes fields. Credentials are withheld.

Each field has its place in the bytes. The codec (kproxy.protocol) notes no positions, as nothing else needs them: ``locate``
reads the one message that a person looks at a second time along the facts, slowly, and bounded. Encoding: KIP-482 for flexible
versions, KIP-893 for nullable structs.
"""

import base64
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from kproxy.page.blocks import Side
from kproxy.protocol.constants import SIZE_FIELD
from kproxy.protocol.facts import Field, Layout, facts
from kproxy.protocol.secrets import WITHHELD

MOST_ELEMENTS = 1_000  # of one array
MOST_NODES = 20_000  # of one message
LONGEST_VALUE = 4_000  # characters
FIXED = {
    "bool": ">?", "int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q", "float64": ">d",
}  # fmt: skip
UUID_SIZE = 16
MOST_EXACT = 1 << 53  # integers beyond are no numbers of JavaScript
ZEROS = "a credential; the bytes have zeros or x in its place"


class Node(Struct):
    """A field, an element, or a message. ``start`` and ``end`` are offsets in the bytes, half open; None if it has no place.

    ``value`` is a scalar as Kafka's JSON has it; for records, the number of their bytes. A length, a count, a mark or a tag
    before a value belongs to its field. ``more`` children are left out.
    """

    name: str
    type: str
    value: Any = None
    start: int | None = None
    end: int | None = None
    children: list["Node"] = field(default_factory=list)
    more: int = 0
    note: str | None = None


class _Ended(Exception):
    """The bytes end, or go on as no writer would write them; the text says how."""


def locate(message: str, version: int, data: bytes, start: int, end: int, release: str | None = None) -> Node:
    """Return the fields of a message in ``data[start:end]`` with their places. Never raises because of the bytes.

    Args:
        message: Kafka's name.
        version: the one that the bytes are laid out as.
        data: whole frame, or more.
        start, end: where the message is in it.
        release: that of an older layout of this version; None: the newest.

    Raises KeyError, ValueError for an unknown message or version.
    """
    layouts = [one for one in facts().layouts(message) if version in one.versions]
    if not layouts:
        raise ValueError(f"{message} has no version {version}")
    layout = next((one for one in layouts if release is not None and one.release == release), layouts[0])
    root = Node(message, f"version {version}", start=start, end=end)
    walk = _Walk(data, start, end, layout, version)
    try:
        walk.struct(layout.fields, root)
        if walk.at < end:
            root.children.append(
                Node("", "bytes", start=walk.at, end=end, note=f"{end - walk.at} bytes after the message")
            )
    except _Ended as error:
        root.note = str(error)
    return root


class _Walk:
    """One message being read."""

    def __init__(self, data: bytes, start: int, end: int, layout: Layout, version: int) -> None:
        self.at = start
        self._data = data
        self._end = end
        self._version = version
        self._flexible = version in layout.flexible
        self._left = MOST_NODES

    def struct(self, fields: tuple[Field, ...], into: Node | None) -> None:
        """Read the fields of a struct, then its tagged ones, as children of *into*; None: only walk over them."""
        present = [one for one in fields if self._version in one.versions]
        tagged = {one.tag: one for one in present if one.tag is not None and self._version in one.tagged}
        for one in present:
            if one not in tagged.values():
                self._field(one, into)
        if self._flexible:
            self._tags(tagged, into)

    def _field(self, one: Field, into: Node | None, start: int | None = None) -> None:
        """Read a field; *start*: where its tag begins, if it has one."""
        node = self._child(into, one.json_name, one.type_text, self.at if start is None else start)
        if one.is_array:
            self._array(one, node)
        elif not one.is_struct or self._version not in one.nullable or self._is_there(tagged=start is not None):
            self._one(one, node)
        if node is not None:
            node.end = self.at

    def _is_there(self, *, tagged: bool) -> bool:
        return self._varint() > 0 if tagged else int(self._fixed("int8")) >= 0

    def _one(self, one: Field, node: Node | None) -> None:
        """Read a struct or a scalar: a field, or an element of an array."""
        if one.is_struct:
            self.struct(one.fields, node)
        else:
            value = self._scalar(one)
            if node is not None:
                node.value = value

    def _array(self, one: Field, node: Node | None) -> None:
        count = self._size(one, "int32")
        if count == 0 and node is not None:
            node.value = []  # null is another value
        for index in range(max(count, 0)):
            if self.at >= self._end:
                raise _Ended(f"{count:,} elements of {one.json_name} are announced, and the bytes end after {index:,}")
            kept = node if index < MOST_ELEMENTS and self._left > 0 else None
            child = self._child(kept, f"[{index}]", one.type, self.at)
            self._one(one, child)
            if child is not None:
                child.end = self.at
            elif node is not None:
                node.more += 1

    def _tags(self, known: dict[int, Field], into: Node | None) -> None:
        start = self.at
        count = self._varint()
        if count and into is not None:
            self._child(into, "taggedFields", "uvarint", start, self.at, count)
        for _ in range(count):
            start = self.at
            tag, size = self._varint(), self._varint()
            end = self.at + size
            self._need(size)
            if tag in known:
                self._field(known[tag], into, start)
            else:
                raw = base64.b64encode(self._data[self.at : end][:LONGEST_VALUE]).decode()
                self._child(into, f"tag {tag}", "bytes", start, end, raw)
                self.at = end
            if self.at != end:
                raise _Ended(f"tag {tag} does not fill its {size} bytes")

    def _child(
        self, into: Node | None, name: str, kind: str, start: int, end: int | None = None, value: Any = None
    ) -> Node | None:
        if into is None or self._left <= 0:
            return None
        self._left -= 1
        made = Node(name, kind, value, start, end if end is not None else self._end)
        into.children.append(made)
        return made

    # Values

    def _scalar(self, one: Field) -> Any:
        if one.type in FIXED:
            return self._fixed(one.type)
        if one.type == "uuid":
            return base64.urlsafe_b64encode(self._take(UUID_SIZE)).rstrip(b"=").decode()
        size = self._size(one, "int16" if one.type == "string" else "int32")
        if size < 0:
            return None
        data = self._take(size)
        if one.type == "records":
            return size
        if one.type == "string":
            return data[:LONGEST_VALUE].decode("utf-8", "replace")
        return base64.b64encode(data[:LONGEST_VALUE]).decode()

    def _size(self, one: Field, kind: str) -> int:
        """Read a length or count; negative for null."""
        if self._flexible and not one.never_flexible:
            return self._varint() - 1
        return int(self._fixed(kind))

    def _fixed(self, kind: str) -> Any:
        form = FIXED[kind]
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFF
            shift += 7
            if shift > 28:
                raise _Ended("a varint of more than 5 bytes")

    def _take(self, size: int) -> bytes:
        self._need(size)
        data = self._data[self.at : self.at + size]
        self.at += size
        return data

    def _need(self, size: int) -> None:
        if size < 0 or self.at + size > self._end:
            raise _Ended(f"{size:,} bytes are announced, and {self._end - self.at:,} are here")


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
        start = side.body_start if side.body_start > SIZE_FIELD else min(2 * SIZE_FIELD, len(side.data))
        root.children.append(_header(side, name, header_version, start))
        root.children.append(_body(side, start))
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
    is_large = isinstance(node.value, int) and not -MOST_EXACT < node.value < MOST_EXACT
    value = str(node.value) if is_large else node.value
    return msgspec.structs.asdict(node) | {"value": value, "children": list(map(as_plain, node.children))}


def _header(side: Side, name: str, version: int | None, end: int) -> Node:
    """Return the header's fields; a single node if the bytes do not fit its version."""
    if version is not None:
        kind = "RequestHeader" if name == "request" else "ResponseHeader"
        located = locate(kind, version, side.data, SIZE_FIELD, end)
        if located.note is None:
            return Node("header", f"{kind} {located.type}", start=SIZE_FIELD, end=end, children=located.children)
    return Node("header", "bytes", start=SIZE_FIELD, end=end)


def _body(side: Side, start: int) -> Node:
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
            at = f"{path}{child.name}"
            value = json[index] if isinstance(json, list) and index < len(json) else None
        else:
            at = f"{path}.{child.name}" if path else child.name
            value = json.get(child.name) if isinstance(json, dict) else None
        if value == WITHHELD:
            child.value, child.note = WITHHELD, ZEROS
        _finish(child, value, inside, at)
        for one in inside.get(at.removesuffix("SizeInBytes"), ()):
            counter = _Counter()
            opened = counter.node(one["kind"], one.get("json"))
            opened.note = one.get("error")
            child.children.append(opened)


KINDS = {dict: "struct", list: "array", str: "string", bool: "bool", int: "integer", float: "number"}


class _Counter:
    """Makes nodes of Kafka's JSON, without places, and at most MOST_NODES of them."""

    def __init__(self) -> None:
        self.left = MOST_NODES

    def node(self, name: str, value: Any) -> Node:
        """Return the node of a value, with all that the value contains."""
        self.left -= 1
        node = Node(name, KINDS.get(type(value), "null"))
        if value == []:
            node.value = []
        elif isinstance(value, dict | list):
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
