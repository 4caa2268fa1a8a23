"""Strings from the wire made fit for a terminal, where some could move the cursor, hide text or break a line; and for labels."""

from hashlib import blake2b

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


LONGEST_NAME = 249  # characters: Topic.MAX_NAME_LENGTH
MOST_BYTES = 300  # of a label as a JSON string: a thousand rows of three fit a line between the proxy's processes
DIGEST_SIZE = 8  # bytes


def label_of(name: str | None) -> str:
    """Return the label of a metric for a name from traffic, with what a terminal would interpret escaped; "" for no name.

    A name of more than LONGEST_NAME characters or MOST_BYTES bytes is cut and followed by a digest of all of it, so that two
    names that begin alike do not become one series.
    """
    if not name:
        return ""
    if len(name) <= LONGEST_NAME and name.isascii() and name.isprintable() and '"' not in name and "\\" not in name:
        return name
    shown = well_formed(printable(name[:LONGEST_NAME], LONGEST_NAME))
    if len(name) <= LONGEST_NAME and _json_size(shown) <= MOST_BYTES:
        return shown
    end = ELLIPSIS + blake2b(name.encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE).hexdigest()
    left = MOST_BYTES - len(end.encode())
    if _json_size(shown) > left:
        shown = shown.encode()[: left // 2].decode(errors="ignore")  # a byte takes two at most
    return shown[: LONGEST_NAME - len(end)] + end


def _json_size(text: str) -> int:
    """Return the size of a text without control characters as a JSON string, without its quotes."""
    return len(text.encode()) + text.count('"') + text.count("\\")
