r"""A stopped message as JSON to edit, and edited JSON back as a message.

shown(message, version, body)      -> Kafka's JSON with its record batches opened
from_json(message, version, text, before)
                                   -> the bytes of the body. Raises Mistake, which says where the text is wrong

*body* is a message without its header. Kafka's JSON is that of org.apache.kafka.common.message.*JsonConverter; where that has the
size of a records field (``recordsSizeInBytes``), this has its batches, as the size could not be read back:

    {"magic": 2, "compression": "gzip", "attributes": 0, "baseOffset": 0, "baseTimestamp": ..., "partitionLeaderEpoch": -1,
     "producerId": -1, "producerEpoch": -1, "baseSequence": -1,
     "records": [{"offset": 0, "timestamp": ..., "key": null, "value": "text", "headers": [{"key": "k", "value": "v"}]}]}

Keys and values that are UTF-8 are text, others {"base64": "..."}, and those whose schema is known are JSON (described.py).
``lastOffset`` appears if it is not that of the last record, as in compacted topics; ``maxTimestamp`` if it does not follow from
the records (LogAppendTime: readers see it, while timestamps are the producer's). These are {"base64": "..."}: a batch of magic
0 or 1, of more than LIMITS, or that cannot be read to its end; one whose CRC is wrong; a control batch; bytes behind the last
batch, as brokers cut off the last batch of a Fetch response.

Batches that were not changed keep their bytes, whatever their CRC is, and unknown tagged fields stay. A value in the JSON for
which a batch has no place is a mistake.

Characters that are invisible, or that move what is around them, are escapes in the JSON (\u202e): controls, formatting, lone
surrogates, spaces that look like another, private use, and marks that pile up on one letter.
"""

import base64
import binascii
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Protocol

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kproxy.errors import EncodeError
from kproxy.protocol import ApiKey, Message, MessageStruct
from kproxy.protocol.facts import Field
from kproxy.protocol.records import Codec, Limits, OpenBatch, open_batches, read_batches
from kproxy.protocol.records.editing import LOG_APPEND_TIME, RecordBatch, read_batch, write_batches
from kproxy.protocol.records.objects import Record

MOST_TEXT_SIZE = 4 << 20  # bytes of a message that is stopped
MOST_PATHS = 50  # that are listed for one change
MOST_RECORDS = 20_000  # of a field
LIMITS = Limits(decompressed=4 << 20, total=8 << 20, records=10_000)  # more text is too much to edit
SIZE_SUFFIX = "SizeInBytes"
WITHHELD_FIELD = "withheld"
WHY_NOT = {  # attribute of RecordBatch -> why it cannot be what the JSON says
    "last_offset": "is less than the offset of a record",
    "max_timestamp": "follows from the timestamps of the records",
    "attributes": "has bits that this batch cannot have: the codec is compression, and bit 32 makes a control batch of it",
}
UNSEEN = re.compile(  # controls, bidirectional formatting, line separators, without width, tags, lone surrogates
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
    "|(?<=[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3})"
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
OF_CODEC = re.compile(r"\w+ v-?\d+(?:: (?P<path>[\w.\[\]]+))?: (?P<reason>.*)", re.DOTALL)  # an EncodeError
STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")  # of topicData[0].name
SPACE = re.compile(r"[ \t\n\r]*")
_decoder = json.JSONDecoder()

Show = Callable[[bytes, str | None], Any]  # a records field and its topic -> its JSON
Int16 = Annotated[int, Meta(ge=-(1 << 15), le=(1 << 15) - 1)]
Int32 = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Mistake(ValueError):
    """Edited text that describes no message: one sentence, and the place.

    Args:
        reason: what is wrong, as a clause ("is missing").
        path: the field ("topicData[0].name"); "" if the mistake is not in a field.
        line, column: where in the text, from 1, in characters.
    """

    def __init__(self, reason: str, path: str = "", line: int | None = None, column: int | None = None) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason, self.path, self.line, self.column = reason, path, line, column


class Contents(Protocol):
    """Shows keys and values of records as more than text and base64 (described.py)."""

    def show(self, batches: list[Any], topic: str | None) -> list[Any]:
        """Change and return batches of ``shown_batches``."""

    def close(self, batch: Any, path: str) -> Any:
        """Return an edited batch whose keys and values are text and base64. Raises Mistake."""


def shown(
    message: Message, version: int, body: bytes, withheld: bytes | None = None, contents: Contents | None = None
) -> str:
    """Return the message as JSON. Raises DecodeError.

    Args:
        message, version: what the body is.
        body: the message without its header.
        withheld: the body as it came, if its record batches are not to be shown. {"withheld": NUMBER, "bytes": SIZE} then stands
            for each of its records fields; ``from_json`` puts the field back.
        contents: shows keys and values by their schemas.
    """
    unshown = [] if withheld is None else [data for data, _ in _records_in(message, version, withheld)]

    def show(data: bytes, topic: str | None) -> Any:
        if data in unshown:
            return {WITHHELD_FIELD: unshown.index(data), "bytes": len(data)}
        return _shown_contents(data, topic, contents)

    text = json.dumps(_tree(message, version, body, show), indent=2, ensure_ascii=False)
    text = UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)
    escapes = {ord(char): json.dumps(char)[1:-1] for char in set(text) if not char.isprintable() and char != "\n"}
    return text.translate(escapes)


