"""Decode SASL tokens: the user name, the mechanism, the outcome; never the secret.

Passwords, nonces, salts, proofs, signatures and bearer tokens are never extracted from the bytes, so they cannot be shown.
PLAIN is RFC 4616, SCRAM RFC 5802, OAUTHBEARER RFC 7628; GSSAPI and all others are opaque.
"""

import json
from base64 import b64decode
from typing import Any

from kproxy.errors import DecodeError, Malformed
from kproxy.protocol.constants import TOKEN_LIMIT
from kproxy.protocol.secrets import WITHHELD, is_secret_setting

BY_FORM = ("OAUTHBEARER", "SCRAM-SHA-256", "PLAIN")  # mechanisms whose tokens can be recognised by their form
LONGEST_NAME = 1024  # characters shown of any part
ERROR_FIELDS = ("status", "scope", "openid-configuration")  # in the answer to a bearer token (RFC 7628 section 3.2.2)


def open_token(data: bytes, mechanism: str | None, *, from_client: bool, failed: bool = False) -> dict[str, Any]:
    """Return the non-secret parts of a token; for an opaque one only ``size``.

    Args:
        data: the token.
        mechanism: from SaslHandshake; None if that was not seen: then the token's form decides.
        from_client: which side sent it.
        failed: the broker sent it along with an error code.

    Raises DecodeError, without any bytes of the token, for a token that does not follow its mechanism.
    """
    if mechanism is None:
        return _open_unnamed(data, from_client, failed)
    if not data and not from_client:
        return {"success": not failed}
    read = (CLIENT_TOKENS if from_client else SERVER_TOKENS).get(mechanism)
    if read is None or len(data) > TOKEN_LIMIT:
        return {"size": len(data)}
    return read(data)


def _open_unnamed(data: bytes, from_client: bool, failed: bool) -> dict[str, Any]:
    for mechanism in BY_FORM:
        try:
            opened = open_token(data, mechanism, from_client=from_client, failed=failed)
        except DecodeError:
            continue
        if str(opened.get("username", "")).isprintable():  # binary tokens have NULs too
            return opened
    return {"size": len(data)}


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _bad(what, "is not UTF-8") from None


def _bad(what: str, why: str) -> Malformed:
    return Malformed(why, message=f"{what} token")


def _plain(data: bytes) -> dict[str, Any]:
    """authorization id, NUL, user name, NUL, password (PlainSaslServer.extractTokens requires exactly three)."""
    parts = _text(data, "PLAIN").split("\0")
    if len(parts) != 3:
        raise _bad("PLAIN", f"has {len(parts)} parts, not 3")
    return {"authorizationId": parts[0][:LONGEST_NAME], "username": parts[1][:LONGEST_NAME]}


def _scram_client(data: bytes) -> dict[str, Any]:
    text = _text(data, "SCRAM")
    if text.startswith("c="):
        attributes = _attributes(text)
        if not {"c", "r", "p"} <= attributes.keys():
            raise _bad("SCRAM", "has no proof")
        binding = _base64(attributes["c"]).decode(
            "utf-8", "replace"
        )  # begins with the GS2 header; its data is not shown
        return {"channelBinding": _split_gs2(binding, "SCRAM")[0]}
    header, bare = _split_gs2(text, "SCRAM")
    attributes = _attributes(bare)
    if not {"n", "r"} <= attributes.keys():
        raise _bad("SCRAM", "has no user name or no nonce")
    name = attributes.pop("n")
    del attributes["r"]
    return {
        "gs2Header": header,
        "authorizationId": _authorization_id(header),
        "username": name.replace("=2C", ",").replace("=3D", "=")[:LONGEST_NAME],
        "saslName": name[:LONGEST_NAME],
        "extensions": _extensions(attributes),
    }


def _scram_server(data: bytes) -> dict[str, Any]:
    attributes = _attributes(_text(data, "SCRAM"))
    if "e" in attributes:
        return {"error": attributes["e"][:LONGEST_NAME]}
    if {"r", "s", "i"} <= attributes.keys() and attributes["i"].isdecimal() and len(attributes["i"]) < 10:
        return {"iterations": int(attributes["i"])}
    if "v" in attributes:
        return {}
    raise _bad("SCRAM", "is neither a challenge nor an outcome")


def _bearer_client(data: bytes) -> dict[str, Any]:
    if data == b"\x01":
        return {"abort": True}  # the client's answer to a refusal
    header, rest = _split_gs2(_text(data, "OAUTHBEARER"), "OAUTHBEARER")
    pairs = [pair.partition("=") for pair in rest.split("\x01") if pair]
    if not rest.startswith("\x01") or not any(name.lower() == "auth" for name, _, _ in pairs):
        raise _bad("OAUTHBEARER", "carries no bearer token")
    others = {name: value for name, _, value in pairs if name.lower() != "auth"}
    return {"gs2Header": header, "authorizationId": _authorization_id(header), "extensions": _extensions(others)}


def _bearer_server(data: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(_text(data, "OAUTHBEARER"))
    except (ValueError, RecursionError):
        raise _bad("OAUTHBEARER", "is not JSON") from None
    if not isinstance(answer, dict):
        raise _bad("OAUTHBEARER", "is not a JSON object")
    return {name: answer[name][:LONGEST_NAME] for name in ERROR_FIELDS if isinstance(answer.get(name), str)}


def _split_gs2(text: str, what: str) -> tuple[str, str]:
    """Split a text into the GS2 header with its two commas, and the rest (RFC 5801 section 4)."""
    flag, first, rest = text.partition(",")
    authorization, second, rest = rest.partition(",")
    known = flag in ("n", "y") or flag.startswith("p=")
    if not (known and first and second and (not authorization or authorization.startswith("a="))):
        raise _bad(what, "does not begin with a GS2 header")
    return f"{flag},{authorization},"[:LONGEST_NAME], rest


def _authorization_id(header: str) -> str:
    return header.split(",")[1].removeprefix("a=")


def _attributes(text: str) -> dict[str, str]:
    """Parse ``a=value`` pairs with commas between them; the first pair with a name counts."""
    attributes: dict[str, str] = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if not equals:
            raise _bad("SCRAM", "has a part without =")
        attributes.setdefault(name, value)
    return attributes


def _extensions(values: dict[str, str]) -> dict[str, str]:
    """Return the extensions, which are public by their RFCs, but withhold those named like a secret."""
    return {
        name[:LONGEST_NAME]: WITHHELD if _is_secret(name) else value[:LONGEST_NAME] for name, value in values.items()
    }


def _is_secret(name: str) -> bool:
    # tokenauth says that the user name is that of a delegation token (KIP-48); its value is "true"
    return name != "tokenauth" and is_secret_setting(name.encode())


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise _bad("SCRAM", "has channel binding data that is not base64") from None


CLIENT_TOKENS = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram_client,
    "SCRAM-SHA-512": _scram_client,
    "OAUTHBEARER": _bearer_client,
}
SERVER_TOKENS = {"SCRAM-SHA-256": _scram_server, "SCRAM-SHA-512": _scram_server, "OAUTHBEARER": _bearer_server}
