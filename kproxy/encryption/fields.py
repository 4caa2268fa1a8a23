"""Encrypted fields of values: how they stand in a text, and the name of their place."""

from base64 import b64decode, b64encode

from kproxy.encryption.envelope import (
    BYTES_FIELD,
    FIELD,
    FIXED,
    MARKER,
    SIZE_AT,
    VERSION,
    Damaged,
    added_behind,
    envelope_of,
    has_lost_marker,
)

TEXT_MARKER = b64encode(MARKER + bytes(2))[:6]  # the marker, and the upper half of the version
VERSION_IN_TEXT = b"ED"  # the two characters behind it: the rest of version 1, and what is encrypted
TEXT_BEGINNING = TEXT_MARKER + VERSION_IN_TEXT
BYTES_BEGINNING = MARKER + bytes((VERSION, BYTES_FIELD))
HALVES = TEXT_MARKER[:4], TEXT_MARKER[4:] + VERSION_IN_TEXT
ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "'": "\\'", "\\": "\\\\"}
ESCAPES = {chr(code): f"\\u{code:04x}" for code in range(0x20)} | ESCAPES

Place = tuple[str | int, ...]  # names of members, indexes of items


def path_of(place: Place) -> str:
    """Return the normalized path of a place (RFC 9535, 2.7): $['people'][0]['email']."""
    return "$" + "".join(
        f"[{step}]" if isinstance(step, int) else f"['{''.join(ESCAPES.get(one, one) for one in step)}']"
        for step in place
    )


def name_of(place: Place) -> bytes:
    """Return what the associated data has of a place: its path, UTF-8."""
    return path_of(place).encode("utf-8", "surrogatepass")


def sealed_in(text: bytes) -> bytes | None:
    """Return the encrypted field that a text is; None for a plain text. Raises Damaged."""
    if not text.startswith(TEXT_MARKER):
        if _has_lost_marker(text):
            raise Damaged("its marker was changed")
        return None
    sealed = _decoded(text)
    if sealed is None:
        raise Damaged("it is no base 64")
    return sealed


def may_be_in(value: bytes) -> bool:
    """Return whether a value may have encrypted fields, with one byte of each changed at most."""
    return MARKER in value or any(half in value for half in HALVES)


def envelope_in(value: bytes) -> bytes | None:
    """Return the envelope of an encrypted value, or of the first encrypted text in it, else of the first encrypted bytes.

    Empty: it is damaged; None: there is none. No schema is needed: encrypted fields are found by their markers.
    """
    whole = envelope_of(value)
    if whole is not None:
        return whole
    at = value.find(TEXT_BEGINNING)
    size = 0 if at < 0 else _envelope_size(value[at : at + 12])
    if size > 0:
        sealed = _decoded(value[at : at + (size + added_behind(FIELD) + 2) // 3 * 4])
        return b"" if sealed is None else envelope_of(sealed, FIELD)
    at = value.find(BYTES_BEGINNING)
    return None if at < 0 else envelope_of(value[at:], BYTES_FIELD)


def _envelope_size(begin: bytes) -> int:
    """Return how long the envelope is that a text begins with; 0 if it does not say."""
    sealed = _decoded(begin)
    return 0 if sealed is None else int.from_bytes(sealed[SIZE_AT:FIXED], "big")


def _has_lost_marker(text: bytes) -> bool:
    size = len(TEXT_MARKER)
    if text[size : size + 2] != VERSION_IN_TEXT or len(text) % 4:  # nearly always
        return False
    sealed = _decoded(TEXT_MARKER + text[size:])
    return sealed is not None and has_lost_marker(sealed, FIELD)


def _decoded(text: bytes) -> bytes | None:
    """Return what a text is the base 64 of; None if it is not, to the last bit."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return None
    return data if b64encode(data) == text else None
