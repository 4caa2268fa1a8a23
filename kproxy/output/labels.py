"""Labels of metrics made of names from traffic: topics, groups, client ids.

The label of a name is the name, with unsafe characters escaped, if it has at most LONGEST_NAME characters and MOST_BYTES bytes.
The label of a longer name is its beginning and a digest of all of it, so that two names that begin alike do not become one
series.
"""

from hashlib import blake2b

from kproxy.output.escaping import ELLIPSIS, printable, well_formed

LONGEST_NAME = 249  # characters: Topic.MAX_NAME_LENGTH
MOST_BYTES = 300  # of a label as a JSON string: a thousand rows of three fit a line between the proxy's processes
DIGEST_SIZE = 8  # bytes


def label_of(name: str | None) -> str:
    """Return the label for a name, with what a terminal would interpret escaped; "" for no name."""
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
