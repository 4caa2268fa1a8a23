"""Topics in the bytes of classic groups, written by hand as ConsumerProtocol and others write them."""

from struct import pack

import pytest

from kproxy.filters.topic_prefix.names import Names
from kproxy.filters.topic_prefix.subscriptions import in_assignment, in_subscription, to_broker, to_client
from tests.filters.topic_prefix.test_rules import ruled
from tests.support.messages import make

NAMES = Names("a.")
NULL = pack(">i", -1)


def name(text: str) -> bytes:
    return pack(">h", len(text)) + text.encode()


def subscription(prefix: str, *, version: int = 3) -> bytes:
    """Two topics, user data, owned partitions, a generation, a rack."""
    head = pack(">hi", version, 2) + name(f"{prefix}x") + name(f"{prefix}yy") + pack(">i", 3) + b"a.x"
    owned = pack(">i", 1) + name(f"{prefix}x") + pack(">iii", 2, 0, 7)
    return head + owned + pack(">i", 4) + name("rack")


def assignment(prefix: str) -> bytes:
    return pack(">hi", 1, 1) + name(f"{prefix}x") + pack(">iii", 2, 0, 7) + NULL


def test_subscriptions_go_and_come_back() -> None:
    assert to_broker(NAMES, in_subscription, subscription("")) == subscription("a.")
    assert to_client(NAMES, in_subscription, subscription("a.")) == subscription("")


def test_assignments_go_and_come_back() -> None:
    assert to_broker(NAMES, in_assignment, assignment("")) == assignment("a.")
    assert to_client(NAMES, in_assignment, assignment("a.")) == assignment("")


def test_version_1_without_its_fields_is_read_as_kafka_go_writes_it() -> None:
    short = pack(">hi", 1, 1) + name("x") + NULL
    assert to_broker(NAMES, in_subscription, short) == pack(">hi", 1, 1) + name("a.x") + NULL


@pytest.mark.parametrize("data", [b"", b"\0", b"no protocol", pack(">hi", 0, 1 << 30), pack(">hi", 0, 1) + b"\0\x09x"])
def test_other_bytes_stay_as_they_are(data: bytes) -> None:
    assert to_broker(NAMES, in_subscription, data) == data
    assert to_client(NAMES, in_subscription, data) == data
    assert to_broker(NAMES, in_assignment, data) == data
    assert to_client(NAMES, in_assignment, data) == data


def test_nothing_of_another_tenant_is_shown() -> None:
    assert to_client(NAMES, in_subscription, subscription("b.")) == b""
    assert to_client(NAMES, in_assignment, assignment("b.")) == b""


def test_only_the_consumer_protocol_has_topics() -> None:
    for kind, metadata in (("consumer", subscription("a.")), ("connect", subscription(""))):
        joining = make("JoinGroupRequest", protocol_type=kind, protocols=[{"metadata": subscription("")}])
        ruled(7, joining)
        assert joining.protocols[0].metadata == metadata


def test_before_version_5_of_sync_group_the_bytes_say_what_they_are() -> None:
    for kind, expected in ((None, "a."), ("consumer", "a."), ("connect", "")):
        requested = make("SyncGroupRequest", protocol_type=kind, assignments=[{"assignment": assignment("")}])
        ruled(4, requested)
        assert requested.assignments[0].assignment == assignment(expected)
        response = make("SyncGroupResponse", assignment=assignment("a."))
        ruled(4, response, requested)
        assert response.assignment == (assignment("a.") if kind == "connect" else assignment(""))
