"""What must hold for any bytes given to the codec; used by test_codec_bytes.py and by the hammer."""

import json
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from kproxy.errors import DecodeError, EncodeError
from kproxy.protocol import message
from kproxy.protocol.found import named_topics, records_fields

NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def check_codec(name: str, version: int, data: bytes) -> bool:
    """Whether *data* was read. Anything but a value or a DecodeError leaves as it is and fails the caller.

    The sinks must agree: what becomes JSON becomes an object and the other way round, and the walk consumes all of it.
    What is read and can be written again is read from there as the same JSON, and is then written to the same bytes.
    """
    layout = message(name)
    program = layout.programs(version)[0]
    records = [field.data for field in records_fields(program, data)]
    topics = named_topics(program, data, 0, len(data))
    text = _json_or_none(name, version, data)
    walked = _walk_or_none(name, version, data)
    try:
        value = layout.decode(version, data)
    except DecodeError as error:
        assert text is None, f"{name} v{version}: JSON, but no object: {error}: {data.hex()}"
        assert topics is None or len(layout.programs(version)) > 1, (
            f"{name} v{version}: topics, but no object: {data.hex()}"
        )
        return False
    assert text is not None, f"{name} v{version}: an object, but no JSON: {data.hex()}"
    assert walked == len(data), f"{name} v{version}: walked {walked} of {len(data)}: {data.hex()}"
    if len(layout.programs(version)) == 1:
        assert records == list(_records_in(value)), f"{name} v{version}: other records: {data.hex()}"
        if topics is not None:
            assert set.union(*topics[:2]) - {"", NO_TOPIC_ID} == set(_topics_in(value)), (
                f"{name} v{version}: other topics: {data.hex()}"
            )
    _check_written(name, version, value, text)
    return True


def _records_in(struct: Any) -> Iterator[bytes]:
    """The records fields of an object that are not empty."""
    for field in struct.fields:
        value = getattr(struct, field.attribute)
        if field.type == "records" and value:
            yield value
        elif field.is_struct and field.is_array:
            for inner in value or ():
                yield from _records_in(inner)


def _topics_in(struct: Any) -> Iterator[str]:
    """The names and ids of topics in an object that may have records fields."""
    for field in (
        one for each in struct.fields if each.is_struct and each.is_array for one in getattr(struct, each.attribute)
    ):
        for name in ("name", "topic", "topic_id"):
            value = getattr(field, name, None)
            if value and value != NO_TOPIC_ID:  # an object has an empty name where its version has none
                yield value


def _json_or_none(name: str, version: int, data: bytes) -> bytes | None:
    try:
        text = message(name).to_json(version, data)
    except DecodeError as error:
        assert str(error).startswith(f"{name} v{version}"), error
        assert 0 <= error.position <= len(data), error
        return None
    json.loads(text)
    return text


def _walk_or_none(name: str, version: int, data: bytes) -> int | None:
    try:
        walked = message(name).walk(version, data)
    except DecodeError:
        return None
    assert 0 <= walked <= len(data)
    return walked


def _check_written(name: str, version: int, value: object, text: bytes) -> None:
    layout = message(name)
    try:
        written = layout.encode(version, value)
    except EncodeError:
        return  # Kafka too reads some things that it cannot write (rewriteError in variants.jsonl.gz)
    read_again = layout.to_json(version, written)
    assert _ordered(read_again) == _ordered(text), f"{name} v{version}: written as something else: {text[:400]!r}"
    assert layout.encode(version, layout.decode(version, written)) == written


def _ordered(text: bytes) -> str:
    """The JSON with unknown tags ascending: readers take them in any order, writers write them in that one."""

    def ascending(value: dict[str, Any]) -> dict[str, Any]:
        value.get("_unknownTaggedFields", []).sort(key=itemgetter("tag"))
        return value

    return json.dumps(json.loads(text, object_hook=ascending))
