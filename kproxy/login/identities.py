"""Identities: as whom kproxy logs in to the brokers of a virtual cluster."""

from kproxy.config import Login
from kproxy.login.client_settings import Credentials
from kproxy.login.secrets import read_secret


class Identities:
    """As whom kproxy logs in.

    Args:
        login: of the virtual cluster.
    """

    def __init__(self, login: Login) -> None:
        self._login = login

    def credentials(self) -> Credentials:
        """Return what to log in with, its secrets read now. Raises LoginRefused."""
        login = self._login
        return Credentials(login.mechanism, login.username, read_secret(login.password))
