"""Logins at brokers that refuse, and SCRAM by the example of RFC 7677. With real brokers: tests/interop."""

import asyncio
from struct import pack

import pytest

from kproxy.authentication.scram import WrongToken
from kproxy.errors import LoginRefused
from kproxy.login.client_settings import Credentials
from kproxy.login.log_in import Scram, log_in
from kproxy.proxy.network.upstream import Upstream
from kproxy.replay.cluster import Link
from tests.support.backend import answer_to, frame_from, listening
from tests.support.replayed import PATIENCE_S

SECRET = "pencil"
HANDS_SHAKEN = pack(">hi", 0, 0)
# The example of RFC 7677, section 3
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def refused(handshake: bytes, authenticated: bytes, mechanism: str = "PLAIN", password: str = SECRET) -> str:
    """What is said of a login at a broker that answers so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (handshake, authenticated):
            writer.write(answer_to(await frame_from(reader), answer))
        await reader.read(1)

    async def work() -> None:
        async with listening(serve) as port:
            link = await Link.open(Upstream(allow_link_local=True), "127.0.0.1", port, None, PATIENCE_S)
            try:
                await log_in(link.ask, Credentials(mechanism, "alice", password), "127.0.0.1", asyncio.to_thread)
            finally:
                link.abort("done")

    with pytest.raises(LoginRefused) as wrong:
        asyncio.run(asyncio.wait_for(work(), PATIENCE_S))
    words = f"{wrong.value}; {wrong.value.advice}"
    assert SECRET not in words and "\n" not in words
    return words


def test_a_broker_that_does_not_let_in() -> None:
    said = f"wrong password {SECRET} \x1b[2J".encode()
    answer = pack(">h", 58) + pack(">h", len(said)) + said + pack(">i", 0)
    words = refused(HANDS_SHAKEN, answer)
    assert "refuses the login of alice by PLAIN: SASL_AUTHENTICATION_FAILED (wrong password ..." in words
    assert "\x1b" not in words
    other = pack(">hih", 33, 1, 5) + b"OTHER"
    assert "PLAIN is not offered by the broker; set sasl.mechanism to one that is offered: OTHER" in refused(other, b"")
    assert "wants no login" in refused(pack(">hi", 34, 0), b"")
    answer = pack(">hhi", 0, -1, len(SERVER_FIRST)) + SERVER_FIRST
    assert "answer is not of SCRAM: the nonce" in refused(HANDS_SHAKEN, answer, "SCRAM-SHA-256")


@pytest.mark.parametrize(
    ("before", "password", "shown"),
    [(190, "battery horse staple", "battery"), (0, "battery\thorse \x1b", "horse")],
    ids=["it would be cut", "it would be escaped"],
)
def test_no_part_of_a_password_that_the_broker_says_is_shown(before: int, password: str, shown: str) -> None:
    said = f"{'-' * before}{password}".encode()
    words = refused(HANDS_SHAKEN, pack(">hh", 58, len(said)) + said + pack(">i", 0), password=password)
    assert "-..." in f"-{words.partition('(')[2]}" and shown not in words


def scram(mechanism: str = "SCRAM-SHA-256", name: str = "user") -> Scram:
    return Scram(Credentials(mechanism, name, SECRET), CLIENT_NONCE)


def test_the_example_of_the_rfc() -> None:
    client = scram()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final(SERVER_FIRST) == CLIENT_FINAL
    client.verify(SERVER_FINAL)
    for wrong in (b"v=", b"e=other-error", SERVER_FINAL.replace(b"6rri", b"7rri")):
        with pytest.raises(WrongToken, match="does not prove"):
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
        (b"\xff", "UTF-8"),
        (b"", "nonce"),
    ],
)
def test_a_server_that_answers_wrong(first: bytes, said: str) -> None:
    with pytest.raises(WrongToken, match=said):
        scram().final(first)