def from_json(message: Message, version: int, text: str, before: bytes, contents: Contents | None = None) -> bytes:
    """Return the body that JSON describes. Raises Mistake.

    Args:
        message, version: what the body is.
        text: the JSON.
        before: the body as it came.
        contents: as for ``shown``.
    """
    try:
        tree = json.loads(text)
    except json.JSONDecodeError as error:
        raise Mistake(f"not JSON: {error.msg}", line=error.lineno, column=error.colno) from None
    except ValueError:  # of int()
        raise Mistake(f"a number has more than {sys.get_int_max_str_digits():,} digits") from None
    except RecursionError:
        raise Mistake("too many brackets inside each other") from None
    batches = _Batches(_records_in(message, version, before), contents, renumber=message.api_key == ApiKey.PRODUCE)
    try:
        batches.replace_in(tree, _fields(message, version, message.decode(version, before)), "")
        return message.encode(version, message.from_json(version, json.dumps(tree)))
    except Mistake as mistake:
        raise Mistake(mistake.reason, mistake.path, *place_of(text, mistake.path)) from None
    except EncodeError as error:  # its text names the field
        match = OF_CODEC.fullmatch(str(error))
        reason, path = (match["reason"], match["path"] or "") if match is not None else (str(error), "")
        raise Mistake(reason, path, *place_of(text, path)) from None


def changed_paths(message: Message, version: int, before: bytes, after: bytes) -> list[str]:
    """Return the paths of the fields that differ, at most MOST_PATHS.

    An element that exists on one side only counts as one field.
    """
    trees = [_tree(message, version, body, lambda data, _: shown_batches(data)) for body in (before, after)]
    return list(itertools.islice(_differences(trees[0], trees[1], ""), MOST_PATHS))


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


def _records_in(message: Message, version: int, body: bytes) -> list[tuple[bytes, str | None]]:
    """Return the records fields of a message, each with its topic, as far as the message names it."""
    found: list[tuple[bytes, str | None]] = []
    _tree(message, version, body, lambda data, topic: found.append((data, topic)))
    return found


def _tree(message: Message, version: int, body: bytes, show: Show) -> Any:
    """Return Kafka's JSON as plain values, with what *show* returns in place of the sizes of records fields."""
    value = message.decode(version, body)
    return _opened(json.loads(message.to_json(version, body)), value, _fields(message, version, value), version, show)


def _fields(message: Message, version: int, value: MessageStruct) -> tuple[Field, ...]:
    layouts = [layout for layout in message.layouts if version in layout.versions]
    release = getattr(value, "layout", None)
    return next((layout for layout in layouts if layout.release == release), layouts[0]).fields


def _opened(
    tree: dict[str, Any], value: Any, fields: tuple[Field, ...], version: int, show: Show, topic: str | None = None
) -> dict[str, Any]:
    topic = tree.get("topic") or tree.get("name") or topic
    by_name = {field.json_name: field for field in fields if version in field.versions}
    opened: dict[str, Any] = {}
    for name, below in tree.items():
        field = by_name.get(name.removesuffix(SIZE_SUFFIX) if name not in by_name else name)
        inner: Any = None if field is None else getattr(value, field.attribute)
        if field is None:
            opened[name] = below
        elif field.type == "records":
            opened[field.json_name] = None if inner is None else show(inner, topic)
        elif not field.is_struct or below is None:
            opened[name] = _exact(below, inner)
        elif field.is_array:
            pairs = zip(below, inner, strict=True)
            opened[name] = [_opened(part, of, field.fields, version, show, topic) for part, of in pairs]
        else:
            opened[name] = _opened(below, inner, field.fields, version, show, topic)
    return opened


def _exact(text: Any, value: Any) -> Any:
    """Return text that is not UTF-8 as the codec has it, with a lone surrogate for each wrong byte.

    Kafka's JSON has U+FFFD for these.
    """
    if isinstance(text, list) and isinstance(value, list):
        return [_exact(*pair) for pair in zip(text, value, strict=True)]
    return value if isinstance(text, str) and isinstance(value, str) and "\ufffd" in text else text


