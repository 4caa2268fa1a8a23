"""Logging in to a broker of the new cluster: SASL with PLAIN (RFC 4616) or SCRAM (RFC 5802, RFC 7677), without channel binding.

SaslHandshake v1 and SaslAuthenticate (KIP-152), which brokers have from 1.0 on. A broker that does not prove that it knows the
password, as SCRAM demands, is not logged in to.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from typing import Any

from kproxy.errors import DecodeError, UpstreamError
from kproxy.output.escaping import printable
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import error_name
from kproxy.protocol.structs import struct_types
from kproxy.replay.client_settings import Credentials
from kproxy.replay.link import Link, LinkClosed

HANDSHAKE, AUTHENTICATE = 1, 0  # versions
DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS = 4_096  # ScramMechanism.minIterations: with fewer, who listens would guess the password sooner
MOST_ITERATIONS = 1_000_000  # half a second
ILLEGAL_SASL_STATE = 34
UNSUPPORTED_SASL_MECHANISM = 33
LONGEST_SAID = 200  # characters of a broker's message


class WrongAnswer(Exception):
    """The broker's token is not what its mechanism demands; how, in words that hold nothing of it."""


async def log_in(link: Link, credentials: Credentials) -> None:
    """Log in on a connection on which nothing was sent yet. Raises UpstreamError, which never has the password in it."""
    try:
        await _shake_hands(link, credentials.mechanism)
        if credentials.mechanism == "PLAIN":
            await _authenticate(link, credentials, f"\0{credentials.username}\0{credentials.password}".encode())
        else:
            await _scram(link, credentials)
    except LinkClosed as error:
        raise UpstreamError(f"no login at {link.address}: {error}") from None
    except (DecodeError, WrongAnswer) as error:
        raise UpstreamError(f"no login at {link.address}: its answer is wrong: {error}") from None


async def _shake_hands(link: Link, mechanism: str) -> None:
    body: Any = struct_types("SaslHandshakeRequest")["SaslHandshakeRequest"]()
    body.mechanism = mechanism
    answer = await link.ask(ApiKey.SASL_HANDSHAKE, HANDSHAKE, body)
    if answer.error_code == ILLEGAL_SASL_STATE:
        raise UpstreamError(f"{link.address} wants no login: leave out SASL in security.protocol, or take another port")
    if answer.error_code == UNSUPPORTED_SASL_MECHANISM:
        taken = printable(", ".join(answer.mechanisms), LONGEST_SAID) or "nothing"
        raise UpstreamError(f"{link.address} does not take {mechanism}, but {taken}")
    if answer.error_code:
        raise UpstreamError(f"no login at {link.address}: {error_name(answer.error_code)}")


async def _scram(link: Link, credentials: Credentials) -> None:
    client = Scram(credentials, secrets.token_urlsafe(24))
    answer = await _authenticate(link, credentials, client.first())
    answer = await _authenticate(link, credentials, client.final(answer))
    client.verify(answer)


async def _authenticate(link: Link, credentials: Credentials, token: bytes) -> bytes:
    """The broker's answer to a token."""
    body: Any = struct_types("SaslAuthenticateRequest")["SaslAuthenticateRequest"]()
    body.auth_bytes = token
    answer = await link.ask(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE, body)
    if answer.error_code:
        said = printable(answer.error_message or "", LONGEST_SAID)
        said = said.replace(credentials.password, "...") if credentials.password else said
        raise UpstreamError(
            f"{link.address} refused the login of {printable(credentials.username, 60)} by {credentials.mechanism}:"
            f" {error_name(answer.error_code)}{f' ({said})' if said else ''}"
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
        self._password = (
            credentials.password.encode()
        )  # as it is: Kafka does not prepare strings (ScramFormatter.normalize)
        self._nonce = nonce
        name = credentials.username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """client-first-message"""
        return f"n,,{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """client-final-message, to the server's first one. Raises WrongAnswer."""
        parts = _attributes(server_first)
        nonce, salt, iterations = parts.get("r", ""), _base64(parts.get("s", "")), parts.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise WrongAnswer("the nonce is not the one that was sent")
        if not iterations.isdecimal() or not LEAST_ITERATIONS <= int(iterations[:9]) <= MOST_ITERATIONS:
            raise WrongAnswer(f"it does not ask for {LEAST_ITERATIONS:,} to {MOST_ITERATIONS:,} iterations")
        salted = hashlib.pbkdf2_hmac(self._digest, self._password, salt, int(iterations))
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


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise WrongAnswer("the token is not base 64") from None
