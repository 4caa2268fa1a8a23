"""Decrypt a TLS flow: turn its items into those that the same flow would have without TLS."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from kproxy.capture import Closed, Data, Ended, Flow, FlowItem, Gap
from kproxy.capture.items import HalfItem
from kproxy.capture.tls import KeyLog, KeyLogFile, Lost, Plain, TlsFacts, TlsItem
from kproxy.output.tls import undecrypted_words
from kproxy.pipeline.attempts import tcp_facts
from kproxy.session import Connection, Direction, Event, NotKafka, Tls

NSS_KEY_LOG = 0x544C534B  # pcapng, section 4.7: a decryption secrets block that holds a key log
HANDSHAKE, APPLICATION_DATA, CLIENT_HELLO = 22, 23, 1


class Decrypted(HalfItem):
    """Decrypted bytes of one direction; like Data."""

    data: bytes


Item: TypeAlias = FlowItem | Data
Receive: TypeAlias = Callable[[Item], list[Event]]


def begins_tls(start: bytes | bytearray) -> bool:
    """Return whether the first bytes, which look like TLS, are worth decrypting: more than a single alert."""
    return start[:1] in (bytes((HANDSHAKE,)), bytes((APPLICATION_DATA,)))


def is_client_hello(start: bytes | bytearray) -> bool:
    """Return whether a direction begins with a ClientHello, and so is the client's."""
    return start[:1] == bytes((HANDSHAKE,)) and start[5:6] == bytes((CLIENT_HELLO,))


class TlsFlow:
    """Decrypts a flow's items for a receiver; at the end of the flow one event describes the TLS connection.

    Args:
        number: the connection's number.
        flow: the flow in the capture.
        keylog: the source of secrets.
    """

    def __init__(self, number: int, flow: Flow, keylog: KeyLog) -> None:
        from kproxy.capture.tls.connection import TlsConnection  # noqa: PLC0415 - a dozen modules; most captures have no TLS

        self._tls = TlsConnection(keylog)
        self._flow = flow
        self._number = number

    @property
    def facts(self) -> TlsFacts:
        """What is known about the TLS connection so far."""
        return self._tls.facts

    def receive(self, item: Item, receive_inside: Receive) -> list[Event]:
        """Decrypt an item, pass the decrypted items to *receive_inside*, and return the resulting events."""
        if isinstance(item, Data):
            decrypted = self._tls.receive(item.direction, item.data, item.time_ns)
        elif isinstance(item, Gap):
            decrypted = self._tls.gap(item.direction, item.size, item.time_ns)
        elif isinstance(item, Closed):
            return self._close(item, receive_inside)
        else:
            return receive_inside(item) if isinstance(item, Ended) else []
        return [event for inside in self._inside(decrypted) for event in receive_inside(inside)]

    def _inside(self, decrypted: list[TlsItem | TlsFacts]) -> Iterator[Item]:
        for item in decrypted:
            if isinstance(item, Plain):
                yield Decrypted(self._flow, item.at, self._side(item.direction), item.data)
            elif isinstance(item, Lost):
                yield Gap(self._flow, item.at, self._side(item.direction), None)

    def _close(self, item: Closed, receive_inside: Receive) -> list[Event]:
        inside = self._inside(self._tls.close(item.time_ns))
        events = [event for each in (*inside, item) for event in receive_inside(each)]
        flow = self._flow
        connection = Connection(self._number, flow.client, flow.server, tls=self.facts, tcp=tcp_facts(flow))
        if self.facts.decrypted or (self.facts.established_at is not None and not self.facts.missing):
            return [*events, Tls(connection, item.time_ns)]
        words = undecrypted_words(self.facts)
        return [*events, NotKafka(connection, item.time_ns, "tls", Direction.REQUEST, words)]

    def _side(self, direction: Direction) -> int:
        return int(self._flow.direction(0) != direction)


class HasSecrets(Protocol):
    """A capture, or anything else that holds its secrets."""

    @property
    def secrets(self) -> list[tuple[int, bytes]]: ...


class Secrets:
    """The source of a KeyLog: the key logs found inside the capture so far, then a key log file.

    A run has one Secrets and one KeyLog for all its captures.
    """

    def __init__(self, file: KeyLogFile | None) -> None:
        self._file = file
        self._capture: HasSecrets | None = None
        self._blocks = 0

    @property
    def file_given(self) -> bool:
        return self._file is not None

    def reopen(self) -> None:
        """Open the file again in a forked process. Raises OSError for a pipe, which cannot be read twice."""
        if self._file is not None:
            self._file.reopen()

    def read_from(self, capture: HasSecrets) -> None:
        """Read the key logs inside this capture from now on."""
        self._capture = capture
        self._blocks = 0

    def more(self) -> bytes:
        """Return the next bytes of key logs; empty if there are none at present."""
        if self._capture is not None and self._blocks < len(self._capture.secrets):
            kind, data = self._capture.secrets[self._blocks]
            self._blocks += 1
            return data + b"\n" if kind == NSS_KEY_LOG else b"\n"
        return b"" if self._file is None else self._file.more()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
