"""Log in to a broker as a client does, by PLAIN or SCRAM, with the properties that Kafka's own tools take.

SCRAM is written here rather than taken from a library: the libraries prepare passwords as RFC 5802 says (SASLprep), and Kafka
does not (ScramFormatter.normalize is UTF-8 alone), so that one with unusual characters would be refused.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from kproxy.doctor.tls_words import Words
from kproxy.errors import UsageError
from kproxy.protocol import ApiKey
from kproxy.protocol.error_codes import error_name
from kproxy.proxy.asking import Asking

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = ("PLAIN", *HASHES)
MOST_ITERATIONS = 1_000_000  # that a broker may ask for; Kafka's default is 4096, and ten times that is much
_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:\s]?\s*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s;"]+))""")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


@dataclass(frozen=True)
class Login:
    """How a client logs in."""

    mechanism: str  # one of MECHANISMS
    user: str
    password: str = field(repr=False)


class LoginRefused(Exception):
    """The login failed; *words* say why, and what to do."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.words = Words(what, advice)


def parse_login(text: str, source: str) -> Login:
    """Read the login from a client's properties: of Java's client, or of librdkafka (sasl.username, sasl.password).

    Addresses and TLS in them are not read: the configuration has them. Raises UsageError, which quotes no value.
    """
    found = dict(_properties(text))
    mechanism = found.get("sasl.mechanism") or found.get("sasl.mechanisms") or ""
    if not mechanism:
        raise UsageError(f"{source}: sasl.mechanism is missing: write one of {', '.join(MECHANISMS)}")
    if mechanism not in MECHANISMS:
        raise UsageError(f"{source}: sasl.mechanism: kproxy doctor can log in by {', '.join(MECHANISMS)} only")
    jaas = {name: quoted or plain for name, quoted, plain in _JAAS_OPTION.findall(found.get("sasl.jaas.config", ""))}
    user = _unescape(jaas.get("username", "")) or found.get("sasl.username", "")
    password = _unescape(jaas.get("password", "")) or found.get("sasl.password", "")
    if not user or not password:
        words = "sasl.jaas.config has to have username and password (or write sasl.username and sasl.password)"
        raise UsageError(f"{source}: {words}")
    return Login(mechanism, user, password)


def _properties(text: str) -> Iterator[tuple[str, str]]:
    """Name and value of each line, as java.util.Properties.load reads them."""
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t]*", r"\1", text)  # a line that ends with a backslash goes on
    for line in joined.splitlines():
        words = line.strip()
        if words and words[0] not in "#!" and (pair := _PAIR.match(words)):
            yield _unescape(pair[1]), _unescape(pair[2])


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda one: chr(int(one[1], 16)) if one[1] else _CONTROLS.get(one[2], one[2]), text)


async def log_in(asking: Asking, versions: dict[int, int], login: Login) -> None:
    """Log in on a new connection. *versions*: the newest of each API that the broker has.

    Raises LoginRefused; and EOFError, OSError or DecodeError where no answer comes.
    """
    if versions.get(ApiKey.SASL_HANDSHAKE, 0) < 1 or ApiKey.SASL_AUTHENTICATE not in versions:
        raise LoginRefused("brokers before Kafka 1.0 take logins in another way, which kproxy doctor does not know", "")
    shaken = await asking.ask(ApiKey.SASL_HANDSHAKE, 1, json.dumps({"mechanism": login.mechanism}))
    if shaken.error_code:
        offered = ", ".join(shaken.mechanisms) or "none"
        advice = f"set sasl.mechanism to one that is offered: {offered}"
        raise LoginRefused(f"{login.mechanism} is not offered by the broker", advice)
    if login.mechanism == "PLAIN":
        await _authenticate(asking, versions, f"\0{login.user}\0{login.password}".encode())
        return
    scram = Scram(login)
    challenge = await _authenticate(asking, versions, scram.first())
    scram.check(await _authenticate(asking, versions, scram.proof(challenge)))


async def _authenticate(asking: Asking, versions: dict[int, int], sent: bytes) -> bytes:
    body = json.dumps({"authBytes": base64.b64encode(sent).decode("ascii")})
    response: Any = await asking.ask(ApiKey.SASL_AUTHENTICATE, min(versions[ApiKey.SASL_AUTHENTICATE], 1), body)
    if response.error_code:
        reason = response.error_message or error_name(response.error_code)
        raise LoginRefused(f"the broker refuses it: {reason}", "correct the user, the password or the mechanism")
    return bytes(response.auth_bytes)


class Scram:
    """One exchange of SCRAM (RFC 5802) without channel binding: `first`, then `proof`, then `check`."""

    def __init__(self, login: Login, nonce: str | None = None) -> None:
        self._login = login
        self._hash = HASHES[login.mechanism]
        self._nonce = nonce or secrets.token_urlsafe(24)
        user = login.user.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={user},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """The client's first message."""
        return f"n,,{self._first}".encode()

    def proof(self, challenge: bytes) -> bytes:
        """The client's final message. Raises LoginRefused if *challenge* is no answer to `first`."""
        told = dict(part.split("=", 1) for part in challenge.decode("utf-8", "replace").split(",") if "=" in part)
        try:
            nonce, salt, iterations = told["r"], base64.b64decode(told["s"], validate=True), int(told["i"])
        except (KeyError, ValueError):
            _wrong_answer()
        if not nonce.startswith(self._nonce) or not 0 < iterations <= MOST_ITERATIONS:
            _wrong_answer()
        salted = hashlib.pbkdf2_hmac(self._hash, self._login.password.encode(), salt, iterations)
        key = self._hmac(salted, b"Client Key")
        bare = f"c=biws,r={nonce}"
        signed = ",".join((self._first, challenge.decode("utf-8", "replace"), bare)).encode()
        signature = self._hmac(hashlib.new(self._hash, key).digest(), signed)
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{bare},p={base64.b64encode(proof).decode('ascii')}".encode()

    def check(self, final: bytes) -> None:
        """Check that the broker knows the password too. Raises LoginRefused."""
        expected = b"v=" + base64.b64encode(self._signature)
        if not hmac.compare_digest(final.split(b",")[0], expected):
            raise LoginRefused("the broker does not prove that it knows the password", "is this the right cluster?")

    def _hmac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self._hash)


def _wrong_answer() -> NoReturn:
    raise LoginRefused("the broker's challenge is not of SCRAM (RFC 5802)", "look at it with kproxy decode")
