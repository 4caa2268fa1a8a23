"""SASL tokens: the examples of RFC 5802 and RFC 4616, with their secrets gone."""

import pytest

from kproxy.output.rewriting.tokens import blank_token


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL", b"n,,n=USER,r=xxxxxxxxxxxxxxxxxxxxxxxx"),
        (b"r=fyko+d2,s=QSXCR+Q6sek8bf92,i=4096", b"r=xxxxxxx,s=xxxxxxxxxxxxxxxx,i=4096"),
        (b"c=biws,r=fyko+d2lb,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=", b"c=biws,r=xxxxxxxxx,p=xxxxxxxxxxxxxxxxxxxxxxxxxxx="),
        (b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=", b"v=xxxxxxxxxxxxxxxxxxxxxxxxxxx="),
        (b"e=invalid-proof", b"e=invalid-proof"),
        (b"\0tim\0tanstaaftanstaaf", b"\0TIM\0xxxxxxxxxxxxxxxx"),
        (b"Ursel\0Kurt\0xipj3plmq", b"URSEL\0KURT\0xxxxxxxxx"),
        (b"n,,\1auth=Bearer token\1\1", bytes(23)),
        (b"\x60\x82opaque", bytes(8)),
        (b"", b""),
    ],
)
def test_a_token_keeps_its_size_and_loses_its_secrets(token: bytes, expected: bytes) -> None:
    assert blank_token(token, bytes.upper) == expected
