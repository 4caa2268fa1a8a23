"""The key service "vault": the transit engine of Vault or OpenBao, asked within bounds. VaultClient is for kproxy.login, too.

The token is read for each request, as Vault Agent may have replaced it. It is sent only to the host of the URL: no redirect is
followed, no proxy and no .netrc of the environment is used. An answer has MOST_ANSWER bytes at most. No text of an answer is
shown, as it may have a secret in it.

Sources: https://developer.hashicorp.com/vault/api-docs/secret/transit; builtin/logical/transit of Vault has the
texts of errors.
"""

import binascii
import json
import os
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from msgspec import Meta

from kproxy.encryption.services.contract import (
    DataKey,
    KeyDestroyed,
    KeyFacts,
    KeyRefused,
    KeyServiceAway,
    KeyServiceError,
    check_before,
    check_is_new,
)
from kproxy.encryption.services.deadline import answered_within, limit
from kproxy.encryption.services.loading import require
from kproxy.options import OptionMistakes, Options, Problem, Seconds, text, without_secrets
from kproxy.secrets import SecretUnreadable, is_reference, read_secret

MOST_ANSWER = 1 << 20  # bytes
KEY_NAME = re.compile(r"\w(?:[\w.-]{0,198}\w)?", re.ASCII)  # as Vault has it
CIPHERTEXT = re.compile(rb"vault:v[1-9][0-9]{0,8}:[A-Za-z0-9+/]{1,3000}={0,2}")
PATH = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*", re.ASCII)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
BAD_REQUEST, UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 400, 401, 403, 404
AWAY = frozenset((412, 429, 472, 473))  # not yet replicated, a quota, standby; and all from 500 on
NO_KEY = ("encryption key not found", "key not found", "no existing key named")
TOO_OLD = ("disallowed by policy (too old)", "min available version", "no longer available")


class VaultServer(Options, frozen=True):
    """Where Vault or OpenBao is, and how it is asked."""

    files: ClassVar = ("ca", "certificate", "key")
    url: Annotated[str, text("https://HOST:PORT of Vault or OpenBao; http:// only on this host, or with without_tls.")]
    token: Annotated[
        str, text('Where its token is: "file:PATH", read for each request, or "env:NAME". Never the token itself.')
    ] = "env:VAULT_TOKEN"
    namespace: Annotated[str | None, text("The namespace, of Vault Enterprise and OpenBao.")] = None
    ca: Annotated[str | None, text("File with the CAs that sign its certificate, PEM; null: those of certifi.")] = None
    certificate: Annotated[str | None, text("File with the certificate that it is shown, PEM; needs key.")] = None
    key: Annotated[str | None, text("File with the private key of the certificate, without a password.")] = None
    without_tls: Annotated[bool, text("Send the token and get keys over a network without TLS.")] = False
    timeout: Annotated[Seconds, text("To connect, and for a whole answer.")] = 3.0

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
            problems.append(("url", "it is no address of Vault: write https://HOST:PORT"))
        elif parts.username is not None or parts.password is not None:
            problems.append(("url", "it has a user or a password in it: Vault takes a token"))
        elif parts.scheme == "http" and not self.without_tls and host not in LOOPBACK:
            problems.append(("url", "the token would be sent without TLS: write https://, or without_tls: true"))
        if not is_reference(self.token):
            problems.append(("token", 'it says where the token is: write "file:PATH" or "env:NAME"'))
        if (self.certificate is None) != (self.key is None):
            problems.append(("certificate", "certificate and key belong together: write both"))
        problems += [
            (name, f"{without_secrets(file)} cannot be read")
            for name in ("ca", "certificate", "key")
            if (file := getattr(self, name)) is not None and not os.access(file, os.R_OK)
        ]
        if problems:
            raise OptionMistakes(problems)


class VaultOptions(VaultServer, frozen=True):
    """Vault's or OpenBao's transit engine."""

    mount: Annotated[str, Meta(pattern=f"^{PATH.pattern}$"), text("Where the transit engine is mounted.")] = "transit"


class Answered(Exception):
    """Vault answered with an error.

    Attributes:
        status: of HTTP.
        errors: its texts, in one; they may have secrets in them. None: it is no answer of Vault.
    """

    def __init__(self, status: int, errors: str | None) -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status
        self.errors = errors


