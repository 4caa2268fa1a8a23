"""Consumer protocol payloads: Kafka's own bytes, newer versions, user data, and anything else."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.errors import DecodeError
from kproxy.protocol.embedded.consumer import is_assignment, open_assignment, open_subscription
from kproxy.protocol.embedded.payload import Embedded
from tests.support.corpus import payloads

SUBSCRIPTIONS = payloads("consumer-subscription")
ASSIGNMENTS = payloads("consumer-assignment")


def plain(json: object) -> dict[str, object]:
    value = Embedded("", None, "", json).value()
    assert isinstance(value, dict)
    return value


def test_subscriptions_and_their_user_data_are_what_kafka_says() -> None:
    for line in SUBSCRIPTIONS:
        opened = plain(open_subscription(bytes.fromhex(line["hex"]), line["assignor"]))
        assert opened["version"] == line["version"]
        assert opened["value"] == line["json"]
        assert opened["userData"] == line["userData"]
        assert "userDataError" not in opened


def test_assignments_are_what_kafka_says() -> None:
    for line in ASSIGNMENTS:
        data = bytes.fromhex(line["hex"])
        assert plain(open_assignment(data))["value"] == line["json"]
        assert is_assignment(data)


def test_a_newer_version_is_read_as_the_newest_known_one_and_says_so() -> None:
    newer = [line for line in SUBSCRIPTIONS if line["version"] == 9]
    assert newer
    for line in newer:
        opened = plain(open_subscription(bytes.fromhex(line["hex"]), "range"))
        assert (opened["version"], opened["readAs"], opened["extraBytes"]) == (9, 3, line["extraBytes"])


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky", "stream"])
def test_broken_user_data_spoils_nothing_around_it(assignor: str) -> None:
    # version 0, no topics, three bytes of user data: too few for any of them
    opened = plain(open_subscription(b"\0\0" + pack(">ii", 0, 3) + b"\1\2\3", assignor))
    assert opened["value"] == {"topics": [], "userData": "AQID"}
    assert opened["userData"] is None
    assert "bytes" in str(opened["userDataError"])


def test_user_data_of_an_unknown_assignor_stays_bytes() -> None:
    opened = plain(open_subscription(b"\0\0" + pack(">ii", 0, 3) + b"\1\2\3", "my-assignor"))
    assert opened["userData"] is None
    assert "userDataError" not in opened


def test_every_cut_is_refused() -> None:
    data = bytes.fromhex(next(line["hex"] for line in ASSIGNMENTS if line["version"] == 3))
    for cut in range(len(data)):
        with pytest.raises(DecodeError):
            open_assignment(data[:cut])
        assert not is_assignment(data[:cut])
    assert not is_assignment(data + b"\0")


def test_a_subscription_of_kafka_go_lacks_what_its_version_has() -> None:
    """From a JoinGroup of kafka-go 0.4: version 1, topics, null user data, and no owned partitions."""
    opened = plain(open_subscription(bytes.fromhex("0001000000010003" + b"kgo".hex() + "ffffffff"), "range"))
    assert (opened["version"], opened["readAs"]) == (1, 0)
    assert opened["value"] == {"topics": ["kgo"], "userData": None}
    with pytest.raises(DecodeError, match="v1: ownedPartitions"):
        open_subscription(bytes.fromhex("0001000000010003" + b"kgo".hex() + "ffffffff00"), "range")


def test_a_version_below_zero_is_refused() -> None:
    with pytest.raises(DecodeError, match="version -1 is below 0"):
        open_subscription(b"\xff\xff\0\0\0\0", "range")


@given(data=st.binary(max_size=80), assignor=st.sampled_from(["range", "sticky", "cooperative-sticky", "stream", None]))
def test_any_bytes_give_a_value_or_a_decode_error(data: bytes, assignor: str | None) -> None:
    for read in (open_subscription, open_assignment):
        try:
            plain(read(data, assignor))
        except DecodeError:
            continue
