"""Logins at brokers that refuse; with real brokers in tests/interop, of kproxy doctor and kproxy replay."""

import asyncio
from struct import pack

import pytest

from kproxy.login.client_settings import Credentials
from kproxy.login.log_in import LoginRefused, log_in
from kproxy.proxy.network.upstream import Upstream
from kproxy.replay.cluster import Link
from tests.support.replayed import PATIENCE_S, serving

SECRET = "pencil"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"  # RFC 7677


def refused(handshake: bytes, authenticated: bytes, mechanism: str = "PLAIN", password: str = SECRET) -> str:
    """What is said of a login at a broker that answers so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (handshake, authenticated):
            request = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            writer.write(pack(">i", 4 + len(answer)) + request[4:8] + answer)
        await reader.read(1)

    async def work() -> None:
        async with serving(serve) as port:
            link = await Link.open(Upstream(allow_link_local=True), "127.0.0.1", port, None, PATIENCE_S)
            try:
                await log_in(link.ask, Credentials(mechanism, "alice", password))
            finally:
                link.abort("done")

    with pytest.raises(LoginRefused) as wrong:
        asyncio.run(asyncio.wait_for(work(), PATIENCE_S))
    words = f"{wrong.value}; {wrong.value.advice}"
    assert SECRET not in words and "\n" not in words
    return words


HANDS_SHAKEN = pack(">hi", 0, 0)


def test_a_broker_that_does_not_let_in() -> None:
    said = f"wrong password {SECRET} \x1b[2J".encode()
    answer = pack(">h", 58) + pack(">h", len(said)) + said + pack(">i", 0)
    words = refused(HANDS_SHAKEN, answer)
    assert "refuses the login of alice by PLAIN: SASL_AUTHENTICATION_FAILED (wrong password ..." in words
    assert "\x1b" not in words
    other = pack(">hih", 33, 1, 5) + b"OTHER"
    assert "PLAIN is not offered by the broker; set sasl.mechanism to one that is offered: OTHER" in refused(other, b"")
    assert "wants no login" in refused(pack(">hi", 34, 0), b"")
    answer = pack(">hhi", 0, -1, len(CHALLENGE)) + CHALLENGE
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
