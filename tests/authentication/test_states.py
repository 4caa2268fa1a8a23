"""Each request in each state of a client's login, by the table in the docstring of kproxy.authentication."""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from kproxy.authentication.mechanisms import LoginFailed, Scram, Step
from kproxy.authentication.principal import Principal
from kproxy.authentication.scram import WrongToken
from kproxy.authentication.states import Answer, ClientLogin, State
from kproxy.authentication.users import User, Users, new_users_file, set_password, write_users_file
from kproxy.login.client_settings import Credentials
from kproxy.login.log_in import Scram as ClientScram
from kproxy.protocol import RequestHeader
from tests.support.links import request

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, METADATA = 18, 17, 36, 3
HANDSHAKE, START, AUTHENTICATED, FAILED = (
    State.REQUIRING_AUTHENTICATE,
    State.REQUIRING_HANDSHAKE,
    State.AUTHENTICATED,
    State.FAILED,
)


class Doubling:
    """A mechanism of two tokens: "one", then the name."""

    def __init__(self) -> None:
        self.tokens: list[bytes] = []

    async def evaluate(self, token: bytes) -> Step:
        self.tokens.append(token)
        if len(self.tokens) == 1:
            return Step(b"go on")
        if token == b"wrong":
            raise LoginFailed("it is wrong", user="mallory")
        return Step(b"welcome", Principal(token.decode(), "DOUBLING", lifetime_ms=5_000))


async def versions(header: RequestHeader, body: object) -> bytes:
    error = 0 if header.api_version < 4 else 35
    return pack(">iihi", 10, header.correlation_id, error, 0)


def handshake(version: int = 1, mechanism: str = "DOUBLING") -> bytes:
    return request(SASL_HANDSHAKE, version, 7, pack(">h", len(mechanism)) + mechanism.encode())


def authenticate(token: bytes, version: int = 1) -> bytes:
    body = pack(">i", len(token)) + token if version < 2 else b"\0" + bytes([len(token) + 1]) + token + b"\0"
    return request(SASL_AUTHENTICATE, version, 8, body)


ASK_VERSIONS = request(API_VERSIONS, 0, 6)
ASK_NEWER = request(API_VERSIONS, 9, 6, b"\0\1\1\0")
BY_STEPS: dict[State, list[bytes]] = {
    START: [],
    HANDSHAKE: [handshake()],
    AUTHENTICATED: [handshake(), authenticate(b"one"), authenticate(b"alice")],
    FAILED: [handshake(mechanism="OTHER")],
}


def login(longest_ms: int = 0) -> ClientLogin:
    return ClientLogin({"DOUBLING": Doubling, "SECOND": Doubling}, versions, longest_ms)


def after(steps: list[bytes], made: ClientLogin | None = None) -> tuple[ClientLogin, Answer]:
    """The login after these frames, and the last answer."""
    one = made or login()
    answer = Answer(b"")
    for frame in steps:
        answer = asyncio.run(one.receive(frame))
    return one, answer


def error_of(answer: Answer) -> int | None:
    """The error code behind the correlation id; None: nothing is sent."""
    return int.from_bytes(answer.frame[8:10], "big", signed=True) if answer.frame else None


@pytest.mark.parametrize(
    ("state", "frame", "then", "error"),
    [
        (START, ASK_VERSIONS, START, 0),
        (HANDSHAKE, ASK_VERSIONS, FAILED, None),
        (START, ASK_NEWER, START, 35),
        (START, handshake(), HANDSHAKE, 0),
        (START, handshake(0), HANDSHAKE, 0),
        (START, handshake(mechanism="GSSAPI"), FAILED, 33),
        (START, handshake(9), FAILED, None),
        (START, handshake()[:-3], FAILED, None),
        (HANDSHAKE, handshake(), FAILED, 34),
        (HANDSHAKE, handshake(0), FAILED, 34),
        (AUTHENTICATED, handshake(), HANDSHAKE, 0),
        (AUTHENTICATED, handshake(0), FAILED, 33),
        (AUTHENTICATED, handshake(mechanism="SECOND"), FAILED, 33),
        (START, authenticate(b"one"), FAILED, 34),
        (HANDSHAKE, authenticate(b"one"), HANDSHAKE, 0),
        (HANDSHAKE, authenticate(b"one", 0), HANDSHAKE, 0),
        (AUTHENTICATED, authenticate(b"one"), FAILED, 34),
        (START, request(METADATA, 9, 1), FAILED, None),
        (HANDSHAKE, request(METADATA, 9, 1), FAILED, None),
        (START, b"\0\0\0\x04GET ", FAILED, None),
        (FAILED, handshake(), FAILED, 34),
        (FAILED, authenticate(b"one"), FAILED, 34),
        (FAILED, ASK_VERSIONS, FAILED, None),
    ],
)
def test_each_request_in_each_state(state: State, frame: bytes, then: State, error: int | None) -> None:
    one, _ = after(BY_STEPS[state])
    assert one.state is state
    _, answer = after([frame], one)
    assert (one.state, error_of(answer)) == (then, error)
    assert (answer.failure is not None) == (then is FAILED)


def test_versions_are_answered_once_and_again_after_an_unsupported_one() -> None:
    one, answer = after([ASK_NEWER, ASK_VERSIONS])
    assert one.state is START and error_of(answer) == 0
    assert after([ASK_VERSIONS], one)[0].state is FAILED


