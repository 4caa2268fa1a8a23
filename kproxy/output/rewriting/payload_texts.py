"""Replace the texts in payloads of Kafka Streams and Kafka Connect by others of as many bytes.

kproxy.protocol.embedded reads these payloads and notes where their texts are. Everything else stays: versions, numbers of
tasks and partitions, offsets, process ids, ports.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from kproxy.errors import DecodeError
from kproxy.protocol.embedded import connect, streams
from kproxy.protocol.embedded.reader import Texts

Open: TypeAlias = Callable[..., Any]

STREAMS: dict[str, Open] = {
    "ConsumerProtocolSubscription": streams.open_subscription_info,
    "ConsumerProtocolAssignment": streams.open_assignment_info,
}
CONNECT: dict[str, Open] = {
    # Connect puts its payloads in the same fields as consumers.
    "ConsumerProtocolSubscription": partial(connect.open_metadata, protocol=None),
    "ConsumerProtocolAssignment": connect.open_assignment,
}
ENDPOINT = re.compile(r"(https?://)?([^/:@]+)(:\d{1,5}/?)")  # a worker's URL; application.server of Streams


def rewrite_texts(open_payload: Open, data: bytes, name: Callable[[str], str]) -> bytes | None:
    """Replace each text in a payload by what *name* returns for it; in endpoints only the host. None for an unreadable payload.

    Args:
        open_payload: raises DecodeError, and notes in *texts* where texts are.
        data: the payload.
        name: returns a replacement with as many bytes of UTF-8.
    """
    texts: Texts = []
    try:
        open_payload(data, texts=texts)
    except DecodeError:
        return None
    written = bytearray(data)
    for start, end, encoding in texts:
        text = data[start:end].decode(encoding, "replace")
        replaced = _replaced(text, name).encode(encoding)
        # as many bytes, unless the text is not plain UTF-8
        written[start:end] = replaced if len(replaced) == end - start else b"x" * (end - start)
    return bytes(written)


def _replaced(text: str, name: Callable[[str], str]) -> str:
    endpoint = ENDPOINT.fullmatch(text)
    return name(text) if endpoint is None else f"{endpoint[1] or ''}{name(endpoint[2])}{endpoint[3]}"
