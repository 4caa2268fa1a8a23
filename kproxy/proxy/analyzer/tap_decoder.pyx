# cython: language_level=3, auto_pickle=False
"""Turn the records of one tap ring into calls of the connections that decode them."""

import msgspec

from libc.stdint cimport int64_t

from kproxy.pipeline.connections cimport Connections

from kproxy.filters.contract import ClientTls
from kproxy.protocol import Direction
from kproxy.proxy.tap.counted import CloseCause
from kproxy.proxy.tap.tapped import Opened, TapItem, TapKind
from kproxy.session.endings import Cut, who_closed
from kproxy.session.events import TlsFacts

MOST_LOST: int = 1 << 48  # bytes, in one record: more than a connection carries
CLOSED_SIZE: int = 9  # bytes of CLOSE
cdef int OPEN = TapKind.OPEN
cdef int DATA = TapKind.DATA
cdef int END = TapKind.END
cdef int CLOSE = TapKind.CLOSE
cdef int SENT = TapKind.SENT
cdef int EDITED = TapKind.EDITED
CUTS = {TapKind.LOST: Cut.MISSING, TapKind.LEFT_OUT: Cut.LEFT_OUT, TapKind.SNAPPED: Cut.SNAPLEN}

ENDED = {  # by the first byte of CLOSE: who ended the connection, if no END said so before
    bytes([cause]): f"kproxy closed the connection ({cause.name.lower()})" for cause in CloseCause
} | {
    bytes([cause]): who_closed(by, reset=reset)
    for cause, by, reset in (
        (CloseCause.CLIENT_CLOSED, Direction.REQUEST, False),
        (CloseCause.BROKER_CLOSED, Direction.RESPONSE, False),
        (CloseCause.CLIENT_RESET, Direction.REQUEST, True),
        (CloseCause.BROKER_RESET, Direction.RESPONSE, True),
    )
}

_read_opened = msgspec.json.Decoder(Opened).decode


cdef class TapDecoder:
    """Feeds *connections* with the records of a ring. No record raises an exception, whatever is in it."""

    cdef readonly Connections connections
    cdef readonly int64_t taken  # records

    def __init__(self, Connections connections not None):
        self.connections = connections

    def decode(self, items: list[TapItem]) -> None:
        """Decode records in their order."""
        cdef Connections connections = self.connections
        cdef int kind
        cdef int64_t at
        cdef int64_t sent_after
        for kind, number, direction, at, data, sent_after in items:
            self.taken += 1
            if kind == DATA:
                connections.receive(number, direction, data, at, at + sent_after if sent_after > 0 else sent_after)
            elif kind == OPEN:
                self._open(number, at, data)
            elif kind == SENT:
                connections.note_sent(number, direction, at)
            elif kind == EDITED:
                for edit in data.decode(errors="replace").split("\n"):
                    connections.note_edit(number, direction, edit)
            elif kind in CUTS:
                size = min(int.from_bytes(data[:8], "little"), MOST_LOST)
                connections.leave_out(number, direction, size, at, CUTS[TapKind(kind)])
            elif kind == END:
                connections.end(number, direction, at, reset=data == b"\1")
            elif kind == CLOSE:
                requests = int.from_bytes(data[1:9], "little") if len(data) == CLOSED_SIZE else None
                connections.close(number, at, requests, ended=ENDED.get(data[:1]))

    def _open(self, number: int, at: int, data: bytes) -> None:
        """Begin a connection; if its record cannot be read, it has failed."""
        try:
            opened = _read_opened(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            self.connections.fail(number, error)
            return
        self.connections.open(
            number,
            at,
            client=opened.client,
            broker=opened.broker,
            cluster=opened.cluster,
            from_start=opened.from_start or opened.in_frames,
            tls=_facts(opened.tls),
            login=(opened.user_name, opened.sasl_mechanism),
        )


def _facts(tls: ClientTls | None) -> TlsFacts | None:
    if tls is None:
        return None
    return TlsFacts(tls.version, server_name=tls.server_name, client_certificate=tls.certificate, decrypted=True)
