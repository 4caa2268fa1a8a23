"""Labels of metrics made of names from traffic: topics, groups, client ids.

A name is a label whole if it has at most LONGEST_NAME characters, and they do not take much room; else the label is its beginning
and a digest of all of it, so that two names do not become one series as they begin alike.
"""

from hashlib import blake2b

from kproxy.output.escaping import ELLIPSIS, printable, well_formed

LONGEST_NAME = 249  # characters: Topic.MAX_NAME_LENGTH
MOST_BYTES = 300  # of a label as a JSON string: a thousand rows of three fit a line between the proxy's processes
DIGEST_SIZE = 8  # bytes


def label_of(name: str | None) -> str:
    """The label of a name: what a terminal would obey is escaped; "" if there is none."""
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
    """Bytes of a text without control characters as a JSON string, without its quotes."""
    return len(text.encode()) + text.count('"') + text.count("\\")
