"""Which software a client says it is, at versions that the facts lack."""

import pytest

from kproxy.protocol import read_request_header
from kproxy.session.software import client_software
from tests.support.frames import FRANZ_GO_API_VERSIONS

FRANZ_GO = FRANZ_GO_API_VERSIONS[4:]


def test_franz_go_names_itself_at_version_5() -> None:
    assert client_software(FRANZ_GO, read_request_header(FRANZ_GO).size) == ("kgo", "v1.22.2")


@pytest.mark.parametrize(
    "body",
    [b"", b"\0", b"\1\1", b"\4kgo", b"\4kgo\x08v1.22", b"\4kgo\2-", b"\x80\1" + b"a" * 127 + b"\2v", b"\4k\xc3\xa9\2v"],
)  # fmt: skip
def test_what_is_no_name_of_software(body: bytes) -> None:
    assert client_software(body, 0) is None


def test_every_cut_of_a_name_is_none() -> None:
    start = read_request_header(FRANZ_GO).size
    for cut in range(start, len(FRANZ_GO) - 6):  # six bytes are what version 5 added
        assert client_software(FRANZ_GO[:cut], start) is None
