"""SCRAM by the example of RFC 7677, and servers that answer wrong."""

import pytest

from kproxy.login.client_settings import Credentials
from kproxy.login.scram import Scram, WrongAnswer

# The example of RFC 7677, section 3
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
SECRET = "pencil"


def scram(mechanism: str = "SCRAM-SHA-256", name: str = "user") -> Scram:
    return Scram(Credentials(mechanism, name, SECRET), CLIENT_NONCE)


def test_the_example_of_the_rfc() -> None:
    client = scram()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(SERVER_FIRST) == CLIENT_FINAL
    client.verify(SERVER_FINAL)
    for wrong in (b"v=", b"e=other-error", SERVER_FINAL.replace(b"6rri", b"7rri")):
        with pytest.raises(WrongAnswer, match="does not prove"):
            client.verify(wrong)
    assert scram(name="a=b,c").first() == b"n,,n=a=3Db=2Cc,r=rOprNGfwEbeRWgbNEkqO"


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (SERVER_FIRST.replace(b"r=rO", b"r=rX"), "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "iterations"),
        (SERVER_FIRST.replace(b"4096", b"2000000000"), "iterations"),
        (SERVER_FIRST.replace(b"4096", b"9" * 5_000), "iterations"),
        (SERVER_FIRST.replace(b"4096", b"000004096999999999"), "iterations"),  # more than OpenSSL can count
        (SERVER_FIRST.replace(b"4096", b"00000409699999"), "iterations"),  # minutes of work
        (SERVER_FIRST.replace(b"4096", b"1000001"), "iterations"),
        (SERVER_FIRST.replace(b"4096", b""), "iterations"),
        (SERVER_FIRST.replace(b"W22Z", b"W2 Z"), "base 64"),
        (b"\xff", "ASCII"),
        (b"", "nonce"),
    ],
)
def test_a_server_that_answers_wrong(first: bytes, said: str) -> None:
    with pytest.raises(WrongAnswer, match=said):
        scram().final(first)
