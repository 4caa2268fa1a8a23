"""Secrets by reference: "file:PATH" or "env:NAME". No text made here holds a secret."""

import os
import re
from typing import TYPE_CHECKING

from kproxy.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

REFERENCE = r"^(file|env):[^\0]+$"
VAULT_REFERENCE = r"^vault:[^\0#]+#[^\0#]+$"  # path and field; only kproxy.login reads them
LONGEST = 131_072  # bytes of a secret: tokens are the longest


class SecretUnreadable(UsageError):
    """A secret cannot be read; the text says which reference, and ``advice`` what to do."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(f"{what}: {advice}")
        self.what = what
        self.advice = advice


def is_reference(text: str) -> bool:
    """Return whether a text says where a secret is; if not, it may be the secret itself."""
    return re.fullmatch(REFERENCE, text) is not None


def read_secret(reference: str) -> str:
    """Return the secret, read now: a file that was replaced, as Kubernetes does, counts at once. Raises SecretUnreadable."""
    kind, _, name = reference.partition(":")
    secret = os.environ.get(name, "") if kind == "env" else _from_file(name)
    if not secret:
        raise SecretUnreadable(f"{reference} is empty", "write the secret there")
    return secret


def _from_file(name: str) -> str:
    try:
        from pathlib import Path  # noqa: PLC0415 - a worker does without

        return read_bytes(Path(name)).decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise SecretUnreadable(f"{name} is not UTF-8", "write the secret as UTF-8") from None


def read_bytes(path: "Path", longest: int = LONGEST) -> bytes:
    """Return the content of a file with a secret. Raises SecretUnreadable."""
    try:
        with path.open("rb") as file:
            data = file.read(longest + 1)
    except OSError as error:
        raise SecretUnreadable(f"{path} cannot be read: {error.strerror}", "let kproxy read it") from None
    if len(data) > longest:
        raise SecretUnreadable(f"{path} has more than {longest:,} bytes", "is it the right file?")
    return data