class VaultClient:
    """Asks Vault through hvac, which knows the paths and the parameters. Raises UsageError if it is not installed."""

    def __init__(self, options: VaultServer) -> None:
        hvac, requests = require("hvac", "vault"), require("requests", "vault")
        self.url = options.url.rstrip("/")
        self._options = options
        self._away: tuple[type[Exception], ...] = (requests.RequestException, OSError)
        session = requests.Session()
        session.trust_env = False
        for adapter in session.adapters.values():
            limit(adapter.poolmanager)
        session.verify = True if options.ca is None else options.ca
        if options.certificate is not None and options.key is not None:
            session.cert = (options.certificate, options.key)
        self._hvac = hvac.Client(
            self.url,
            token="",
            timeout=options.timeout,
            namespace=options.namespace,
            session=session,
            allow_redirects=False,
            adapter=_adapter_class(hvac, options.timeout),
        )

    def ask(self, question: Callable[[Any], Any]) -> dict[str, Any]:
        """Return ``data`` of the answer to a question, a call of hvac's client; {} for an answer without content.

        Raises KeyServiceAway, KeyRefused, KeyServiceError, and Answered for any other error that Vault answers.
        """
        try:
            self._hvac.token = self._token()
            answer = question(self._hvac)
        except SecretUnreadable as error:
            raise KeyRefused(f"no token for {self.url}: {error}") from None
        except Answered as error:
            raise self._known(error) from None
        except self._away as error:
            raise KeyServiceAway(f"{self.url} does not answer ({type(error).__name__})") from None
        except (ValueError, RecursionError, AttributeError, TypeError):
            raise self.not_vaults() from None
        data = answer.get("data", {}) if isinstance(answer, dict) else None
        if not isinstance(data, dict):
            raise self.not_vaults()
        return data

    def not_vaults(self) -> KeyServiceAway:
        """Return the error for an answer of something else, such as a load balancer."""
        return KeyServiceAway(f"{self.url} answers what is not Vault's: is it the right URL?")

    def _token(self) -> str:
        token = read_secret(self._options.token).strip()
        if not token.isascii() or not token.isprintable():
            raise SecretUnreadable(f"{self._options.token} is no token of Vault", "write the token as the only line")
        return token

    def close(self) -> None:
        """Close its connections."""
        self._hvac.adapter.close()

    def _known(self, error: Answered) -> Exception:
        if error.status in AWAY or error.status >= 500:
            return KeyServiceAway(f"{self.url} answers {error.status}: it is sealed, overloaded or failing")
        if 300 <= error.status < 400:
            return KeyServiceAway(f"{self.url} answers {error.status}, a redirect, which is not followed")
        if error.errors is None:  # such as a load balancer's: it says nothing of tokens and keys
            return self.not_vaults()
        if error.status in (UNAUTHORIZED, FORBIDDEN):
            return KeyRefused(f"{self.url} refuses the token, or the token has no right to this")
        return error


def _adapter_class(hvac: Any, timeout: float) -> type[Any]:
    """Return a class that makes hvac's requests: within bounds, and without redirects."""

    class Adapter(hvac.adapters.JSONAdapter):  # type: ignore[misc]  # it has no types
        def request(
            self,
            method: str,
            url: str,
            headers: dict[str, str] | None = None,
            raise_exception: bool = True,
            **kwargs: Any,
        ) -> Any:
            sent = {"X-Vault-Request": "true", "X-Vault-Token": self.token, **(headers or {})}
            if self.namespace:
                sent["X-Vault-Namespace"] = self.namespace
            with answered_within(timeout):
                answer = self.session.request(
                    method,
                    self.urljoin(self.base_uri, url),
                    headers=sent,
                    allow_redirects=False,
                    stream=True,
                    **{**self._kwargs, **kwargs},
                )
                with answer:
                    data = _bounded(answer)
            if answer.status_code not in (200, 204):
                raise Answered(answer.status_code, _errors(data))
            return json.loads(data) if data else {}

    return Adapter


def _errors(data: bytes) -> str | None:
    """Return the texts of an answer with an error; None if it is none of Vault. A deleted secret has no errors."""
    try:
        answer = json.loads(data)
        errors = answer.get("errors", [] if "request_id" in answer else None)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None
    return "\n".join(map(str, errors)) if isinstance(errors, list) else None


def _bounded(answer: Any) -> bytes:
    data = bytearray()
    for chunk in answer.iter_content(1 << 16):
        data += chunk
        if len(data) > MOST_ANSWER:
            raise ValueError(f"an answer of more than {MOST_ANSWER:,} bytes")
    return bytes(data)


