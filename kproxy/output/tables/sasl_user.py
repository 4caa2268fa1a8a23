"""The user that a SASL token names: PLAIN (RFC 4616) and SCRAM (RFC 5802). Nothing else of a token is looked at."""

LONGEST_NAME = 255
LONGEST_TOKEN = 64 * 1024


def user_of(token: bytes | None, mechanism: str | None) -> str | None:
    """The user name in a client's first token; None where the mechanism or the token has none."""
    if not token or len(token) > LONGEST_TOKEN:
        return None
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return None
    if mechanism == "PLAIN":
        parts = text.split("\0")
        return parts[1][:LONGEST_NAME] or None if len(parts) == 3 else None
    if mechanism is not None and mechanism.startswith("SCRAM-"):
        return _scram_user(text)
    return None


def _scram_user(text: str) -> str | None:
    """client-first-message = gs2-cbind-flag "," [authzid] "," ["m=..." ","] "n=" saslname "," "r=" nonce ..."""
    parts = text.split(",")
    if len(parts) < 4 or (parts[0] not in ("n", "y") and not parts[0].startswith("p=")):
        return None
    name = next((part[2:] for part in parts[2:] if part.startswith("n=")), "")
    return name.replace("=2C", ",").replace("=3D", "=")[:LONGEST_NAME] or None
