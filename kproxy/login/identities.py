"""Identities: as whom kproxy logs in to the brokers of a virtual cluster, for each of its clients."""

from collections.abc import Callable

from kproxy.config import PRINCIPAL, Login
from kproxy.errors import LoginRefused
from kproxy.login.client_settings import Credentials
from kproxy.login.secrets import read_secret
from kproxy.login.tokens import Endpoint, Msk, Tokens
from kproxy.output.escaping import printable

NOT_IN_A_PATH = frozenset("/\\\0")
LONGEST_NAME = 200


class Identities:
    """As whom kproxy logs in.

    Args:
        login: of the virtual cluster.
        clock: seconds of the epoch.

    Raises LoginRefused if a library is missing.
    """

    def __init__(self, login: Login, clock: Callable[[], float]) -> None:
        self._login = login
        self._tokens: Tokens | None = None
        if login.token is not None:
            self._tokens = Tokens(Endpoint(login.token, clock), clock)
        elif login.mechanism == "AWS_MSK_IAM":
            self._tokens = Tokens(Msk(login.region or ""), clock)

    @property
    def has_own(self) -> bool:
        """Whether kproxy can log in without a client, for its own requests."""
        login = self._login
        texts = (login.username or "", login.password or "")
        return not any(PRINCIPAL in text for text in texts) and (self._tokens is not None or login.password is not None)

    def known(self, principal: str | None) -> Credentials | None:
        """Return what to log in with for a client; None: a token must be fetched first. Raises LoginRefused."""
        if self._tokens is None:
            return self._by_password(principal)
        token = self._tokens.known()
        return None if token is None else self._bearer(token)

    def fetch(self) -> Credentials:
        """Fetch a token; return what to log in with. Blocks. Raises LoginRefused."""
        assert self._tokens is not None
        return self._bearer(self._tokens.fetch())

    def _by_password(self, principal: str | None) -> Credentials:
        login = self._login
        one = login.principals.get(principal or "")
        username, password = (login.username, login.password) if one is None else (one.username, one.password)
        if login.mechanism == "OAUTHBEARER":
            username = ""
        if username is None or password is None:
            shown = "a client without a name" if principal is None else printable(principal, LONGEST_NAME)
            raise LoginRefused(f"login.principals has nothing for {shown}", "add it, or username and password for all")
        username, password = (_filled(text, principal) for text in (username, password))
        if login.mechanism == "GSSAPI":
            keytab = password.partition(":")[2]
            return Credentials("GSSAPI", username, "", keytab=keytab, service=login.service or "kafka")
        secret = read_secret(password)
        return (
            self._bearer(secret) if login.mechanism == "OAUTHBEARER" else Credentials(login.mechanism, username, secret)
        )

    def _bearer(self, token: str) -> Credentials:
        return Credentials("OAUTHBEARER", "", token, extensions=tuple(self._login.extensions.items()))


def _filled(text: str, principal: str | None) -> str:
    """Put the client's name into a user name or the path of a password. Raises LoginRefused if it could leave that path."""
    if PRINCIPAL not in text:
        return text
    if not principal:
        raise LoginRefused(f"{PRINCIPAL} is of no use: the client has no name", "set authentication or client_auth")
    if NOT_IN_A_PATH & set(principal) or principal.startswith(".") or len(principal) > LONGEST_NAME:
        raise LoginRefused(
            f"{printable(principal, LONGEST_NAME)} cannot be put into {text}", "list it in login.principals"
        )
    return text.replace(PRINCIPAL, principal)
