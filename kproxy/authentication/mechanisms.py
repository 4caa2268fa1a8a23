"""The mechanisms: each takes the client's tokens of one login and gives the answers, and in the end the Principal.

PLAIN is RFC 4616, SCRAM RFC 5802. What is refused, and in which words, is as in Kafka's PlainSaslServer and ScramSaslServer.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from kproxy.authentication.principal import Principal
from kproxy.authentication.scram import MOST_TOKEN, ScramServer, WrongProof, WrongToken
from kproxy.authentication.users import Users

InThread: TypeAlias = Callable[
    [Callable[[], Any]], Awaitable[Any]
]  # calls a slow function while other connections go on
Admit: TypeAlias = Callable[[str], None]
MOST_PLAIN = 4_096  # bytes of a token of PLAIN
PLAIN_PARTS = 3  # authorization id, user name, password


class LoginFailed(Exception):
    """The client has not proved who it is.

    Attributes:
        why: for the log. It has nothing that the client sent but the name.
        said: for the client; None: Kafka's sentence for the mechanism. It is the same for a user that does not exist.
        user: who the client claims to be, as far as it said.
    """

    def __init__(self, why: str, said: str | None = None, user: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.said = said
        self.user = user


class Step(NamedTuple):
    """What follows a token: the answer, and the principal when the login is complete."""

    answer: bytes
    principal: Principal | None = None


class Mechanism(Protocol):
    """One login by one mechanism."""

    async def evaluate(self, token: bytes) -> Step:
        """Take the client's next token. Raises LoginFailed."""


class Plain:
    """PLAIN: the client sends name and password.

    Args:
        admit: raises LoginFailed if the user may not try.
    """

    def __init__(self, users: Users, in_thread: InThread, admit: Admit) -> None:
        self._users = users
        self._in_thread = in_thread
        self._admit = admit

    async def evaluate(self, token: bytes) -> Step:
        """Check the password; in a thread, as it takes long."""
        if len(token) > MOST_PLAIN:
            raise LoginFailed(f"a token of {len(token)} bytes; PLAIN has {MOST_PLAIN} at most")
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise LoginFailed("the token is not UTF-8") from None
        if len(parts) != PLAIN_PARTS:
            raise LoginFailed(f"the token has {len(parts)} parts, not {PLAIN_PARTS}")
        authorization, name, password = parts
        if not name or not password:
            raise LoginFailed("the token has no user name or no password", user=name)
        if authorization not in ("", name):
            raise LoginFailed("the authorization id is not the user name", user=name)
        self._admit(name)
        if not await self._in_thread(lambda: self._users.matches(name, password.encode())):
            raise LoginFailed(
                "unknown user or wrong password", "Authentication failed: Invalid username or password", name
            )
        return Step(b"", Principal(name, "PLAIN", self._users.groups(name)))


class Scram:
    """SCRAM: the client proves that it knows the password, and so does kproxy that it knows the verifier.

    Args:
        admit: raises LoginFailed if the user may not try.
    """

    def __init__(self, users: Users, mechanism: str, admit: Admit) -> None:
        self._users = users
        self._admit = admit
        self._mechanism = mechanism
        nonce = secrets.token_urlsafe(24)
        self._server = ScramServer(mechanism, lambda name: users.verifier(mechanism, name), nonce)
        self._has_begun = False

    async def evaluate(self, token: bytes) -> Step:
        """Answer the first message, then check the proof in the second."""
        if len(token) > MOST_TOKEN:
            raise LoginFailed(
                f"a token of {len(token)} bytes; SCRAM has {MOST_TOKEN} at most", user=self._server.username
            )
        try:
            if not self._has_begun:
                self._has_begun = True
                answer = self._server.first(token)
                self._admit(self._server.username)
                return Step(answer)
            answer = self._server.final(token)
        except WrongToken as error:
            raise LoginFailed(str(error), user=self._server.username) from None
        except WrongProof:
            raise LoginFailed("unknown user or wrong password", user=self._server.username) from None
        name = self._server.username
        return Step(answer, Principal(name, self._mechanism, self._users.groups(name)))
