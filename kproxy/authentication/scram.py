"""SCRAM (RFC 5802, RFC 7677, without channel binding): its arithmetic, its attributes, and the server's half of a login.

The client's half is kproxy.login.log_in.Scram. SCRAM is not taken from a library: libraries prepare passwords as RFC 5802 says
(SASLprep), and Kafka does not (ScramFormatter.normalize is UTF-8 alone), so that one with unusual characters would be refused.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass

DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS = 4_096  # ScramMechanism.minIterations: with fewer, who listens would guess the password sooner
MOST_ITERATIONS = 1_000_000  # half a second
MOST_DIGITS = 7  # of MOST_ITERATIONS
MOST_TOKEN = 4_096  # bytes of a token, checked before anything of it is read
GS2_HEADERS = ("n", "y")  # no channel binding; "y": the client could bind, and knows that the server does not offer it
LEAST_NONCE = 8  # characters of a client's nonce; Kafka's clients send 20 and more


class WrongToken(Exception):
    """A token violates SCRAM; the text says how, without any of its bytes."""


class WrongProof(Exception):
    """The client's proof is not that of the password, or there is no such user."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """What a server knows of a password (RFC 5802 section 3): enough to check a proof, not enough to log in.

    In text as Kafka writes it (ScramCredentialUtils): "salt=...,stored_key=...,server_key=...,iterations=4096", in base 64.
    """

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"Verifier({self.iterations} iterations)"

    def render(self) -> str:
        """Return the text that `parse_verifier` reads."""
        parts = {"salt": self.salt, "stored_key": self.stored_key, "server_key": self.server_key}
        text = ",".join(f"{name}={b64encode(value).decode()}" for name, value in parts.items())
        return f"{text},iterations={self.iterations}"


def make_verifier(mechanism: str, password: bytes, salt: bytes, iterations: int) -> Verifier:
    digest = DIGESTS[mechanism]
    client_key, server_key = keys_of(digest, hashlib.pbkdf2_hmac(digest, password, salt, iterations))
    return Verifier(salt, hashlib.new(digest, client_key).digest(), server_key, iterations)


def parse_verifier(mechanism: str, text: str) -> Verifier:
    """Read a verifier. Raises ValueError, without any of the text."""
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        salt, stored, server = (b64decode(parts[name], validate=True) for name in ("salt", "stored_key", "server_key"))
        iterations = parse_iterations(parts["iterations"])
    except (KeyError, ValueError, WrongToken):
        raise ValueError(f"the credential of {mechanism} is not salt=,stored_key=,server_key=,iterations=") from None
    size = hashlib.new(DIGESTS[mechanism]).digest_size
    if len(stored) != size or len(server) != size or not salt:
        raise ValueError(f"the keys of {mechanism} have {size} bytes each")
    return Verifier(salt, stored, server, iterations)


def keys_of(digest: str, salted_password: bytes) -> tuple[bytes, bytes]:
    """Return the ClientKey and the ServerKey."""
    return hmac.digest(salted_password, b"Client Key", digest), hmac.digest(salted_password, b"Server Key", digest)


def parse_attributes(token: bytes) -> dict[str, str]:
    """Return the attributes of a message, by their letters. Raises WrongToken."""
    try:
        parts = token.decode().split(",")
    except UnicodeDecodeError:
        raise WrongToken("the token is not UTF-8") from None
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}


def parse_iterations(text: str) -> int:
    """Read the number of iterations. Raises WrongToken if it is not from 4,096 to 1,000,000."""
    is_short = text.isdecimal() and text.isascii() and len(text) <= MOST_DIGITS
    number = int(text) if is_short else 0
    if not LEAST_ITERATIONS <= number <= MOST_ITERATIONS:
        raise WrongToken(f"it does not ask for {LEAST_ITERATIONS:,} to {MOST_ITERATIONS:,} iterations")
    return number


def parse_base64(text: str) -> bytes:
    """Decode base 64. Raises WrongToken."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise WrongToken("the token is not base 64") from None


