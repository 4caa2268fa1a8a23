"""The codec against kio and kafka-python, on a Metadata answer of 28 KB and a Fetch answer of 21 KB.

    pip install -e '.[bench]' && python -m tests.bench.codec

Every line is one pair measured in turn in this run: CPU time a call, medians, and the spread of the rounds' ratios.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from kafka.protocol.consumer import FetchResponse as KafkaPythonFetch
from kafka.protocol.metadata import MetadataResponse as KafkaPythonMetadata
from kio.schema.fetch.v13.response import FetchResponse as KioFetch
from kio.schema.metadata.v12.response import MetadataResponse as KioMetadata
from kio.serial import entity_reader

from kproxy.protocol import message
from tests.bench.measuring import cpu_a_call, paired
from tests.bench.traffic import fetch_response_v13, metadata_response_v12

CASES = [
    ("MetadataResponse", 12, metadata_response_v12(), KioMetadata, KafkaPythonMetadata),
    ("FetchResponse", 13, fetch_response_v13(), KioFetch, KafkaPythonFetch),
]


def plain(value: Any) -> Any:
    """A decoded object as what the json module takes: the short way to JSON that a Python program would go."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return len(value)
    if hasattr(value, "__slots__"):
        return {name: plain(getattr(value, name)) for name in value.__slots__}
    return value if value is None or isinstance(value, int | float | str) else str(value)


def report(name: str, version: int, body: bytes, kio_class: Any, kafka_python_class: Any) -> Iterator[str]:
    codec = message(name)
    value = codec.decode(version, body)
    theirs = kafka_python_class.decode(body, version=version)
    theirs._header = None  # decode leaves it unset, and encode asks for it
    assert codec.encode(version, value) == body == theirs.encode(version=version)
    assert codec.walk(version, body) == len(body)
    decode = partial(codec.decode, version, body)
    encode = partial(codec.encode, version, value)
    to_json = partial(codec.to_json, version, body)
    kio_decode = partial(entity_reader(kio_class), body, 0)
    kafka_python_decode = partial(kafka_python_class.decode, body, version=version)
    yield f"{name} v{version}, {len(body)} bytes"
    yield paired(decode, kio_decode).line("  decode", "kio decode")
    yield paired(decode, kafka_python_decode).line("  decode", "kafka-python decode")
    yield paired(encode, partial(theirs.encode, version=version)).line("  encode", "kafka-python encode")
    yield paired(to_json, lambda: json.dumps(plain(decode()))).line("  to_json", "decode, then json")
    kafka_python_json = paired(to_json, lambda: json.dumps(kafka_python_decode().to_dict(), default=str))
    yield kafka_python_json.line("  to_json", "kafka-python, then json")
    walk = cpu_a_call(partial(codec.walk, version, body))
    yield f"{'  walk':<28} {walk * 1e6:10.1f} us  {len(body) / walk / 1e9:.2f} GB/s"


def main() -> None:
    for case in CASES:
        for line in report(*case):
            print(line, flush=True)


if __name__ == "__main__":
    main()
