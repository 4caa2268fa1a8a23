"""User data of the sticky assignors: Kafka's own bytes."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.errors import DecodeError
from kproxy.protocol.embedded.sticky import open_cooperative_user_data, open_sticky_user_data
from tests.support.corpus import payloads

READERS = {"sticky": open_sticky_user_data, "cooperative-sticky": open_cooperative_user_data}
LINES = [line for line in payloads("consumer-subscription") if line["assignor"] in READERS and line["userDataHex"]]


def test_user_data_is_what_kafka_says() -> None:
    assert {line["assignor"] for line in LINES} == READERS.keys()
    for line in LINES:
        assert READERS[line["assignor"]](bytes.fromhex(line["userDataHex"])) == line["userData"]


def test_the_older_schema_has_no_generation() -> None:
    without = [line for line in LINES if line["userData"].keys() == {"previousAssignment"}]
    assert without  # the corpus has both
    assert open_sticky_user_data(pack(">i", 0)) == {"previousAssignment": {}}
    assert open_sticky_user_data(pack(">ii", 0, 5)) == {"previousAssignment": {}, "generation": 5}


def test_a_hostile_count_is_refused() -> None:
    """Hostile input 2."""
    with pytest.raises(DecodeError, match="claims 1000000000 elements"):
        open_sticky_user_data(pack(">i", 1_000_000_000))


@given(data=st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_decode_error(data: bytes) -> None:
    for read in READERS.values():
        try:
            assert isinstance(read(data), dict)
        except DecodeError:
            continue