class VaultTransit:
    """The key service "vault": keys of the transit engine wrap data keys."""

    Options = VaultOptions

    def __init__(self, options: VaultOptions) -> None:
        self._client = VaultClient(options)
        self._mount = options.mount

    def new_data_key(self, key_name: str) -> DataKey:
        data = self._ask(
            key_name,
            lambda transit: transit.generate_data_key(
                key_name, key_type="plaintext", bits=256, mount_point=self._mount
            ),
        )
        return DataKey(self._plain(data), self._wrapped(data))

    def unwrap(self, key_name: str, wrapped: bytes) -> bytes:
        ciphertext = self._ciphertext(wrapped)
        return self._plain(
            self._ask(key_name, lambda transit: transit.decrypt_data(key_name, ciphertext, mount_point=self._mount))
        )

    def close(self) -> None:
        self._client.close()

    def list_keys(self) -> list[KeyFacts]:
        try:
            names = self._client.ask(lambda vault: vault.secrets.transit.list_keys(mount_point=self._mount)).get("keys")
        except Answered as error:
            if error.status == NOT_FOUND:  # also of an engine without keys
                return []
            raise self._error("", error) from None
        if not isinstance(names, list):
            raise self._client.not_vaults()
        return [self.describe_key(str(name)) for name in sorted(names)]

    def describe_key(self, key_name: str) -> KeyFacts:
        data = self._ask(key_name, lambda transit: transit.read_key(key_name, mount_point=self._mount))
        try:
            latest = int(data["latest_version"])
            oldest = max(int(data["min_decryption_version"]), int(data.get("min_available_version", 0)), 1)
            rotated_at = int(data["keys"][str(latest)]) * 1_000
        except (KeyError, TypeError, ValueError):
            raise self._client.not_vaults() from None
        return KeyFacts(key_name, latest, oldest, rotated_at)

    def make(self, key_name: str, *, dry_run: bool = False) -> None:
        check_is_new(self, key_name)
        if not dry_run:
            self._ask(
                key_name,
                lambda transit: transit.create_key(key_name, key_type="aes256-gcm96", mount_point=self._mount),
            )

    def rotate(self, key_name: str, *, dry_run: bool = False) -> None:
        self.describe_key(key_name)
        if not dry_run:
            self._ask(key_name, lambda transit: transit.rotate_key(key_name, mount_point=self._mount))

    def destroy(self, key_name: str, before: int | None = None, *, dry_run: bool = False) -> None:
        """Delete a key, or its versions before *before*. Vault forgets it: a key of its name could be made again."""
        facts = self.describe_key(key_name)
        check_before(key_name, before, facts.versions)
        if dry_run:
            return
        if before is None:
            self._configure(key_name, deletion_allowed=True)
            self._ask(key_name, lambda transit: transit.delete_key(key_name, mount_point=self._mount))
        else:
            self._configure(key_name, min_decryption_version=before)
            self._configure(key_name, min_encryption_version=facts.versions)  # without it Vault does not trim
            self._ask(key_name, lambda transit: transit.trim_key(key_name, before, mount_point=self._mount))

    def rewrap(self, key_name: str, wrapped: bytes) -> bytes:
        ciphertext = self._ciphertext(wrapped)
        return self._wrapped(
            self._ask(key_name, lambda transit: transit.rewrap_data(key_name, ciphertext, mount_point=self._mount))
        )

    def _configure(self, key_name: str, **settings: Any) -> None:
        self._ask(
            key_name,
            lambda transit: transit.update_key_configuration(key_name, mount_point=self._mount, **settings),
        )

    def _ask(self, key_name: str, question: Callable[[Any], Any]) -> dict[str, Any]:
        if not KEY_NAME.fullmatch(key_name):
            raise KeyServiceError(f"{key_name!r} is no name of a key of Vault: these have letters, digits, _, . and -")
        try:
            return self._client.ask(lambda vault: question(vault.secrets.transit))
        except Answered as error:
            raise self._error(key_name, error) from None
        except KeyRefused as error:
            raise KeyRefused(f"the key {key_name}: {error}") from None

    def _error(self, key_name: str, error: Answered) -> KeyServiceError:
        where, errors = f"{self._client.url}, mount {self._mount}", error.errors or ""
        if any(words in errors for words in TOO_OLD):
            return KeyDestroyed(f"the version of the key {key_name} is destroyed, or too old for its policy ({where})")
        if any(words in errors for words in NO_KEY) or (error.status == NOT_FOUND and "no handler" not in errors):
            return KeyDestroyed(f"there is no key {key_name} ({where})")
        if error.status == NOT_FOUND:
            return KeyServiceAway(f"there is no transit engine ({where})")
        if error.status == BAD_REQUEST:
            return KeyServiceError(f"the key {key_name} has not wrapped this data key, or its type cannot ({where})")
        return KeyServiceAway(f"{where} answers {error.status}")

    def _ciphertext(self, wrapped: bytes) -> str:
        if not CIPHERTEXT.fullmatch(wrapped):
            raise KeyServiceError("this is no data key that Vault has wrapped")
        return wrapped.decode()

    def _plain(self, data: dict[str, Any]) -> bytes:
        try:
            return b64decode(data["plaintext"], validate=True)
        except (KeyError, TypeError, ValueError, binascii.Error):
            raise self._client.not_vaults() from None

    def _wrapped(self, data: dict[str, Any]) -> bytes:
        ciphertext = data.get("ciphertext")
        if not isinstance(ciphertext, str) or not CIPHERTEXT.fullmatch(ciphertext.encode("utf-8", "replace")):
            raise self._client.not_vaults()
        return ciphertext.encode()
