"""Logging in to a broker: SaslHandshake v1 and SaslAuthenticate (KIP-152), with PLAIN (RFC 4616) or SCRAM.

A broker that does not prove that it knows the password, as SCRAM demands, is not logged in to.

SCRAM (RFC 5802, RFC 7677, without channel binding) is not taken from a library: libraries prepare passwords as RFC 5802 says
(SASLprep), and Kafka does not (ScramFormatter.normalize is UTF-8 alone), so that one with unusual characters would be refused.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from kproxy.errors import KproxyError
from kproxy.login.client_settings import Credentials
from kproxy.output.escaping import printable
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode, error_name
from kproxy.protocol.structs import struct_types

HANDSHAKE, AUTHENTICATE = 1, 0  # versions; brokers have them from 1.0 on
LONGEST_SAID = 200  # characters of a broker's message
Ask: TypeAlias = Callable[[int, int, Any], Awaitable[Any]]  # api_key, version, body -> the response
DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS = 4_096  # ScramMechanism.minIterations: with fewer, who listens would guess the password sooner
MOST_ITERATIONS = 1_000_000  # half a second
MOST_DIGITS = 7  # of MOST_ITERATIONS


class LoginRefused(KproxyError):
    """The login failed; the text says why.

    Attributes:
        advice: what to do.
    """

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.advice = advice


async def log_in(ask: Ask, credentials: Credentials, versions: Mapping[int, int] | None = None) -> None:
    """Log in on a new connection.

    Args:
        ask: sends a request and returns its response; its exceptions pass through.
        credentials: of the user.
        versions: the newest version of each API that the broker has; None if not known.

    Raises LoginRefused, whose text never holds the password.
    """
    if versions is not None and versions.get(ApiKey.SASL_HANDSHAKE, 0) < HANDSHAKE:
        what = "brokers before Kafka 1.0 take logins in another way, which kproxy does not know"
        raise LoginRefused(what, "give no login")
    await _choose_mechanism(ask, credentials.mechanism)
    if credentials.mechanism == "PLAIN":
        await _authenticate(ask, credentials, f"\0{credentials.username}\0{credentials.password}".encode())
        return
    try:
        await _scram(ask, credentials)
    except WrongAnswer as error:
        raise LoginRefused(f"the broker's answer is not of SCRAM: {error}", "is this the right cluster?") from None


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


async def _scram(ask: Ask, credentials: Credentials) -> None:
    client = Scram(credentials, secrets.token_urlsafe(24))
    answer = await _authenticate(ask, credentials, client.first())
    answer = await _authenticate(ask, credentials, client.final(answer))
    client.verify(answer)


async def _authenticate(ask: Ask, credentials: Credentials, token: bytes) -> bytes:
    """Send a token; return the broker's answer."""
    body: Any = struct_types("SaslAuthenticateRequest")["SaslAuthenticateRequest"]()
    body.auth_bytes = token
    answer = await ask(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE, body)
    if answer.error_code:
        said = answer.error_message or ""
        # before it is escaped and cut: then it would be another text, or its beginning
        said = printable(said.replace(credentials.password, "...") if credentials.password else said, LONGEST_SAID)
        user = printable(credentials.username, 60)
        reason = error_name(answer.error_code) + (f" ({said})" if said else "")
        raise LoginRefused(
            f"the broker refuses the login of {user} by {credentials.mechanism}: {reason}",
            "correct the user, the password or the mechanism",
        )
    return bytes(answer.auth_bytes)


class WrongAnswer(Exception):
    """The broker's token violates SCRAM; the text says how, without any of its bytes."""


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
        """Return the client-final-message that answers the server's first message. Raises WrongAnswer."""
        parts = _attributes(server_first)
        nonce, salt, iterations = parts.get("r", ""), _base64(parts.get("s", "")), parts.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise WrongAnswer("the nonce is not the one that was sent")
        salted = hashlib.pbkdf2_hmac(self._digest, self._password, salt, _number(iterations))
        without_proof = f"c=biws,r={nonce}"  # "n,," in base 64
        signed = f"{self._first_bare},{server_first.decode()},{without_proof}".encode()
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._digest, client_key).digest(), signed)
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raise WrongAnswer unless the server knows the password."""
        given = _base64(_attributes(server_final).get("v", ""))
        if not self._signature or not hmac.compare_digest(given, self._signature):
            raise WrongAnswer("it does not prove that it knows the password")

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._digest)


def _attributes(token: bytes) -> dict[str, str]:
    try:
        parts = token.decode("ascii").split(",")
    except UnicodeDecodeError:
        raise WrongAnswer("the token is not ASCII") from None
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}


def _number(iterations: str) -> int:
    few = iterations.isdecimal() and len(iterations) <= MOST_DIGITS
    number = int(iterations) if few else 0
    if not LEAST_ITERATIONS <= number <= MOST_ITERATIONS:
        raise WrongAnswer(f"it does not ask for {LEAST_ITERATIONS:,} to {MOST_ITERATIONS:,} iterations")
    return number


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise WrongAnswer("the token is not base 64") from None
