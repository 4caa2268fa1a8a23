"""Secrets by reference: "file:PATH" or "env:NAME". No text made here holds a secret."""

import os
from pathlib import Path

from kproxy.errors import LoginRefused

LONGEST = 131_072  # bytes of a secret: tokens are the longest


def read_secret(reference: str) -> str:
    """Return the secret, read now: a file that was replaced, as Kubernetes does, counts at once. Raises LoginRefused."""
    kind, _, name = reference.partition(":")
    secret = os.environ.get(name, "") if kind == "env" else _from_file(name)
    if not secret:
        raise LoginRefused(f"{reference} is empty", "write the secret there")
    return secret


def _from_file(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            data = file.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise LoginRefused(f"{name} has more than {LONGEST:,} bytes", "is it the right file?")
        return data.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise LoginRefused(f"{name} cannot be read: {error.strerror}", "let kproxy read it") from None
    except UnicodeDecodeError:
        raise LoginRefused(f"{name} is not UTF-8", "write the secret as UTF-8") from None
