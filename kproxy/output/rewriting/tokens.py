"""Blank the secrets in SASL tokens: SCRAM and PLAIN keep their form and the user's name, other tokens become zeros.

RFC 5802 (SCRAM), RFC 4616 (PLAIN).
"""

import re
from collections.abc import Callable

SCRAM = re.compile(rb"(?:[ny],[^,]*,n=|[rcve]=)[!-~]*")  # the beginnings of its four messages, and of an error
SECRET = re.compile(rb"(?<![^,])([rspv])=([^,]*)")  # nonce, salt, proof, signature
BASE64 = re.compile(rb"[^=]")
NAME = re.compile(rb"(?<![^,])([na])=([^,]+)")


def blank_token(token: bytes, user: Callable[[bytes], bytes]) -> bytes:
    """Return a token of the same size without its secrets; *user* returns a replacement of a user name with as many bytes."""
    if SCRAM.fullmatch(token):
        named = NAME.sub(lambda match: match[1] + b"=" + user(match[2]), token)
        return SECRET.sub(lambda match: match[1] + b"=" + BASE64.sub(b"x", match[2]), named)
    parts = token.split(b"\0")
    if len(parts) == 3 and parts[1] and parts[2]:
        authorized, name, password = parts
        return b"\0".join((user(authorized) if authorized else b"", user(name), b"x" * len(password)))
    return bytes(len(token))
