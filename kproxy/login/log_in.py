"""Logging in to a broker: SaslHandshake v1 and SaslAuthenticate (KIP-152), with PLAIN (RFC 4616) or SCRAM.

A broker that does not prove that it knows the password, as SCRAM demands, is not logged in to.

SCRAM's arithmetic and the server's half are in kproxy.authentication.scram.
"""

import hashlib
import hmac
import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from kproxy.authentication.scram import (
    DIGESTS,
    WrongToken,
    exclusive_or,
    keys_of,
    parse_attributes,
    parse_base64,
    parse_iterations,
)
from kproxy.errors import KproxyError
from kproxy.login.client_settings import Credentials
from kproxy.output.escaping import printable
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import ErrorCode, error_name
from kproxy.protocol.structs import struct_types

HANDSHAKE, AUTHENTICATE = 1, 0  # versions; brokers have them from 1.0 on
LONGEST_SAID = 200  # characters of a broker's message
Ask: TypeAlias = Callable[[int, int, Any], Awaitable[Any]]  # api_key, version, body -> the response


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
    except WrongToken as error:
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
        salted = hashlib.pbkdf2_hmac(self._digest, self._password, salt, parse_iterations(iterations))
        without_proof = f"c=biws,r={nonce}"  # "n,," in base 64
        signed = f"{self._first_bare},{server_first.decode()},{without_proof}".encode()
        client_key, server_key = keys_of(self._digest, salted)
        stored_key = hashlib.new(self._digest, client_key).digest()
        self._signature = hmac.digest(server_key, signed, self._digest)
        proof = exclusive_or(client_key, hmac.digest(stored_key, signed, self._digest))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raise WrongToken unless the server knows the password."""
        given = parse_base64(parse_attributes(server_final).get("v", ""))
        if not self._signature or not hmac.compare_digest(given, self._signature):
            raise WrongToken("it does not prove that it knows the password")
