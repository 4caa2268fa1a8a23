"""Withhold secrets from messages that repeat parts of a configuration: passwords in addresses, keys in PEM, values of secrets."""

import re

WITHHELD = "(withheld)"
SOUNDS_SECRET = re.compile(r"pass|pwd|secret|token|credential|auth|jaas|cookie|header|salt|key", re.IGNORECASE)
_IN_URL = re.compile(r"(\w://).*@", re.DOTALL)  # "socks5://user:password@host"; a password may have an @ or a /
_IN_ADDRESS = re.compile(r".*:.*@", re.DOTALL)  # "user:password@host:9092", which is no address
_PEM = "-----BEGIN"


def without_secrets(text: str) -> str:
    """Return the text without user and password before a host, and nothing of it if it is PEM, which may be a private key."""
    if _PEM in text:
        return WITHHELD
    shown = without_user_info(text)
    return shown if shown != text else _IN_ADDRESS.sub(f"{WITHHELD}@", text)


def without_user_info(text: str) -> str:
    """Return the text without user and password if it is a URL that has them."""
    return _IN_URL.sub(rf"\1{WITHHELD}@", text)


def is_secret(name: str, text: str) -> bool:
    """Return whether *text* may be a secret: its *name* is that of one, or the text has such a name in it ("password:x")."""
    return SOUNDS_SECRET.search(name) is not None or SOUNDS_SECRET.search(text) is not None
