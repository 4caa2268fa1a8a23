"""Texts in payloads of Streams and Connect: Kafka's own bytes, with other names and the same numbers."""

from typing import Any

import pytest

from kproxy.output.rewriting.payload_texts import CONNECT, STREAMS, rewrite_texts
from kproxy.output.rewriting.pseudonyms import Pseudonyms
from tests.support.corpus import payloads

NAME = Pseudonyms(b"a key of the tests").text
KINDS = {
    "streams-subscription-info": STREAMS["ConsumerProtocolSubscription"],
    "streams-assignment-info": STREAMS["ConsumerProtocolAssignment"],
    "connect-metadata": CONNECT["ConsumerProtocolSubscription"],
    "connect-assignment": CONNECT["ConsumerProtocolAssignment"],
}
NOT_TEXT = {"processId"}  # a UUID


def expected(value: Any, key: str = "") -> Any:
    """What Kafka's JSON of a payload becomes: names as --anonymize writes them elsewhere, ports and all numbers as they are."""
    if isinstance(value, dict):
        named = key in ("partitions", "assignment") and all(isinstance(inner, list) for inner in value.values())
        return {(NAME(name) if named else name): expected(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [expected(inner, key) for inner in value]
    if not isinstance(value, str) or key in NOT_TEXT:
        return value
    if key in ("userEndPoint", "key", "value"):  # of client tags; bytes, which are shown as hex
        return renamed(bytes.fromhex(value).decode()).encode().hex()
    return renamed(value)


def renamed(text: str) -> str:
    scheme, separator, rest = text.rpartition("://")
    host, colon, port = rest.partition(":")
    return f"{scheme}{separator}{NAME(host)}{colon}{port}" if colon else NAME(text)


@pytest.mark.parametrize("kind", KINDS)
def test_every_payload_of_kafkas_has_other_names_and_the_same_numbers(kind: str) -> None:
    open_payload = KINDS[kind]
    changed = 0
    for line in payloads(kind):
        data = bytes.fromhex(line["hex"])
        written = rewrite_texts(open_payload, data, NAME)
        assert written is not None
        assert len(written) == len(data)
        assert open_payload(written) == expected(open_payload(data))
        changed += written != data
    assert changed


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_cut_or_goes_on_is_refused(kind: str) -> None:
    for line in payloads(kind)[:20]:
        data = bytes.fromhex(line["hex"])
        for other in (data[:-1], data + b"\0"):
            assert rewrite_texts(KINDS[kind], other, NAME) is None