def test_a_client_that_never_ends_its_login_is_refused() -> None:
    one, _ = after([ASK_NEWER] * 32)
    assert one.state is START
    assert after([ASK_VERSIONS], one)[0].state is FAILED


@pytest.mark.parametrize(
    ("version", "longest_ms", "lifetime_ms"),
    [(0, 0, None), (1, 0, 5_000), (2, 0, 5_000), (1, 3_000, 3_000), (1, 9_000, 5_000)],
)
def test_the_client_is_told_how_long_its_session_lasts(version: int, longest_ms: int, lifetime_ms: int | None) -> None:
    steps = [handshake(), authenticate(b"one", version), authenticate(b"alice", version)]
    one, answer = after(steps, login(longest_ms))
    assert one.principal == Principal("alice", "DOUBLING", lifetime_ms=min(longest_ms or 5_000, 5_000))
    token = b"welcome"
    ends = {
        0: pack(">ihhi", 8, 0, -1, 7) + token,
        1: pack(">ihhi", 8, 0, -1, 7) + token + pack(">q", lifetime_ms or 0),
        2: pack(">i", 8) + b"\0\0\0\0\x08" + token + pack(">q", lifetime_ms or 0) + b"\0",
    }
    assert answer.frame[4:] == ends[version]


def test_raw_tokens() -> None:
    one, answer = after([handshake(0), b"\0\0\0\x03one"])
    assert answer.frame == b"\0\0\0\x05go on"
    _, answer = after([b"\0\0\0\5alice"], one)
    assert (one.state, answer.frame) == (AUTHENTICATED, b"\0\0\0\x07welcome")
    one, answer = after([handshake(0), b"\0\0\0\x03one", b"\0\0\0\5wrong"])
    assert (one.state, answer.frame) == (FAILED, b"")


def test_what_a_failed_client_gets_and_what_is_known_of_it() -> None:
    one, answer = after([handshake(), authenticate(b"one"), authenticate(b"wrong")])
    said = b"Authentication failed during authentication due to invalid credentials with SASL mechanism DOUBLING"
    assert answer.frame[4:] == pack(">ihh", 8, 58, len(said)) + said + pack(">iq", 0, 0)
    assert answer.failure is not None and (answer.failure.user, answer.failure.why) == ("mallory", "it is wrong")
    assert one.principal is None


def test_a_client_that_logs_in_again_stays_who_it_was() -> None:
    one, _ = after([*BY_STEPS[AUTHENTICATED], *BY_STEPS[AUTHENTICATED]])
    assert one.state is AUTHENTICATED
    one, answer = after([handshake(), authenticate(b"one"), authenticate(b"root")], one)
    assert (one.state, error_of(answer)) == (FAILED, 58)
    assert b"Cannot change principals during re-authentication from alice: root" in answer.frame
    assert one.principal is not None and one.principal.name == "alice"


def test_two_logins_share_nothing() -> None:
    made: list[Any] = []
    make: Callable[[], Doubling] = lambda: (made.append(Doubling()), made[-1])[1]  # noqa: E731
    one = ClientLogin({"DOUBLING": make}, versions)
    after([*BY_STEPS[AUTHENTICATED], handshake(), authenticate(b"one")], one)
    assert [each.tokens for each in made] == [[b"one", b"alice"], [b"one"]]


def test_mutated_logins_get_nobody_in_and_raise_nothing(tmp_path: Path) -> None:
    """Bytes changed, removed, added and cut, in each frame of a SCRAM login that is right without them."""
    chance = random.Random(26)
    file = new_users_file()
    file.users["alice"] = User()
    set_password(file.users["alice"], ["SCRAM-SHA-256"], "pencil", 4_096)
    write_users_file(tmp_path / "users.json", file)
    users = Users(tmp_path / "users.json")
    make = partial(Scram, users, "SCRAM-SHA-256", lambda name: None)
    admitted = 0
    for number in range(200):
        client = ClientScram(Credentials("SCRAM-SHA-256", "alice", "pencil"), "c" * 20)
        one = ClientLogin({"SCRAM-SHA-256": make}, versions)
        answer = Answer(b"")
        for step in range(4):
            frame = frame_of(step, client, answer)
            body = mutated(frame[4:], chance) if step == number % 4 else frame[4:]
            answer = asyncio.run(one.receive(pack(">i", len(body)) + body))
            if answer.failure is not None or error_of(answer) or (step == 2 and b"r=" not in answer.frame):
                break
        admitted += one.state is AUTHENTICATED
        assert one.state is not AUTHENTICATED or one.principal == Principal("alice", "SCRAM-SHA-256")
    assert 0 < admitted < 50  # what was changed did not matter: an id, a client's nonce


def frame_of(step: int, client: ClientScram, answer: Answer) -> bytes:
    """The client's next frame of a login."""
    if step < 2:
        return (ASK_VERSIONS, handshake(mechanism="SCRAM-SHA-256"))[step]
    try:
        return authenticate(client.first() if step == 2 else client.final(answer.frame[16:-8]))
    except WrongToken:  # the client's nonce was changed on the way
        return authenticate(b"c=biws")


def mutated(frame: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(frame))
    some = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 5)))
    changes = (
        frame[:at] + some + frame[at + len(some) :],
        frame[:at] + frame[at + 1 :],
        frame[:at] + some + frame[at:],
    )
    return chance.choice((*changes, frame[:at]))
