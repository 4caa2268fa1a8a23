"""The server's half of SCRAM, by the example of RFC 7677 and against the client's half; tokens that are refused."""

from base64 import b64decode, b64encode

import pytest

from kproxy.authentication.scram import (
    DIGESTS,
    ScramServer,
    Verifier,
    WrongProof,
    WrongToken,
    make_verifier,
    parse_verifier,
)
from kproxy.login.client_settings import Credentials
from kproxy.login.log_in import Scram

# The example of RFC 7677, section 3
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
OWN_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def verifier(password: bytes = b"pencil", mechanism: str = "SCRAM-SHA-256") -> Verifier:
    return make_verifier(mechanism, password, SALT, 4_096)


def server(password: bytes = b"pencil") -> ScramServer:
    return ScramServer("SCRAM-SHA-256", lambda name: verifier(password), OWN_NONCE)


def test_the_example_of_the_rfc() -> None:
    one = server()
    assert one.first(CLIENT_FIRST) == SERVER_FIRST
    assert one.final(CLIENT_FINAL) == SERVER_FINAL
    assert one.username == "user"


@pytest.mark.parametrize("mechanism", DIGESTS)
def test_the_client_of_kproxy_gets_in_and_knows_whom_it_talks_to(mechanism: str) -> None:
    name = "a=b,c é"
    client = Scram(Credentials(mechanism, name, "päss word"), "c" * 20)
    asked: list[str] = []
    known = parse_verifier(mechanism, verifier("päss word".encode(), mechanism).render())
    one = ScramServer(mechanism, lambda user: (asked.append(user), known)[1], "s" * 20)
    client.verify(one.final(client.final(one.first(client.first()))))
    assert asked == [name]


def test_another_password_and_another_message_are_refused() -> None:
    one = server(b"pencils")
    one.first(CLIENT_FIRST)
    with pytest.raises(WrongProof):
        one.final(CLIENT_FINAL)
    with pytest.raises(AssertionError):  # a nonce is good for one proof
        one.final(CLIENT_FINAL)
    one = server()
    one.first(CLIENT_FIRST.replace(b"n=user", b"n=root"))  # the proof covers the name
    with pytest.raises(WrongProof):
        one.final(CLIENT_FINAL)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=user",
        b"n,,r=rOprNGfwEbeRWgbNEkqO,n=user",
        b"p=tls-unique,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"n,a=root,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"n,,n=,r=rOprNGfwEbeRWgbNEkqO",
        b"n,,n=us=er,r=rOprNGfwEbeRWgbNEkqO",
        b"n,,n=user,r=short",
        b"n,,n=user,r=rOprNGfwEbeR\x00WgbNEkqO",
        b"n,,m=ext,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO,tokenauth=true",
        b"n,,n=us\xff,r=rOprNGfwEbeRWgbNEkqO",
    ],
)
def test_first_messages_that_are_refused(first: bytes) -> None:
    with pytest.raises(WrongToken):
        server().first(first)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        CLIENT_FINAL[:-60],
        CLIENT_FINAL[:-8],
        CLIENT_FINAL.replace(b"c=biws", b"c=eSws"),  # "y,,": another header than that of the first message
        CLIENT_FINAL.replace(b"r=rOpr", b"r=rOps"),
        CLIENT_FINAL.replace(b"c=biws,", b""),
        CLIENT_FINAL.replace(b",p=", b",m=1,p="),
        CLIENT_FINAL + b"\xff",
    ],
)
def test_final_messages_that_are_refused(final: bytes) -> None:
    one = server()
    one.first(CLIENT_FIRST)
    with pytest.raises(WrongToken):
        one.final(final)


def test_the_text_of_a_verifier_is_that_of_kafka_and_is_checked() -> None:
    text = verifier().render()
    assert text.startswith("salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=") and text.endswith(",iterations=4096")
    assert parse_verifier("SCRAM-SHA-256", text) == verifier()
    secret = b64encode(verifier().stored_key).decode()
    for wrong in ("", text[:-4] + "10", text.replace("salt=", "salz="), text.replace("4096", "٤٠٩٦")):
        with pytest.raises(ValueError, match="credential") as error:
            parse_verifier("SCRAM-SHA-256", wrong)
        assert secret not in str(error.value)
    with pytest.raises(ValueError, match="64 bytes"):
        parse_verifier("SCRAM-SHA-512", text)
    assert secret not in repr(verifier())
