"""Logins as RFC 5802 and RFC 7677 have them, and the properties of clients as Java reads them."""

import pytest

from kproxy.doctor.login import MOST_ITERATIONS, Login, LoginRefused, Scram, parse_login
from kproxy.errors import UsageError

CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def scram() -> Scram:
    """The exchange of RFC 7677, section 3."""
    return Scram(Login("SCRAM-SHA-256", "user", "pencil"), nonce="rOprNGfwEbeRWgbNEkqO")


def test_the_exchange_of_the_rfc() -> None:
    exchange = scram()
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.proof(CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    exchange.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(LoginRefused, match="does not prove"):
        exchange.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=")


def test_a_user_with_signs_of_the_syntax() -> None:
    assert b"n=a=3Db=2Cc," in Scram(Login("SCRAM-SHA-512", "a=b,c", "x")).first()


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"e=other-error",
        b"\xff\xfe",
        CHALLENGE.replace(b"r=rOpr", b"r=another"),
        CHALLENGE.replace(b"i=4096", b"i=0"),
        CHALLENGE.replace(b"i=4096", b"i=%d" % (MOST_ITERATIONS + 1)),
        CHALLENGE.replace(b"s=W22Z", b"s=?"),
    ],
)
def test_a_challenge_that_is_none(challenge: bytes) -> None:
    with pytest.raises(LoginRefused, match="not of SCRAM"):
        scram().proof(challenge)


@pytest.mark.parametrize(
    "text",
    [
        f'sasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={MODULE} required username="al ice" password="pe\\\\"n=c;il";\n',
        f"# a comment\n! another\nsasl.mechanism : SCRAM-SHA-256\nsasl.jaas.config {MODULE} required \\\n"
        '    username="al ice" \\\n    password="pe\\\\"n=c;il";\nsecurity.protocol=SASL_SSL',
        'sasl.mechanisms=SCRAM-SHA-256\nsasl.username=al ice\nsasl.password=pe"n=c;il\n',
        'sasl.mechanism=SCRAM-SHA-256\r\nsasl.username=al\\u0020ice\r\nsasl.password=pe"n\\=c;il\r\n',
    ],
    ids=["Java", "over lines", "librdkafka", "escaped"],
)
def test_properties_of_clients(text: str) -> None:
    """As java.util.Properties.load and JAAS (java.io.StreamTokenizer) read them."""
    assert parse_login(text, "client.properties") == Login("SCRAM-SHA-256", "al ice", 'pe"n=c;il')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "client.properties: sasl.mechanism is missing: write one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ("sasl.mechanism=GSSAPI", "can log in by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 only"),
        (f'sasl.mechanism=PLAIN\nsasl.jaas.config={MODULE} required username="a";', "username and password"),
    ],
)
def test_properties_without_a_login(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_login(text, "client.properties")


def test_a_password_is_not_shown() -> None:
    assert "pencil" not in repr(Login("PLAIN", "user", "pencil"))
