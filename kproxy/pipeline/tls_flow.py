"""Decrypt a flow of TLS: its items in, the items of the same flow as if in the clear out."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from kproxy.capture import Closed, Data, Ended, Flow, FlowItem, Gap
from kproxy.capture.items import HalfItem
from kproxy.capture.tls import KeyLog, KeyLogFile, Lost, Plain, TlsFacts, TlsItem
from kproxy.output.tls import undecrypted_words
from kproxy.session import Connection, Direction, Event, NotKafka, Tls

NSS_KEY_LOG = 0x544C534B  # pcapng, section 4.7: a decryption secrets block that holds a key log
HANDSHAKE, APPLICATION_DATA, CLIENT_HELLO = 22, 23, 1


class Decrypted(HalfItem):
    """Bytes of one direction after decryption; as Data."""

    data: bytes


Item: TypeAlias = FlowItem | Data
Receive: TypeAlias = Callable[[Item], list[Event]]


def begins_tls(start: bytes | bytearray) -> bool:
    """Whether what a direction begins with, known to look like TLS, is worth following: not an alert alone."""
    return start[:1] in (bytes((HANDSHAKE,)), bytes((APPLICATION_DATA,)))


def is_client_hello(start: bytes | bytearray) -> bool:
    """Whether a direction begins with a ClientHello, so that it is the client's."""
    return start[:1] == bytes((HANDSHAKE,)) and start[5:6] == bytes((CLIENT_HELLO,))


class TlsFlow:
    """Decrypts a flow's items for a receiver of decrypted items; at its end one event describes the TLS.

    Args:
        number: of the connection.
        flow: the capture's.
        keylog: where secrets are.
    """

    def __init__(self, number: int, flow: Flow, keylog: KeyLog) -> None:
        from kproxy.capture.tls.connection import TlsConnection  # noqa: PLC0415 - a dozen modules; most captures have no TLS

        self._tls = TlsConnection(keylog)
        self._flow = flow
        self._number = number

    @property
    def facts(self) -> TlsFacts:
        """What is known of the TLS so far."""
        return self._tls.facts

    def receive(self, item: Item, receive_inside: Receive) -> list[Event]:
        """Decrypt an item and pass on what comes out; give the events that this makes."""
        if isinstance(item, Data):
            found = self._tls.receive(item.direction, item.data, item.time_ns)
        elif isinstance(item, Gap):
            found = self._tls.gap(item.direction, item.size, item.time_ns)
        elif isinstance(item, Closed):
            return self._close(item, receive_inside)
        else:
            return receive_inside(item) if isinstance(item, Ended) else []
        return [event for inside in self._inside(found) for event in receive_inside(inside)]

    def _inside(self, found: list[TlsItem | TlsFacts]) -> Iterator[Item]:
        for item in found:
            if isinstance(item, Plain):
                yield Decrypted(self._flow, item.at, self._side(item.direction), item.data)
            elif isinstance(item, Lost):
                yield Gap(self._flow, item.at, self._side(item.direction), None)

    def _close(self, item: Closed, receive_inside: Receive) -> list[Event]:
        inside = self._inside(self._tls.close(item.time_ns))
        events = [event for found in (*inside, item) for event in receive_inside(found)]
        connection = Connection(self._number, self._flow.client, self._flow.server, tls=self.facts)
        if self.facts.decrypted or (self.facts.established_at is not None and not self.facts.missing):
            return [*events, Tls(connection, item.time_ns)]
        words = undecrypted_words(self.facts)
        return [*events, NotKafka(connection, item.time_ns, "tls", Direction.REQUEST, words)]

    def _side(self, direction: Direction) -> int:
        return int(self._flow.direction(0) != direction)


class HasSecrets(Protocol):
    """A capture, or what knows its secrets."""

    @property
    def secrets(self) -> list[tuple[int, bytes]]: ...


class Secrets:
    """Where a KeyLog reads from: the key logs inside a capture as far as it is read, then a file.

    A run has one Secrets and one KeyLog, for all its captures.
    """

    def __init__(self, file: KeyLogFile | None) -> None:
        self._file = file
        self._capture: HasSecrets | None = None
        self._blocks = 0

    @property
    def file_given(self) -> bool:
        """Whether there is a key log file, besides those inside captures."""
        return self._file is not None

    def reopen(self) -> None:
        """Open the file again, in a process that was forked. Raises OSError for a pipe, which cannot be read twice."""
        if self._file is not None:
            self._file.reopen()

    def read_from(self, capture: HasSecrets) -> None:
        """Read the key logs of this capture from now on."""
        self._capture = capture
        self._blocks = 0

    def more(self) -> bytes:
        """The next bytes of a key log; none when there are no more at present."""
        if self._capture is not None and self._blocks < len(self._capture.secrets):
            kind, data = self._capture.secrets[self._blocks]
            self._blocks += 1
            return data + b"\n" if kind == NSS_KEY_LOG else b"\n"
        return b"" if self._file is None else self._file.more()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