class Opaque(msgspec.Struct, forbid_unknown_fields=True):
    """Bytes that are no text."""

    base64: bytes


class ShownHeader(msgspec.Struct, forbid_unknown_fields=True):
    """A header of a record."""

    key: str
    value: str | Opaque | None


class ShownRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A record. Its timestamp is the producer's, even if readers see that of the broker."""

    offset: Int64 = 0
    timestamp: Int64 = -1
    key: str | Opaque | None = None
    value: str | Opaque | None = None
    headers: list[ShownHeader] = []


class ShownBatch(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A batch of magic 2."""

    magic: Literal[2] = 2
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    attributes: Int16 = 0
    base_offset: Int64 | None = None
    base_timestamp: Int64 | None = None
    partition_leader_epoch: Int32 = -1
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1
    base_sequence: Int32 = -1
    last_offset: Int64 | UnsetType | None = UNSET
    max_timestamp: Int64 | UnsetType | None = UNSET
    records: list[ShownRecord]


NUMBERS = {  # attributes of ShownBatch that RecordBatch has under the same name -> names in JSON
    attribute: name
    for attribute, name in zip(ShownBatch.__struct_fields__, ShownBatch.__struct_encode_fields__, strict=True)
    if attribute not in ("magic", "compression", "records")
}


def shown_batches(data: bytes) -> list[Any]:
    """Return a records field as a list of batches; batches beyond LIMITS and MOST_RECORDS as base64."""
    batches = read_batches(data)
    room = MOST_RECORDS
    listed: list[Any] = []
    for opened in open_batches(batches, LIMITS):
        room -= max(opened.batch.count or 1, 0)
        listed.append((_shown_batch(opened) if room >= 0 else None) or Opaque(opened.batch.raw))
    if batches.tail is not None:
        listed.append(Opaque(data[batches.tail.position :]))
    plain: list[Any] = msgspec.to_builtins(listed)
    return plain


def _shown_contents(data: bytes, topic: str | None, contents: Contents | None) -> list[Any]:
    batches = shown_batches(data)
    return batches if contents is None else contents.show(batches, topic)


def plain_bytes(shown_value: Any) -> bytes | None:
    """Return the bytes of a key or value in ``shown_batches``."""
    return None if shown_value is None else _bytes(msgspec.convert(shown_value, str | Opaque))


def _shown_batch(opened: OpenBatch) -> ShownBatch | None:
    """Return a batch as it is shown; None if it cannot be edited."""
    batch = opened.batch
    read = read_batch(opened)
    if read.magic != 2 or read.error or read.skipped or read.is_control or not batch.crc_valid:
        return None
    numbers = {name: getattr(read, name) for name in NUMBERS}
    if read.last_offset == (read.records[-1].offset if read.records else None):
        del numbers["last_offset"]
    if read.records and not read.attributes & LOG_APPEND_TIME:
        del numbers["max_timestamp"]
    compression: Any = Codec(read.codec).name.lower()
    return ShownBatch(compression=compression, records=list(map(_shown_record, read.records)), **numbers)


def _shown_record(record: Record) -> ShownRecord:
    headers = [ShownHeader(key, _shown_bytes(value)) for key, value in record.headers]
    contents = (_shown_bytes(record.key), _shown_bytes(record.value))
    return ShownRecord(record.offset, record.create_timestamp, *contents, headers)


def _shown_bytes(value: bytes | None) -> str | Opaque | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return Opaque(value)


class _Batches:
    """Replaces the batches in a tree by base64, which ``Message.from_json`` reads.

    Args:
        original: the records fields of the message before it was edited, and their topics.
        contents: see ``shown``.
        renumber: number the records of changed batches without gaps, as brokers demand of a producer.
    """

    def __init__(self, original: list[tuple[bytes, str | None]], contents: Contents | None, *, renumber: bool) -> None:
        self._original = [data for data, _ in original]
        self._contents = contents
        self._renumber = renumber
        self._raw: dict[str, bytes] = {}  # bytes of the batches as they came, by their JSON
        for data, topic in original:
            # The list may also have the cut-off end
            for shown_batch, batch in zip(_shown_contents(data, topic, contents), read_batches(data), strict=False):
                self._raw[_canonical(shown_batch)] = batch.raw

    def replace_in(self, tree: Any, fields: tuple[Field, ...], path: str) -> None:
        """Replace them in a tree. Raises Mistake. The codec will refuse what does not have the shape of the message."""
        if not isinstance(tree, dict):
            return
        for field in fields:
            below = tree.get(field.json_name)
            where = f"{path}.{field.json_name}" if path else field.json_name
            if field.type == "records" and below is not None:
                tree[field.json_name] = base64.b64encode(self._field(below, where)).decode()
            elif isinstance(below, list):
                for at, part in enumerate(below):
                    self.replace_in(part, field.fields, f"{where}[{at}]")
            else:
                self.replace_in(below, field.fields, where)

    def _field(self, edited: Any, path: str) -> bytes:
        number = edited.get(WITHHELD_FIELD) if isinstance(edited, dict) else None
        if type(number) is int and 0 <= number < len(self._original):
            return self._original[number]
        if isinstance(edited, str):
            return _from_base64(edited, path)
        if not isinstance(edited, list):
            raise Mistake("is neither a list of batches nor base64", path)
        return b"".join(self._batch(one, f"{path}[{at}]") for at, one in enumerate(edited))

    def _batch(self, edited: Any, path: str) -> bytes:
        if isinstance(edited, dict) and set(edited) == {"base64"}:
            return _from_base64(edited["base64"], f"{path}.base64")
        raw = self._raw.get(_canonical(edited))
        if raw is not None:
            return raw
        closed = edited if self._contents is None else self._contents.close(edited, path)
        return _written(_read(closed, path), path, self._renumber)


def _read(edited: Any, path: str) -> ShownBatch:
    """Return the batch that JSON describes. Raises Mistake."""
    try:
        return msgspec.convert(edited, ShownBatch)
    except msgspec.ValidationError as error:
        reason, _, where = str(error).partition(" - at `$")
        raise Mistake(reason[0].lower() + reason[1:].replace("`", ""), path + where.rstrip("`")) from None


def _written(edited: ShownBatch, path: str, renumber: bool) -> bytes:
    """Return the bytes of a batch. Raises Mistake for what it has no place for: an edit must not be lost silently."""
    numbers: dict[str, Any] = {name: None if (value := getattr(edited, name)) is UNSET else value for name in NUMBERS}
    records = [_record(one, f"{path}.records[{at}]") for at, one in enumerate(edited.records)]
    batch = RecordBatch(records, codec=Codec[edited.compression.upper()], **numbers)
    if renumber:
        batch.renumber()
    try:
        written = write_batches([batch])
    except EncodeError as error:
        raise Mistake(str(error), path) from error
    (opened,) = open_batches(read_batches(written), LIMITS)
    kept = read_batch(opened)
    for attribute, name in NUMBERS.items():
        if getattr(batch, attribute) not in (None, getattr(kept, attribute)):
            raise Mistake(WHY_NOT.get(attribute, "cannot be kept"), f"{path}.{name}")
    if kept.is_control:
        raise Mistake(WHY_NOT["attributes"], f"{path}.attributes")
    if list(map(_shown_record, kept.records)) != list(map(_shown_record, records)):
        raise Mistake("cannot be read again", path)
    return written


def _record(edited: ShownRecord, path: str) -> Record:
    try:
        headers = [(header.key, _bytes(header.value)) for header in edited.headers]
        contents: dict[str, Any] = {"key": _bytes(edited.key), "value": _bytes(edited.value), "headers": headers}
    except UnicodeEncodeError:
        raise Mistake("holds a lone surrogate, which is no text", path) from None
    return Record(offset=edited.offset, timestamp=edited.timestamp, **contents)


def _bytes(edited: str | Opaque | None) -> bytes | None:
    if isinstance(edited, Opaque):
        return edited.base64
    return None if edited is None else edited.encode()


def _from_base64(value: Any, path: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Mistake("is not base64", path) from None


def _canonical(shown_batch: Any) -> str:
    return json.dumps(shown_batch, sort_keys=True)


def place_of(text: str, path: str) -> tuple[int, int]:
    """Return line and column, from 1, of the value at a path in JSON; if there is none, of the nearest value around it."""
    position = _after_space(text, 0)
    for name, index in STEP.findall(path):
        step = name or int(index)
        positions = [inner for key, inner in _values_in(text, position) if key == step]
        if not positions:
            break
        position = positions[-1]  # of equal names the last counts, as for json.loads
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def _values_in(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """Yield name or index, and position, of each value in the object or array at a position of valid JSON."""
    is_object = text.startswith("{", at)
    if not is_object and not text.startswith("[", at):
        return
    at = _after_space(text, at + 1)
    number = 0
    while not text.startswith("}" if is_object else "]", at):
        key: str | int = number
        if is_object:
            key, at = _decoder.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)
        yield key, at
        _, at = _decoder.raw_decode(text, at)
        at = _after_space(text, at)
        at = _after_space(text, at + 1) if text.startswith(",", at) else at
        number += 1


def _after_space(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    assert match is not None  # it may be empty
    return match.end()
