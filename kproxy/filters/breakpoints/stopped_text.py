r"""A stopped message as text to edit, and edited text back as a message.

shown(message, version, body)      -> Shown: Kafka's JSON with its record batches opened, and hex; neither has contents of
                                   records if these are withheld
from_json(message, version, text, before), from_hex(...)
                                   -> the bytes of the body. Raises Mistake, which says where the text is wrong

*body* is a message without its header. Kafka's JSON is that of org.apache.kafka.common.message.*JsonConverter; where that has the
size of a records field (``recordsSizeInBytes``), this has the field itself (batches_json.py), as it could not be read back.

The result is always in Kafka's own encoding, even if hex spells a message in a longer way. Unknown tagged fields stay, and
batches that were not changed keep their bytes, whatever their CRC is.

Characters that are invisible, or that move what is around them, are escapes in the JSON (\u202e): controls, formatting, lone
surrogates, spaces that look like another, private use, and marks that pile up on one letter.
"""

import base64
import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from kproxy.errors import DecodeError, EncodeError
from kproxy.filters.breakpoints.batch_values import BatchMistake
from kproxy.filters.breakpoints.batches_json import Unchanged, shown_field, written_field
from kproxy.filters.breakpoints.text_places import place_of, place_of_byte, place_of_path
from kproxy.filters.units import quoted
from kproxy.protocol import ApiKey, Message, MessageStruct
from kproxy.protocol.facts import Field

