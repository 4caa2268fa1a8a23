"""Identities: as whom kproxy logs in to the brokers of a virtual cluster, for each of its clients."""

from collections.abc import Callable
from typing import TypeAlias

from kproxy.config.structs import PRINCIPAL, Login
from kproxy.errors import LoginRefused
from kproxy.login.client_settings import Credentials
from kproxy.login.secrets import VAULT, Secrets
from kproxy.login.tokens import Endpoint, Msk, Tokens
from kproxy.output.escaping import printable

NOT_IN_A_PATH = frozenset("/\\\0")
NOT_IN_VAULT = frozenset("#?%*+")  # nor there: what ends or escapes a path of a URL, and wildcards of policies
LONGEST_NAME = 200
Read: TypeAlias = Callable[[str], str | None]  # a secret by its reference


class Identities:
    """As whom kproxy logs in.

    Args:
        login: of the virtual cluster.
        clock: seconds of the epoch.

    Raises LoginRefused if a library is missing.
    """

    def __init__(self, login: Login, clock: Callable[[], float]) -> None:
        self._login = login
        self._secrets = Secrets(login.vault, clock)
        self._tokens: Tokens | None = None
        if login.token is not None:
            self._tokens = Tokens(Endpoint(login.token, self._secrets.read, clock), clock)
        elif login.mechanism == "AWS_MSK_IAM":
            self._tokens = Tokens(Msk(login.region or ""), clock)

    @property
    def has_own(self) -> bool:
        """Whether kproxy can log in without a client, for its own requests."""
        login = self._login
        texts = (login.username or "", login.password or "")
        return not any(PRINCIPAL in text for text in texts) and (self._tokens is not None or login.password is not None)

    def known(self, principal: str | None) -> Credentials | None:
        """Return what to log in with for a client; None: it must be fetched first. Raises LoginRefused."""
        tokens = self._tokens
        return self._credentials(principal, self._secrets.known, None if tokens is None else tokens.known)

    def fetch(self, principal: str | None = None) -> Credentials:
        """Fetch a token, or a secret of Vault; return what to log in with. Blocks. Raises LoginRefused."""
        tokens = self._tokens
        credentials = self._credentials(principal, self._secrets.read, None if tokens is None else tokens.fetch)
        assert credentials is not None
        return credentials

    def note_refusal(self, principal: str | None) -> None:
        """Note that a login was refused: the secret or token that was used may be of no use any more."""
        if self._tokens is not None:
            self._tokens.doubt()
        else:
            self._secrets.doubt(self._named(principal)[1])

    def _credentials(
        self, principal: str | None, read: Read, token: Callable[[], str | None] | None
    ) -> Credentials | None:
        login = self._login
        if token is not None:
            return self._bearer(token())
        username, password = self._named(principal)
        if login.mechanism == "GSSAPI":
            keytab = password.partition(":")[2]
            return Credentials("GSSAPI", username, "", keytab=keytab, service=login.service or "kafka")
        secret = read(password)
        if secret is None or login.mechanism == "OAUTHBEARER":
            return self._bearer(secret)
        return Credentials(login.mechanism, username, secret)

    def _named(self, principal: str | None) -> tuple[str, str]:
        """Return the user name, and where the password is. Raises LoginRefused."""
        login = self._login
        one = login.principals.get(principal or "")
        username, password = (login.username, login.password) if one is None else (one.username, one.password)
        if login.mechanism == "OAUTHBEARER":
            username = ""
        if username is None or password is None:
            shown = "a client without a name" if principal is None else printable(principal, LONGEST_NAME)
            raise LoginRefused(f"login.principals has nothing for {shown}", "add it, or username and password for all")
        return _filled(username, principal), _filled(password, principal)

    def _bearer(self, token: str | None) -> Credentials | None:
        if token is None:
            return None
        return Credentials("OAUTHBEARER", "", token, extensions=tuple(self._login.extensions.items()))


def _filled(text: str, principal: str | None) -> str:
    """Put the client's name into a user name or the path of a password. Raises LoginRefused if it could leave that path."""
    if PRINCIPAL not in text:
        return text
    if not principal:
        raise LoginRefused(f"{PRINCIPAL} is of no use: the client has no name", "set authentication or client_auth")
    forbidden = NOT_IN_A_PATH | (NOT_IN_VAULT if text.startswith(VAULT) else frozenset())
    if forbidden & set(principal) or principal.startswith(".") or len(principal) > LONGEST_NAME:
        raise LoginRefused(
            f"{printable(principal, LONGEST_NAME)} cannot be put into {text}", "list it in login.principals"
        )
    return text.replace(PRINCIPAL, principal)
