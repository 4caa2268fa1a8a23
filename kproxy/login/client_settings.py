"""How to connect to a cluster, from a file of settings as Kafka's tools take it with --command-config.

    security.protocol     PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
    sasl.mechanism        PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI; or sasl.mechanisms, as librdkafka has it
    sasl.jaas.config      username and password are read of it; or sasl.username and sasl.password, as librdkafka has them;
                          of GSSAPI, keyTab and principal; or sasl.kerberos.keytab and sasl.kerberos.principal
    sasl.kerberos.service.name   or serviceName of sasl.jaas.config
    ssl.truststore.location   with ssl.truststore.type=PEM; or ssl.ca.location

``${env:NAME}`` in a value is the environment's (as KIP-887 has it in Kafka). Other settings say nothing of how to log in and are
passed over.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import javaproperties

from kproxy.errors import UsageError

PROTOCOLS = {  # security.protocol -> TLS, a login
    "PLAINTEXT": (False, False),
    "SSL": (True, False),
    "SASL_PLAINTEXT": (False, True),
    "SASL_SSL": (True, True),
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
T = TypeVar("T")
LARGEST = 1_000_000  # bytes of the file
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
ENVIRONMENT = re.compile(r"\$\{env:([^}]*)\}")
JAAS = re.compile(r"""([\w.-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who logs in, and how. The password is not in its repr.

    *password*: of OAUTHBEARER, the token; its *username* is empty, as the token names the user.
    *needs_tls*: security.protocol is SASL_SSL, so the credentials are never sent on a connection without TLS.
    *extensions*: of OAUTHBEARER (KIP-342).
    *keytab*, *service*: of GSSAPI: the file with the keys of *username*, a Kerberos principal; the service of the brokers.
    """

    mechanism: str
    username: str
    password: str = field(repr=False)
    needs_tls: bool = True
    extensions: tuple[tuple[str, str], ...] = ()
    keytab: str = ""
    service: str = ""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings in a client's properties file."""

    tls: bool = False
    ca: str | None = None
    credentials: Credentials | None = None


def read_settings(path: Path) -> ClientSettings:
    """Read a properties file. Raises UsageError that says what is wrong with it, without any of its values."""
    return _read(path, _settings)


def read_credentials(path: Path) -> Credentials:
    """Read only the login of a properties file, which must have one. Raises UsageError as `read_settings` does."""
    return _read(path, _login)


def _read(path: Path, reading: Callable[[dict[str, str]], T]) -> T:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UsageError(f"more than {LARGEST:,} bytes, which are no settings of a client")
        given = javaproperties.loads(data.decode("utf-8"))
        return reading({name: _from_environment(name, value) for name, value in given.items()})
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: it is not UTF-8") from None
    except javaproperties.InvalidUEscapeError:
        raise UsageError(f"{path}: \\u is to be followed by four hexadecimal digits") from None
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _from_environment(name: str, value: str) -> str:
    def look_up(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise UsageError(f"{name} names the environment variable {match[1]}, which is not set")
        return os.environ[match[1]]

    return ENVIRONMENT.sub(look_up, value)


def _settings(given: dict[str, str]) -> ClientSettings:
    tls, sasl = PROTOCOLS[_protocol(given)]
    return ClientSettings(tls, _authorities(given) if tls else None, _credentials(given, tls) if sasl else None)


def _login(given: dict[str, str]) -> Credentials:
    tls, sasl = PROTOCOLS[_protocol(given)]
    if not sasl:
        problem = "has no login" if "security.protocol" in given else "is not set"
        raise UsageError(f"security.protocol {problem}: write SASL_SSL or SASL_PLAINTEXT")
    return _credentials(given, tls)


def _protocol(given: dict[str, str]) -> str:
    sasl = next((name for name in given if name.startswith("sasl.")), None)
    if sasl and "security.protocol" not in given:
        raise UsageError(f"{sasl} is set, security.protocol is not: write SASL_SSL or SASL_PLAINTEXT")
    protocol = given.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise UsageError(f"security.protocol is one of {', '.join(PROTOCOLS)}")
    return protocol


def _authorities(given: dict[str, str]) -> str | None:
    if "ssl.keystore.location" in given:
        raise UsageError("ssl.keystore.location: give the certificate with --tls-certificate and --tls-key")
    store = given.get("ssl.truststore.location")
    if store is not None and given.get("ssl.truststore.type", "JKS").strip().upper() != "PEM":
        raise UsageError("ssl.truststore.location: only PEM can be read; give the authorities with --tls-ca")
    return store if store is not None else given.get("ssl.ca.location")


def _credentials(given: dict[str, str], needs_tls: bool) -> Credentials:
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", "")).strip()
    if mechanism not in MECHANISMS:
        found = f"is {mechanism[:40]!r}" if mechanism else "is missing (Kafka's default is GSSAPI)"
        raise UsageError(f"sasl.mechanism {found}; kproxy can log in with {', '.join(MECHANISMS)}")
    jaas = {found[1]: _option(found) for found in JAAS.finditer(given.get("sasl.jaas.config", ""))}
    if mechanism == "GSSAPI":
        return _tickets(given, jaas, needs_tls)
    username = jaas.get("username", given.get("sasl.username"))
    password = jaas.get("password", given.get("sasl.password"))
    if not username or password is None:
        missing = "username" if not username else "password"
        raise UsageError(f"no {missing}: sasl.jaas.config names none, nor does sasl.{missing}")
    for name, value in (("username", username), ("password", password)):
        if not _is_utf8(value):
            raise UsageError(f"the {name} is not UTF-8, in which it is sent")
    if jaas.get("tokenauth") == "true":
        raise UsageError("sasl.jaas.config has tokenauth: kproxy cannot log in with delegation tokens")
    return Credentials(mechanism, username, password, needs_tls)


def _tickets(given: dict[str, str], jaas: dict[str, str], needs_tls: bool) -> Credentials:
    keytab = jaas.get("keyTab", given.get("sasl.kerberos.keytab"))
    principal = jaas.get("principal", given.get("sasl.kerberos.principal"))
    if not keytab or not principal:
        missing = "principal" if keytab else "keytab"
        raise UsageError(
            f"no {missing}: sasl.jaas.config names none (keyTab, principal), nor does sasl.kerberos.{missing}"
        )
    service = given.get("sasl.kerberos.service.name", jaas.get("serviceName", "kafka"))
    return Credentials("GSSAPI", principal, "", needs_tls, keytab=keytab, service=service)


def _is_utf8(text: str) -> bool:
    """Return whether a text can be sent as UTF-8: an environment variable with other bytes, or an escape, gives surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _option(found: re.Match[str]) -> str:
    quoted = found[2] if found[2] is not None else found[3]
    # java.io.StreamTokenizer, which JAAS reads with
    return found[4] if quoted is None else ESCAPE.sub(lambda one: CONTROLS.get(one[1], one[1]), quoted)
