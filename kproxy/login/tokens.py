"""Access tokens for OAUTHBEARER: of an OAuth 2.0 token endpoint, and of AWS for MSK. Fetching blocks: call it in a thread.

A token is used until 80 % of its lifetime are over, or a broker refuses it. Then another one is fetched; while that fails, the
old one serves to its end.
No text made here holds a token or a secret; of an endpoint's answer only the error code of RFC 6749 is shown.
"""

import importlib
import json
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from kproxy.config.structs import TokenEndpoint
from kproxy.errors import LoginRefused
from kproxy.output.escaping import printable

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # RFC 8693
JWT = "urn:ietf:params:oauth:token-type:jwt"
SHARE_USED = 0.8  # of a token's lifetime
RETRY_S = 1.0  # after a fetch that failed, while the old token serves
TIMEOUT_S = 5.0
MOST_ANSWER = 262_144  # bytes
ASSUMED_S = 300.0  # lifetime of a token that does not say when it ends


class Token(NamedTuple):
    """An access token, and when it ends: seconds of the epoch."""

    text: str
    ends_at: float


class Source(Protocol):
    """Where tokens come from."""

    def fetch(self) -> Token:
        """Return a new token. Raises LoginRefused."""


class Tokens:
    """The current token of a source.

    Args:
        source: where it comes from.
        clock: seconds of the epoch.
    """

    def __init__(self, source: Source, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._token = Token("", 0.0)
        self._fetched_at = self._fetch_at = 0.0

    def known(self) -> str | None:
        """Return the token if no other needs to be fetched."""
        return self._token.text if self._clock() < self._fetch_at else None

    def fetch(self) -> str:
        """Fetch a token, or return the old one where that fails and it has not ended. Blocks. Raises LoginRefused."""
        try:
            self._token = self._source.fetch()
        except LoginRefused:
            now = self._clock()
            if now + RETRY_S >= self._token.ends_at:
                raise
            self._fetch_at = now + RETRY_S
            return self._token.text
        self._fetched_at = now = self._clock()
        self._fetch_at = now + (self._token.ends_at - now) * SHARE_USED
        return self._token.text

    def doubt(self) -> None:
        """Note that a login was refused: the provider's key may be another by now. Then a new token is fetched, at a pace."""
        self._fetch_at = min(self._fetch_at, max(self._clock(), self._fetched_at + RETRY_S))


class Endpoint:
    """A token endpoint: client credentials (RFC 6749, 4.4), or the exchange of another token (RFC 8693).

    Args:
        read_secret: returns a secret by its reference. Raises LoginRefused.
        clock: seconds of the epoch.
    """

    def __init__(self, settings: TokenEndpoint, read_secret: Callable[[str], str], clock: Callable[[], float]) -> None:
        self._settings = settings
        self._read_secret = read_secret
        self._clock = clock
        self._urllib3 = _library("urllib3", "identities")
        timeout = self._urllib3.Timeout(connect=TIMEOUT_S, read=TIMEOUT_S)
        self._pool = self._urllib3.PoolManager(num_pools=1, retries=False, timeout=timeout, ca_certs=settings.ca)

    def fetch(self) -> Token:
        """Ask for a token. Raises LoginRefused."""
        url = self._settings.url
        try:
            answer = self._pool.request(
                "POST",
                url,
                body=urlencode(self._form()),
                headers={"Content-Type": "application/x-www-form-urlencoded", **self._authorization()},
                preload_content=False,
                redirect=False,
            )
            try:
                data = answer.read(MOST_ANSWER)
            finally:
                answer.close()
        except (self._urllib3.exceptions.HTTPError, OSError) as error:
            reason = type(getattr(error, "reason", error)).__name__
            raise LoginRefused(f"no token: {url} does not answer ({reason})", "is the identity provider up?") from None
        return self._read(answer.status, data)

    def _form(self) -> dict[str, str]:
        settings = self._settings
        form = {"grant_type": "client_credentials"}
        if settings.subject_token is not None:
            form = {
                "grant_type": EXCHANGE,
                "subject_token": self._read_secret(settings.subject_token),
                "subject_token_type": settings.subject_token_type or JWT,
            }
        optional = {"scope": settings.scope, "audience": settings.audience}
        if settings.client_secret is None and settings.client_id is not None:
            optional["client_id"] = settings.client_id
        return form | {name: value for name, value in optional.items() if value is not None}

    def _authorization(self) -> dict[str, str]:
        settings = self._settings
        if settings.client_secret is None:
            return {}
        # each part encoded as a form before it is joined (RFC 6749, 2.3.1)
        both = f"{quote(settings.client_id or '', '')}:{quote(self._read_secret(settings.client_secret), '')}"
        headers: dict[str, str] = self._urllib3.make_headers(basic_auth=both)
        return headers

    def _read(self, status: int, data: bytes) -> Token:
        url = self._settings.url
        try:
            answer = json.loads(data)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise LoginRefused(f"no token: {url} answers {status}, without JSON", "is it the token endpoint?")
        token = answer.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            code = answer.get("error")
            why = f": {printable(code, 60)}" if isinstance(code, str) else ""
            raise LoginRefused(f"no token: {url} answers {status}{why}", "correct client_id, client_secret or scope")
        lifetime = answer.get("expires_in")
        if isinstance(lifetime, int | float) and 0 < lifetime < 1e9:
            return Token(token, self._clock() + lifetime)
        return Token(token, end_of(token) or self._clock() + ASSUMED_S)


class Msk:
    """Tokens of AWS's signer for MSK with IAM: a presigned URL, made without a request to MSK."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._signer = _library("aws_msk_iam_sasl_signer.MSKAuthTokenProvider", "aws")

    def fetch(self) -> Token:
        """Sign with the credentials that AWS's libraries find: environment, files, the role of the machine."""
        try:
            text, ends_at_ms = self._signer.generate_auth_token(self._region)
        except Exception as error:  # botocore has many
            raise LoginRefused(
                f"no token of AWS: {type(error).__name__}", "give kproxy credentials of AWS (AWS_PROFILE, a role)"
            ) from None
        return Token(text, ends_at_ms / 1_000)


def end_of(token: str) -> float | None:
    """Return when a JWT ends (its claim exp, RFC 7519); None if it does not say so. Nothing of it is verified."""
    try:
        payload = token.split(".")[1]
        ends_at = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"]
        return float(ends_at)
    except (IndexError, KeyError, ValueError, TypeError, OverflowError):
        return None


def _library(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise LoginRefused(f"{name} is not installed", f'pip install "kproxy-kafka[{extra}]"') from None
