"""Other protocols at our sockets; the bytes are those of RFC 8446 (5.1), RFC 9112 and the PROXY protocol's specification."""

import pytest

from kproxy.filters.contract import Direction
from kproxy.proxy.foreign_protocol import explain_foreign_protocol


@pytest.mark.parametrize(
    ("start", "direction", "setting"),
    [
        (b"\x16\x03\x01\x02", Direction.REQUEST, "listener_tls"),
        (b"\x15\x03\x03\x00", Direction.RESPONSE, "broker_tls"),
        (b"PROX", Direction.REQUEST, "proxy_protocol"),
        (b"\r\n\r\n", Direction.REQUEST, "proxy_protocol"),
        (b"GET ", Direction.REQUEST, "HTTP"),
    ],
)
def test_what_is_to_be_set_is_said(start: bytes, direction: Direction, setting: str) -> None:
    said = explain_foreign_protocol(start, direction)
    assert said is not None and setting in said
    assert "keylog" not in said  # an option of kproxy decode


def test_nothing_is_said_of_bytes_that_are_unknown() -> None:
    assert explain_foreign_protocol(b"\xff\xff\xff\xff", Direction.REQUEST) is None
    assert explain_foreign_protocol(b"\0\0\0\x10", Direction.RESPONSE) is None
