"""The client's messages of SCRAM (RFC 5802, RFC 7677), without channel binding.

Written here rather than taken from a library: the libraries prepare passwords as RFC 5802 says (SASLprep), and Kafka does not
(ScramFormatter.normalize is UTF-8 alone), so that one with unusual characters would be refused.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode

from kproxy.login.client_settings import Credentials

DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS = 4_096  # ScramMechanism.minIterations: with fewer, who listens would guess the password sooner
MOST_ITERATIONS = 1_000_000  # half a second
MOST_DIGITS = 7  # of MOST_ITERATIONS


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