MOST_TEXT_SIZE = 4 << 20  # bytes of a message that is stopped
MOST_PATHS = 50  # that are listed for one change
SIZE_SUFFIX = "SizeInBytes"
WITHHELD_FIELD = "withheld"
UNSEEN = re.compile(  # controls, bidirectional formatting, line separators, without width, tags, lone surrogates
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
    "|(?<=[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3})"
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
NOT_HEX = re.compile(r"[^0-9A-Fa-f\s]", re.ASCII)
INCOMPLETE_BYTE = re.compile(r"(?<!\S)(?:\S\S)*\S(?!\S)", re.ASCII)
NAMED = re.compile(r"\w+ v-?\d+(?:: (?P<path>[\w.\[\]]+))?: (?P<reason>.*)", re.DOTALL)


class Mistake(ValueError):
    """Edited text that describes no message: one sentence, and the place.

    Args:
        reason: what is wrong, as a clause ("is missing").
        path: the field ("topicData[0].name"); "" if the mistake is not in a field.
        line, column: where in the text, from 1, in characters.
        position: in bytes from the start of the body, if hex describes no message.
    """

    def __init__(
        self,
        reason: str,
        path: str = "",
        *,
        line: int | None = None,
        column: int | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason, self.path = reason, path
        self.line, self.column, self.position = line, column, position


class Shown(Struct, frozen=True):
    """A message as text."""

    json: str
    hex: str | None  # None: not shown, as it holds records that are withheld


def shown(message: Message, version: int, body: bytes, withheld: bytes | None = None) -> Shown:
    """Return the message as text. Raises DecodeError.

    Args:
        message, version: what the body is.
        body: the message without its header.
        withheld: the body as it came, if its record batches are not to be shown. {"withheld": NUMBER, "bytes": SIZE} then stands
            for each records field that came; ``from_json`` puts the field back. There is no hex.
    """
    tree = _tree(message, version, body)
    came = [] if withheld is None else _records_of(message, version, message.decode(version, withheld))
    if came:
        _withhold(tree, message, version, body, came)
    text = json.dumps(tree, indent=2, ensure_ascii=False)
    text = UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)
    escapes = {ord(char): json.dumps(char)[1:-1] for char in set(text) if not char.isprintable() and char != "\n"}
    return Shown(text.translate(escapes), None if came else body.hex())


def _withhold(tree: Any, message: Message, version: int, body: bytes, came: list[bytes]) -> None:
    """Put a placeholder in place of each records field in a tree of *body* that is one of those that *came*."""
    value = message.decode(version, body)
    fields = iter(_records_of(message, version, value))

    def close(owner: dict[str, Any], name: str, path: str) -> None:
        if owner[name] is not None and (data := next(fields)) in came:
            owner[name] = {WITHHELD_FIELD: came.index(data), "bytes": len(data)}

    _each_records(tree, _fields(message, version, value), "", close)


def from_json(message: Message, version: int, text: str, before: bytes) -> bytes:
    """Return the body that JSON describes. *before*: the body as it came. Raises Mistake."""
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise Mistake(f"not JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except ValueError:  # of int()
        raise Mistake(f"a number has more than {sys.get_int_max_str_digits():,} digits") from None
    except RecursionError:
        raise Mistake("too many brackets inside each other") from None
    try:
        return _written(message, version, tree, before)
    except Mistake as mistake:
        line, column = place_of_path(text, mistake.path)
        raise Mistake(mistake.reason, mistake.path, line=line, column=column) from None


def _written(message: Message, version: int, tree: Any, before: bytes) -> bytes:
    """Return the body that a tree describes. Raises Mistake."""
    value = message.decode(version, before)
    writing = _Writing(_fields(message, version, value), _records_of(message, version, value))
    try:
        writing.close_batches(tree, renumber=message.api_key == ApiKey.PRODUCE)
        return message.encode(version, message.from_json(version, json.dumps(tree)))
    except EncodeError as error:
        raise _located(error) from None


def from_hex(message: Message, version: int, text: str, before: bytes) -> bytes:
    """Return the body that hex digits spell, in Kafka's own encoding. *before*: the body as it came. Raises Mistake."""
    data = _bytes_of(text)
    try:
        value = message.decode(version, data)
    except DecodeError as error:
        line, column = place_of_byte(text, error.position)
        raise Mistake(error.reason, error.path, line=line, column=column, position=error.position) from None
    unchanged = Unchanged(_records_of(message, version, message.decode(version, before)))
    for owner, field in _records_fields(_fields(message, version, value), value, version):
        old = getattr(owner, field.attribute)
        if old is not None:
            setattr(owner, field.attribute, unchanged.with_checksums(old))
    try:
        return message.encode(version, value)
    except EncodeError as error:
        raise _located(error) from None


def _bytes_of(text: str) -> bytes:
    """Return the bytes that hex digits spell. Raises Mistake."""
    for wrong, reason in (
        (NOT_HEX, "not hex: {} is no digit of it"),
        (INCOMPLETE_BYTE, "not hex: {} lacks a digit, as a byte has two"),
    ):
        match = wrong.search(text)
        if match is not None:
            line, column = place_of(text, match.end() - 1)
            raise Mistake(reason.format(quoted(match[0])), line=line, column=column)
    return bytes.fromhex(text)


def changed_paths(message: Message, version: int, before: bytes, after: bytes) -> list[str]:
    """Return the paths of the fields that differ, at most MOST_PATHS.

    An element that exists on one side only counts as one field.
    """
    paths = _differences(_tree(message, version, before), _tree(message, version, after), "")
    return [path for path, _ in zip(paths, range(MOST_PATHS), strict=False)]


def _tree(message: Message, version: int, body: bytes) -> Any:
    """Return Kafka's JSON as plain values, with batches in place of the sizes of records fields."""
    tree = json.loads(message.to_json(version, body))
    value: Any = message.decode(version, body)
    return _opened(tree, value, _fields(message, version, value), version)


def _opened(tree: dict[str, Any], value: Any, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    by_name = {field.json_name: field for field in fields if version in field.versions}
    opened: dict[str, Any] = {}
    for name, below in tree.items():
        field = by_name.get(name.removesuffix(SIZE_SUFFIX) if name not in by_name else name)
        if field is None or not (field.is_struct or field.type == "records"):
            opened[name] = below if field is None else _exact(below, getattr(value, field.attribute))
            continue
        inner = getattr(value, field.attribute)
        if field.type == "records":
            opened[field.json_name] = None if inner is None else shown_field(inner)
        elif below is None:
            opened[name] = None
        elif field.is_array:
            pairs = zip(below, inner, strict=True)
            opened[name] = [_opened(part, of, field.fields, version) for part, of in pairs]
        else:
            opened[name] = _opened(below, inner, field.fields, version)
    return opened


def _exact(text: Any, value: Any) -> Any:
    """Return text that is not UTF-8 as the codec has it, with a lone surrogate for each wrong byte.

    Kafka's JSON has U+FFFD for these.
    """
    if isinstance(text, list) and isinstance(value, list):
        return [_exact(*pair) for pair in zip(text, value, strict=True)]
    return value if isinstance(text, str) and isinstance(value, str) and "\ufffd" in text else text


class _Writing:
    """Replaces the batches in a tree by base64, which ``Message.from_json`` reads."""

    def __init__(self, fields: tuple[Field, ...], came: list[bytes]) -> None:
        self._fields = fields
        self._came = came
        self._unchanged = Unchanged(came)

    def close_batches(self, tree: Any, *, renumber: bool) -> None:
        """Change the tree in place. Raises Mistake. The codec will refuse what does not have the shape of the message."""

        def close(owner: dict[str, Any], name: str, path: str) -> None:
            if owner[name] is None:
                return
            try:
                data = self._withheld(owner[name])
                if data is None:
                    data = written_field(owner[name], self._unchanged, renumber=renumber)
            except BatchMistake as error:
                raise Mistake(error.reason, path + error.path) from None
            owner[name] = base64.b64encode(data).decode()

        _each_records(tree, self._fields, "", close)

    def _withheld(self, shown: Any) -> bytes | None:
        """Return the records field that came if a placeholder stands for it, else None."""
        number = shown.get(WITHHELD_FIELD) if isinstance(shown, dict) else None
        return self._came[number] if type(number) is int and 0 <= number < len(self._came) else None


def _each_records(
    tree: Any, fields: tuple[Field, ...], path: str, do: Callable[[dict[str, Any], str, str], None]
) -> None:
    if not isinstance(tree, dict):
        return
    for field in fields:
        name = field.json_name
        if name not in tree:
            continue
        where = f"{path}.{name}" if path else name
        if field.type == "records":
            do(tree, name, where)
        elif field.is_struct:
            below = tree[name]
            for at, part in enumerate(below) if isinstance(below, list) else ():
                _each_records(part, field.fields, f"{where}[{at}]", do)
            _each_records(below, field.fields, where, do)


def _fields(message: Message, version: int, value: MessageStruct) -> tuple[Field, ...]:
    """Return the fields of the layout that the message has."""
    layouts = [layout for layout in message.layouts if version in layout.versions]
    release = getattr(value, "layout", None)
    return next((layout for layout in layouts if layout.release == release), layouts[0]).fields


def _records_of(message: Message, version: int, value: MessageStruct) -> list[bytes]:
    fields = _records_fields(_fields(message, version, value), value, version)
    data = (getattr(owner, field.attribute) for owner, field in fields)
    return [one for one in data if one is not None]


def _records_fields(fields: tuple[Field, ...], value: Any, version: int) -> Iterator[tuple[Any, Field]]:
    for field in fields:
        if version not in field.versions:
            continue
        if field.type == "records":
            yield value, field
        elif field.is_struct:
            below = getattr(value, field.attribute)
            for one in below if isinstance(below, list) else () if below is None else (below,):
                yield from _records_fields(field.fields, one, version)


def _located(error: EncodeError) -> Mistake:
    """Return a Mistake for an error of the codec, whose text names the field."""
    match = NAMED.fullmatch(str(error))
    return Mistake(match["reason"], match["path"] or "") if match is not None else Mistake(str(error))


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            where = f"{path}.{name}" if path else name
            if name not in before or name not in after:
                yield where
            else:
                yield from _differences(before[name], after[name], where)
    elif isinstance(before, list) and isinstance(after, list):
        for at in range(max(len(before), len(after))):
            if at >= len(before) or at >= len(after):
                yield f"{path}[{at}]"
            else:
                yield from _differences(before[at], after[at], f"{path}[{at}]")
    elif before != after:
        yield path
