"""User names in tokens: the examples of the RFCs."""

import pytest

from kproxy.output.tables.sasl_user import LONGEST_TOKEN, user_of


@pytest.mark.parametrize(
    ("token", "mechanism", "user"),
    [
        (b"\0tim\0tanstaaftanstaaf", "PLAIN", "tim"),  # RFC 4616 section 4
        (b"Ursel\0Kurt\0xipj3plmq", "PLAIN", "Kurt"),
        (b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL", "SCRAM-SHA-1", "user"),  # RFC 5802 section 5
        (b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", "SCRAM-SHA-256", "user"),  # RFC 7677 section 3
        (b"n,a=admin,n=a=2Cb=3Dc,r=x", "SCRAM-SHA-512", "a,b=c"),
        (b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF,p=dHzb", "SCRAM-SHA-256", None),
        (b"n,,\x01auth=Bearer eyJhbGciOi\x01\x01", "OAUTHBEARER", None),
        (b"\0\0secret", "PLAIN", None),
        (b"tim\0secret", "PLAIN", None),
        (b"\xff\0tim\0x", "PLAIN", None),
        (b"", "PLAIN", None),
        (None, "PLAIN", None),
        (b"\0tim\0x", None, None),
        (b"\0tim\0" + b"x" * LONGEST_TOKEN, "PLAIN", None),
    ],
)
def test_users(token: bytes | None, mechanism: str | None, user: str | None) -> None:
    assert user_of(token, mechanism) == user
