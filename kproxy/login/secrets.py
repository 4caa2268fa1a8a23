"""The secrets of logins, by reference (kproxy.secrets)."""

from kproxy import secrets
from kproxy.errors import LoginRefused


def read_secret(reference: str) -> str:
    """Return the secret, read now. Raises LoginRefused."""
    try:
        return secrets.read_secret(reference)
    except secrets.SecretUnreadable as error:
        raise LoginRefused(error.what, error.advice) from None
