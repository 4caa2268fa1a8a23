"""Whose protocol a group's bytes are in."""

from kproxy.protocol.embedded import group
from kproxy.protocol.embedded.payload import Context, Opening
from tests.support.corpus import payloads

ASSIGNMENT = bytes.fromhex(payloads("consumer-assignment")[0]["hex"])
CONNECT = max((bytes.fromhex(line["hex"]) for line in payloads("connect-assignment")), key=len)


def kinds(data: bytes, protocol_type: str | None) -> list[str]:
    opening = Opening("request", Context())
    group.add_assignment(opening, "a", data, protocol_type, None)
    return [one.kind + (" broken" if one.error else "") for one in opening.found]


def test_the_protocol_type_decides() -> None:
    assert kinds(ASSIGNMENT, "consumer") == ["consumer-assignment"]
    assert kinds(CONNECT, "connect") == ["connect-assignment"]
    assert kinds(CONNECT, "consumer") == ["consumer-assignment broken"]


def test_an_unknown_protocol_type_stays_bytes() -> None:
    assert kinds(ASSIGNMENT, "sr") == []  # a schema registry's
    opening = Opening("request", Context())
    group.add_metadata(opening, "m", b"{}", "sr", "v0")
    assert opening.found == []


def test_without_a_type_only_what_is_an_assignment_to_the_last_byte_is_taken_for_one() -> None:
    assert kinds(ASSIGNMENT, None) == ["consumer-assignment"]
    assert kinds(ASSIGNMENT + b"\0", None) == []
    assert kinds(CONNECT, None) == []


def test_no_bytes_are_no_payload() -> None:
    assert kinds(b"", "consumer") == []


def test_metadata_is_told_apart_by_type() -> None:
    subscription = bytes.fromhex(payloads("consumer-subscription")[0]["hex"])
    metadata = bytes.fromhex(payloads("connect-metadata")[0]["hex"])
    opening = Opening("request", Context())
    group.add_metadata(opening, "a", subscription, "consumer", "range")
    group.add_metadata(opening, "b", metadata, "connect", "default")
    group.add_metadata(opening, "c", b"", "consumer", "range")
    assert [(one.path, one.kind, one.error) for one in opening.found] == [
        ("a", "consumer-subscription", None),
        ("b", "connect-metadata", None),
    ]
