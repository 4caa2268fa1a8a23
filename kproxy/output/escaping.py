"""Strings from the wire made fit for a terminal: what could move the cursor, hide text or break a line is escaped."""

ELLIPSIS = "…"
NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def printable(text: str, limit: int = 200) -> str:
    """Return *text* without anything that a terminal would interpret, cut to *limit* characters.

    Escaped are control characters (LF, ESC, NUL, C1), format characters (bidirectional overrides, zero width),
    line separators, surrogates and unassigned code points; other scripts stay as they are. A backslash is doubled
    only if something else is escaped, so that ordinary names are unchanged.
    """
    if len(text) > limit:
        text = text[: limit - 1] + ELLIPSIS
    return text if text.isprintable() else "".join(map(_escape, text))


def word(text: str, limit: int = 64) -> str:
    """Return *text* as one word of a line: printable, and in quotes if it is empty or has a space or a quote."""
    safe = printable(text, limit)
    if safe and " " not in safe and '"' not in safe:
        return safe
    return '"' + safe.replace('"', '\\"') + '"'


def well_formed(text: str) -> str:
    """Replace each lone surrogate, which stands for a byte that was not UTF-8 and cannot be encoded, by U+FFFD.

    The bodies' JSON has U+FFFD for such bytes too.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(char: str) -> str:
    named = NAMED.get(char)
    if named is not None:
        return named
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
