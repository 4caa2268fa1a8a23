"""How to connect to a cluster, from a file of settings as Kafka's tools take it with --command-config.

    security.protocol     PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
    sasl.mechanism        PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; or sasl.mechanisms, as librdkafka has it
    sasl.jaas.config      username and password are read of it; or sasl.username and sasl.password, as librdkafka has them
    ssl.truststore.location   with ssl.truststore.type=PEM; or ssl.ca.location

``${env:NAME}`` in a value is the environment's (as KIP-887 has it in Kafka). Other settings say nothing of how to log in and are
passed over. Files are Java properties: comments, ``=`` or ``:`` behind the name, lines that go on behind a backslash.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from kproxy.errors import UsageError

PROTOCOLS = {  # security.protocol -> TLS, a login
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LARGEST = 1_000_000  # bytes of the file
PAIR = re.compile(r"((?:\\.|[^\\=:\s])+)\s*[=:]?\s*(.*)", re.DOTALL)
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
ENVIRONMENT = re.compile(r"\$\{env:([^}]*)\}")
JAAS = re.compile(r"""([\w.-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who logs in, and how. The password is in no text made of it."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """What a file says."""

    tls: bool = False
    ca: str | None = None
    credentials: Credentials | None = None


def read_settings(path: Path) -> ClientSettings:
    """Read a file. Raises UsageError, which says what is wrong with it, and never a value of it."""
    try:
        data = path.read_bytes()[: LARGEST + 1]
        if len(data) > LARGEST:
            raise UsageError(f"{path}: more than {LARGEST:,} bytes, which are no settings of a client")
        given = properties(data.decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: it is not UTF-8") from None
    try:
        return _settings({name: _from_environment(name, value) for name, value in given.items()})
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def properties(text: str) -> dict[str, str]:
    """The pairs of a Java properties file (java.util.Properties.load), the last of each name."""
    found = {}
    lines = iter(text.splitlines())
    for line in lines:
        whole = line.lstrip(" \t\f")
        if not whole or whole[0] in "#!":
            continue
        while (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1] + next(lines, "").lstrip(" \t\f")
        if pair := PAIR.fullmatch(whole):
            found[_unescaped(pair[1])] = _unescaped(pair[2])
    return found


def _unescaped(text: str) -> str:
    return ESCAPE.sub(lambda one: chr(int(one[1][1:], 16)) if len(one[1]) > 1 else CONTROLS.get(one[1], one[1]), text)


def _from_environment(name: str, value: str) -> str:
    def look_up(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise UsageError(f"{name} names the environment variable {found[1]}, which is not set")
        return os.environ[found[1]]

    return ENVIRONMENT.sub(look_up, value)


def _settings(given: dict[str, str]) -> ClientSettings:
    protocol = given.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise UsageError(f"security.protocol is one of {', '.join(PROTOCOLS)}")
    tls, sasl = PROTOCOLS[protocol]
    return ClientSettings(tls, _authorities(given) if tls else None, _credentials(given) if sasl else None)


def _authorities(given: dict[str, str]) -> str | None:
    if "ssl.keystore.location" in given:
        raise UsageError("ssl.keystore.location: give the certificate with --tls-certificate and --tls-key")
    store = given.get("ssl.truststore.location")
    if store is not None and given.get("ssl.truststore.type", "JKS").strip().upper() != "PEM":
        raise UsageError("ssl.truststore.location: only PEM can be read; give the authorities with --tls-ca")
    return store if store is not None else given.get("ssl.ca.location")


def _credentials(given: dict[str, str]) -> Credentials:
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", "GSSAPI")).strip()  # GSSAPI: Kafka's default
    if mechanism not in MECHANISMS:
        raise UsageError(f"sasl.mechanism is {mechanism[:40]!r}; replay can log in with {', '.join(MECHANISMS)}")
    jaas = {found[1]: _option(found) for found in JAAS.finditer(given.get("sasl.jaas.config", ""))}
    username = jaas.get("username", given.get("sasl.username"))
    password = jaas.get("password", given.get("sasl.password"))
    if not username or password is None:
        missing = "username" if not username else "password"
        raise UsageError(f"no {missing}: sasl.jaas.config names none, nor does sasl.{missing}")
    if jaas.get("tokenauth") == "true":
        raise UsageError("sasl.jaas.config has tokenauth: replay cannot log in with delegation tokens")
    return Credentials(mechanism, username, password)


def _option(found: re.Match[str]) -> str:
    quoted = found[2] if found[2] is not None else found[3]
    return found[4] if quoted is None else _unescaped(quoted)