class ScramServer:
    """The server's messages of one SCRAM login.

    Args:
        mechanism: one of DIGESTS.
        find: returns the verifier of a user; of one that does not exist, a verifier that no password has.
        nonce: printable ASCII without a comma, never used before.
    """

    def __init__(self, mechanism: str, find: Callable[[str], Verifier], nonce: str) -> None:
        self._digest = DIGESTS[mechanism]
        self._find = find
        self._own_nonce = nonce
        self._nonce = ""
        self._header = ""
        self._signed = ""
        self._verifier: Verifier | None = None
        self.username = ""

    def first(self, client_first: bytes) -> bytes:
        """Return the server-first-message. Raises WrongToken."""
        try:
            text = client_first.decode()
        except UnicodeDecodeError:
            raise WrongToken("the token is not UTF-8") from None
        flag, _, rest = text.partition(",")
        authorization, comma, bare = rest.partition(",")
        if flag not in GS2_HEADERS or not comma:
            raise WrongToken("it asks for channel binding, which is not offered, or does not begin as SCRAM does")
        parts = bare.split(",")
        if len(parts) < 2 or not parts[0].startswith("n=") or not parts[1].startswith("r="):
            raise WrongToken("it has no user name or no nonce")
        if any(part.startswith("tokenauth=") for part in parts[2:]):
            raise WrongToken("it logs in with a delegation token, which only brokers know")
        self.username = _name(parts[0][2:])
        if authorization and _name(authorization.removeprefix("a=")) != self.username:
            raise WrongToken("it asks for an authorization id that is not the user name")
        nonce = parts[1][2:]
        if len(nonce) < LEAST_NONCE or not (nonce.isascii() and nonce.isprintable()):
            raise WrongToken("the nonce is too short, or not printable")
        self._header = f"{flag},{authorization},"  # a client that binds no channel repeats it
        self._nonce = nonce + self._own_nonce
        self._verifier = self._find(self.username)
        salt = b64encode(self._verifier.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        self._signed = f"{bare},{answer}"
        return answer.encode()

    def final(self, client_final: bytes) -> bytes:
        """Return the server-final-message if the client knows the password. Raises WrongToken, WrongProof."""
        assert self._verifier is not None, "first() comes before final()"
        verifier, self._verifier = self._verifier, None  # one proof for one nonce
        without_proof, comma, proof_text = client_final.rpartition(b",p=")
        attributes = parse_attributes(without_proof)
        if not comma or not without_proof.startswith(b"c=") or "m" in attributes:
            raise WrongToken("it has no proof, or begins otherwise than SCRAM")
        if parse_base64(attributes.get("c", "")) != self._header.encode():
            raise WrongToken("its channel binding is not that of its first message")
        if not hmac.compare_digest(attributes.get("r", "").encode(), self._nonce.encode()):
            raise WrongToken("the nonce is not the one that was sent")
        proof = parse_base64(proof_text.decode("ascii", "replace"))
        signed = f"{self._signed},{without_proof.decode()}".encode()
        signature = hmac.digest(verifier.stored_key, signed, self._digest)
        if len(proof) != len(signature):
            raise WrongToken("the proof is too short or too long")
        client_key = exclusive_or(proof, signature)
        if not hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), verifier.stored_key):
            raise WrongProof
        return b"v=" + b64encode(hmac.digest(verifier.server_key, signed, self._digest))


def exclusive_or(left: bytes, right: bytes) -> bytes:
    """Return the bits that differ; both have the same size."""
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _name(text: str) -> str:
    """Decode a saslname (RFC 5802 section 5.1)."""
    name = text.replace("=2C", ",").replace("=3D", "=")
    if not name or text.count("=") != text.count("=2C") + text.count("=3D"):
        raise WrongToken("the user name is empty, or has an = that is not =2C or =3D")
    return name
