"""Logging in to a broker: SaslHandshake v1 and SaslAuthenticate (KIP-152); PLAIN (RFC 4616), SCRAM, OAUTHBEARER (RFC 7628).
GSSAPI is in kerberos.py, and only read where it is used.

A broker that does not prove that it knows the password, as SCRAM demands, is not logged in to.

SCRAM's arithmetic and the server's half are in kproxy.authentication.scram.
"""

import contextlib
import hashlib
import hmac
import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable, Generator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from kproxy.authentication.mechanisms import InThread
from kproxy.authentication.scram import (
    DIGESTS,
    WrongToken,
    exclusive_or,
    keys_of,
    parse_attributes,
    parse_base64,
    parse_iterations,
)
from kproxy.errors import LoginRefused
from kproxy.login.client_settings import Credentials
from kproxy.output.escaping import printable
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode, error_name
from kproxy.protocol.structs import struct_types

HANDSHAKE = 1  # version; brokers have it from 1.0 on
WITH_LIFETIME = 1  # version of SaslAuthenticate whose response has the lifetime of the session (KIP-368), from 2.2 on
ADVICE = {"GSSAPI": "has the broker the key of its principal of today, and which clients does it let in? See its log"}
LONGEST_SAID = 200  # characters of a broker's message
KEPT_KEYS = 1_024  # of SCRAM: a user has the same salt at each login, so the slow hash is computed once
Ask: TypeAlias = Callable[[int, int, Any], Awaitable[Any]]  # api_key, version, body -> the response
Conversation: TypeAlias = Generator[bytes, bytes, None]  # yields kproxy's tokens, is sent the broker's


async def log_in(
    ask: Ask, credentials: Credentials, host: str, in_thread: InThread, versions: Mapping[int, int] | None = None
) -> int:
    """Log in on a connection; return the lifetime of the session in ms; 0: it does not end, or is not known.

    Args:
        ask: sends a request and returns its response; its exceptions pass through.
        credentials: of the user.
        host: of the broker: Kerberos has tickets for each.
        in_thread: calls a function that asks the KDC.
        versions: the newest version of each API that the broker has; None: not known.

    Raises LoginRefused, whose text never holds the password.
    """
    if versions is not None and versions.get(ApiKey.SASL_HANDSHAKE, 0) < HANDSHAKE:
        what = "brokers before Kafka 1.0 take logins in another way, which kproxy does not know"
        raise LoginRefused(what, "give no login")
    version = min((versions or {}).get(ApiKey.SASL_AUTHENTICATE, 0), WITH_LIFETIME)
    await _choose_mechanism(ask, credentials.mechanism)
    conversation = CONVERSATIONS[credentials.mechanism](credentials, host)
    lifetime_ms = 0

    async def next_token(answer: bytes | None) -> bytes | None:
        def advance() -> bytes | None:
            return _next_token(conversation, answer, credentials.mechanism)

        token: bytes | None = await in_thread(advance) if credentials.mechanism in BLOCKING else advance()
        return token

    try:
        token = await next_token(None)
        while token is not None:
            answer = await _authenticate(ask, credentials, version, token)
            lifetime_ms = getattr(answer, "session_lifetime_ms", 0)
            token = await next_token(bytes(answer.auth_bytes))
    finally:
        with contextlib.suppress(ValueError):  # a thread still makes its token; then it is closed when that is done
            conversation.close()
    return lifetime_ms


def _next_token(conversation: Conversation, answer: bytes | None, mechanism: str) -> bytes | None:
    """Return the token that answers the broker's, at first None; None if the login is complete."""
    try:
        return next(conversation) if answer is None else conversation.send(answer)
    except StopIteration:
        return None
    except WrongToken as error:
        family = mechanism.partition("-")[0]
        raise LoginRefused(f"the broker's answer is not of {family}: {error}", "is this the right cluster?") from None


def _plain(credentials: Credentials, _: str) -> Conversation:
    yield f"\0{credentials.username}\0{credentials.password}".encode()


def _scram(credentials: Credentials, _: str) -> Conversation:
    client = Scram(credentials, secrets.token_urlsafe(24))
    server_first = yield client.first()
    server_final = yield client.final(server_first)
    client.verify(server_final)


def _bearer(credentials: Credentials, _: str) -> Conversation:
    extensions = "".join(f"{name}={value}\1" for name, value in credentials.extensions)
    refusal = yield f"n,,\1auth=Bearer {credentials.password}\1{extensions}\1".encode()
    if refusal:  # JSON that says why; the broker's error follows this token (RFC 7628, 3.2.3)
        yield b"\1"


def _gssapi(credentials: Credentials, host: str) -> Conversation:
    from kproxy.login import kerberos  # noqa: PLC0415 - few clusters have Kerberos

    yield from kerberos.converse(credentials, host)


CONVERSATIONS: dict[str, Callable[[Credentials, str], Conversation]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "OAUTHBEARER": _bearer,
    "GSSAPI": _gssapi,
}
BLOCKING = ("GSSAPI",)  # their tokens are made in a thread


async def _choose_mechanism(ask: Ask, mechanism: str) -> None:
    body: Any = struct_types("SaslHandshakeRequest")["SaslHandshakeRequest"]()
    body.mechanism = mechanism
    answer = await ask(ApiKey.SASL_HANDSHAKE, HANDSHAKE, body)
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise LoginRefused("the broker wants no login", "leave out SASL in security.protocol, or take another port")
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = printable(", ".join(answer.mechanisms), LONGEST_SAID) or "none"
        advice = f"set sasl.mechanism to one that is offered: {offered}"
        raise LoginRefused(f"{mechanism} is not offered by the broker", advice)
    if answer.error_code:
        raise LoginRefused(
            f"the broker refuses {mechanism}: {error_name(answer.error_code)}", "see the log of the broker"
        )


async def _authenticate(ask: Ask, credentials: Credentials, version: int, token: bytes) -> Any:
    """Send a token; return the broker's response."""
    body: Any = struct_types("SaslAuthenticateRequest")["SaslAuthenticateRequest"]()
    body.auth_bytes = token
    answer = await ask(ApiKey.SASL_AUTHENTICATE, version, body)
    if answer.error_code:
        said = answer.error_message or ""
        # before it is escaped and cut: then it would be another text, or its beginning
        said = printable(said.replace(credentials.password, "...") if credentials.password else said, LONGEST_SAID)
        user = printable(credentials.username, 60)
        reason = error_name(answer.error_code) + (f" ({said})" if said else "")
        raise LoginRefused(
            f"the broker refuses the login{f' of {user}' if user else ''} by {credentials.mechanism}: {reason}",
            ADVICE.get(credentials.mechanism, "correct the user, the password or the mechanism"),
        )
    return answer


class Scram:
    """The client's messages of one SCRAM login.

    Args:
        credentials: with a mechanism of DIGESTS.
        nonce: printable ASCII without a comma, never used before.
    """

    def __init__(self, credentials: Credentials, nonce: str) -> None:
        self._digest = DIGESTS[credentials.mechanism]
        self._password = credentials.password.encode()
        self._nonce = nonce
        name = credentials.username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """Return the client-first-message."""
        return f"n,,{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the client-final-message that answers the server's first message. Raises WrongToken."""
        parts = parse_attributes(server_first)
        nonce, salt, iterations = parts.get("r", ""), parse_base64(parts.get("s", "")), parts.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise WrongToken("the nonce is not the one that was sent")
        client_key, server_key = _keys(self._digest, self._password, salt, parse_iterations(iterations))
        without_proof = f"c=biws,r={nonce}"  # "n,," in base 64
        signed = f"{self._first_bare},{server_first.decode()},{without_proof}".encode()
        stored_key = hashlib.new(self._digest, client_key).digest()
        self._signature = hmac.digest(server_key, signed, self._digest)
        proof = exclusive_or(client_key, hmac.digest(stored_key, signed, self._digest))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raise WrongToken unless the server knows the password."""
        given = parse_base64(parse_attributes(server_final).get("v", ""))
        if not self._signature or not hmac.compare_digest(given, self._signature):
            raise WrongToken("it does not prove that it knows the password")


@lru_cache(KEPT_KEYS)
def _keys(digest: str, password: bytes, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    return keys_of(digest, hashlib.pbkdf2_hmac(digest, password, salt, iterations))
