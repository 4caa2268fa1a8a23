"""Handshake: read handshake messages, to set the upcoming keys and the facts about the peers.

In TLS 1.3 (RFC 8446) early data, handshake and application data have separate keys in each direction. In TLS 1.2 (RFC 5246)
each handshake gives one set of keys, used from ChangeCipherSpec on.
"""

import hashlib
from functools import partial

from kproxy.capture.tls.ciphers import (
    CANNOT_DECRYPT,
    SUITES,
    TLS12,
    TLS13,
    CipherSuite,
    is_grease,
    keys_12,
    opener_12,
    suite_name,
    version_name,
)
from kproxy.capture.tls.keylog import LABELS, KeyLog, Label
from kproxy.capture.tls.messages import (
    MAX_LISTED,
    ClientHello,
    MessageType,
    ServerHello,
    read_certificates,
    read_client_hello,
    read_encrypted_extensions,
    read_server_hello,
    read_ticket_12,
    subject_of,
)
from kproxy.capture.tls.records import Candidate, Epoch, Half, candidates_13
from kproxy.errors import UsageError
from kproxy.session.events import TlsFacts

EARLY, HANDSHAKE, APPLICATION = "early data", "handshake", "application data"
CLIENT_LABELS = ((HANDSHAKE, Label.CLIENT_HANDSHAKE), (APPLICATION, Label.CLIENT_TRAFFIC))
BROKER_LABELS = ((HANDSHAKE, Label.SERVER_HANDSHAKE), (APPLICATION, Label.SERVER_TRAFFIC))
NEEDS = {label: name.decode() for name, label in LABELS.items()}  # the key log's name of each secret
NO_KEYS = "no session keys of this connection are given"
TICKET = b"ticket"  # prefix of a ticket's hash, which is used in place of a session id


class Handshake:
    """The handshakes of a connection, usually one: sets the epochs of both halves and fills in the facts."""

    def __init__(self, facts: TlsFacts, client: Half, broker: Half, keylog: KeyLog) -> None:
        self.facts = facts
        self.version: int | None = None
        self._client = client
        self._broker = broker
        self._keylog = keylog
        self._client_hello: ClientHello | None = None
        self._server_hello: ServerHello | None = None
        self._all: dict[Label, list[tuple[bytes, bytes]]] | None = None
        self._ticket = b""  # TLS 1.2: the broker's new ticket
        self._closed_finished: set[Half] = set()

    def receive(self, half: Half, kind: int, body: bytes, at: int) -> None:
        """Read a handshake message. Raises DecodeError."""
        if half is self._client:
            self._from_client(kind, body, at)
        else:
            self._from_broker(kind, body, at)
        if kind == MessageType.FINISHED:
            self._finish(half, at)
        elif kind == MessageType.KEY_UPDATE and self.version == TLS13:
            self.facts.key_updates += 1
            half.epochs.update()

    def change_cipher(self, half: Half) -> None:
        """TLS 1.2: begin to use the agreed keys in this direction. TLS 1.3: do nothing."""
        if half.tls13 or self._server_hello is None:
            return
        half.messages.clear()
        if half.epochs.current is None:
            half.lost = False  # the missing bytes belonged to the handshake
        if not half.epochs.upcoming:
            half.epochs.upcoming.append(Epoch(APPLICATION, "CLIENT_RANDOM", list))
        half.epochs.advance()

    def on_closed_message(self, half: Half, at: int) -> None:
        """TLS 1.2: note an unreadable encrypted message: the first is Finished, later ones belong to another handshake."""
        if half in self._closed_finished:
            self.facts.renegotiations += half is self._client
        else:
            self._closed_finished.add(half)
            self._finish(half, at)

    def is_early(self, half: Half) -> bool:
        """Return whether the latest record was early data."""
        return half.epochs.current is not None and half.epochs.current.name == EARLY

    def explain(self) -> None:
        """Set ``facts.missing`` if encrypted records could not be read."""
        halves = [half for half in (self._client, self._broker) if half.traffic.not_decrypted]
        if halves:
            self.facts.missing = self._reasons(halves)

    # Messages

    def _from_client(self, kind: int, body: bytes, at: int) -> None:
        if kind == MessageType.CLIENT_HELLO:
            self._on_client_hello(read_client_hello(body), at)
        elif kind == MessageType.CERTIFICATE:
            self.facts.client_certificate = self._subject(body)
        elif kind == MessageType.END_OF_EARLY_DATA:
            self.facts.early_data = "accepted"
            self._client.epochs.advance()

    def _from_broker(self, kind: int, body: bytes, at: int) -> None:
        if kind == MessageType.SERVER_HELLO:
            self._on_server_hello(read_server_hello(body), at)
        elif kind == MessageType.ENCRYPTED_EXTENSIONS:
            self._on_encrypted_extensions(body)
        elif kind == MessageType.CERTIFICATE:
            self.facts.server_certificate = self._subject(body)
        elif kind == MessageType.CERTIFICATE_REQUEST:
            self.facts.client_certificate_requested = True
        elif kind == MessageType.NEW_SESSION_TICKET and self.version == TLS12:
            self._ticket = read_ticket_12(body)

    def _subject(self, body: bytes) -> str | None:
        certificates = read_certificates(body, tls13=self.version == TLS13)
        return subject_of(certificates[0]) if certificates else ""

    def _on_client_hello(self, hello: ClientHello, at: int) -> None:
        facts = self.facts
        is_renegotiation = self._server_hello is not None and not self._server_hello.is_retry
        if is_renegotiation:
            facts.renegotiations += 1
        elif self._client_hello is None:
            facts.client_hello_at = at
        self._client_hello = hello
        facts.offered_versions = [version_name(v) for v in hello.versions[:MAX_LISTED] if not is_grease(v)]
        facts.server_name = hello.server_name
        facts.offered_alpn = hello.alpn
        if is_renegotiation or TLS13 not in hello.versions:
            return
        if hello.early_data:
            facts.early_data = "offered"
        self._expect_13()
        if hello.early_data:
            self._client.epochs.upcoming.insert(0, self._epoch(EARLY, Label.CLIENT_EARLY))

    def _on_server_hello(self, hello: ServerHello, at: int) -> None:
        facts = self.facts
        self._server_hello = hello
        self._client.tls13 = self._broker.tls13 = hello.version == TLS13
        if hello.is_retry:
            facts.hello_retry = True
            if facts.early_data is not None:
                facts.early_data = "rejected"  # RFC 8446 section 4.2.10
            return
        self.version = hello.version
        facts.version = version_name(hello.version)
        facts.cipher_suite = suite_name(hello.cipher_suite)
        facts.server_hello_at = facts.server_hello_at or at
        facts.alpn = hello.alpn
        if hello.version == TLS13:
            facts.resumed = hello.pre_shared_key
            if self._client_hello is None:
                self._expect_13()
            return
        client = self._client_hello
        facts.resumed = client is not None and hello.session_id == client.session_id != b""
        facts.early_data = None
        self._client.epochs.upcoming = [self._epoch_12(0)]
        self._broker.epochs.upcoming = [self._epoch_12(1)]

    def _on_encrypted_extensions(self, body: bytes) -> None:
        alpn, early = read_encrypted_extensions(body)
        self.facts.alpn = alpn
        if self.facts.early_data is not None:
            self.facts.early_data = "accepted" if early else "rejected"

    def _finish(self, half: Half, at: int) -> None:
        half.finished = True
        current = half.epochs.current
        if self.version == TLS13 and current is not None and current.name == HANDSHAKE:
            half.epochs.advance()
        elif self.version == TLS12:
            self._remember(half)
        if self._client.finished and self._broker.finished and self.facts.established_at is None:
            self.facts.established_at = at

    # Keys

    def _expect_13(self) -> None:
        self._client.epochs.upcoming = [self._epoch(*name) for name in CLIENT_LABELS]
        self._broker.epochs.upcoming = [self._epoch(*name) for name in BROKER_LABELS]

    def _secrets_of_all(self, label: Label) -> list[tuple[bytes, bytes]]:
        if self._all is None:
            self._keylog.secrets(label, b"")  # makes the key log read more of its file
            self._all = {}
        if label not in self._all:
            self._all[label] = self._keylog.some(label)
        return self._all[label]

    def _epoch(self, name: str, label: Label) -> Epoch:
        return Epoch(name, NEEDS[label], partial(self._load_13, label))

    def _load_13(self, label: Label) -> list[Candidate]:
        hello = self._client_hello
        if hello is not None:
            secrets = self._keylog.secrets(label, hello.random)
        else:  # not in the capture: try all secrets, as only the right one decrypts anything
            secrets = tuple(secret for _, secret in self._secrets_of_all(label))
        try:
            return candidates_13(secrets, self._suites_13())
        except UsageError:
            return []  # the package cryptography is missing: ``explain`` reports it

    def _suites_13(self) -> list[CipherSuite]:
        """Return the chosen suite, or all offered ones while the choice is unknown."""
        hello, chosen = self._client_hello, self._server_hello
        numbers = [chosen.cipher_suite] if chosen is not None else [] if hello is None else hello.cipher_suites
        return [suite for suite in map(SUITES.get, dict.fromkeys(numbers)) if suite is not None and suite.tls13]

    def _epoch_12(self, index: int) -> Epoch:
        client, server = self._client_hello, self._server_hello
        return Epoch(APPLICATION, "CLIENT_RANDOM", lambda: self._load_12(client, server, index))

    def _load_12(self, client: ClientHello | None, server: ServerHello | None, index: int) -> list[Candidate]:
        """Return the keys of a handshake, for the client (*index* 0) or the broker (1)."""
        suite = None if server is None else SUITES.get(server.cipher_suite)
        if server is None or suite is None or suite.tls13 or server.version != TLS12:
            return []
        candidates: list[Candidate] = []
        try:
            for client_random, master in self._masters(client, server):
                keys = keys_12(master, client_random, server.random, suite)[index]
                opener = opener_12(keys, suite, encrypt_then_mac=server.encrypt_then_mac)
                candidates.append(Candidate(opener, master, suite))
        except UsageError:
            return []  # the package cryptography is missing: ``explain`` reports it
        return candidates

    def _masters(self, client: ClientHello | None, server: ServerHello) -> list[tuple[bytes, bytes]]:
        """Return client randoms and master secrets that may belong to a handshake."""
        if client is None:
            return self._secrets_of_all(Label.MASTER)
        masters = list(self._keylog.secrets(Label.MASTER, client.random))
        if server.session_id:
            masters += self._keylog.secrets(Label.SESSION, server.session_id)
        if client.ticket:
            masters += self._keylog.secrets(Label.SESSION, _ticket_name(client.ticket))
        return [(client.random, master) for master in dict.fromkeys(masters)]

    def _remember(self, half: Half) -> None:
        """Keep the master secret of a TLS 1.2 session for connections that resume it."""
        master = None if half.epochs.current is None else half.epochs.current.secret
        if master is None or self._server_hello is None:
            return
        if self._server_hello.session_id:
            self._keylog.remember(Label.SESSION, self._server_hello.session_id, master)
        if self._ticket:
            self._keylog.remember(Label.SESSION, _ticket_name(self._ticket), master)

    # Reasons

    def _reasons(self, halves: list[Half]) -> list[str]:
        """Return why records of these directions could not be read."""
        if self._client_hello is None:
            return ["the ClientHello is not in the capture"] if not self.facts.decrypted else []
        if self.version is None and TLS13 not in self._client_hello.versions:
            return ["the ServerHello is not in the capture"]
        if self.version not in {None, TLS12, TLS13}:
            return [f"kproxy does not decrypt {self.facts.version}"]
        chosen = self._server_hello
        if chosen is not None and chosen.cipher_suite not in SUITES:
            return [f"kproxy does not decrypt the cipher suite {self.facts.cipher_suite}"]
        epochs = [
            epoch for half in halves for epoch in (half.epochs.current, *half.epochs.upcoming) if epoch is not None
        ]
        return self._key_reasons([epoch for epoch in epochs if not epoch.used], self._client_hello.random)

    def _key_reasons(self, unused: list[Epoch], client_random: bytes) -> list[str]:
        """Return why the keys of these epochs decrypted nothing."""
        if not any(self._keylog.secrets(label, client_random) for label in Label):
            return [NO_KEYS]
        names = dict.fromkeys(epoch.needs for epoch in unused if not epoch.candidates)
        absent = [name for name in names if not self._keylog.secrets(LABELS[name.encode()], client_random)]
        wrong = dict.fromkeys(epoch.needs for epoch in unused if epoch.candidates)
        reasons = [CANNOT_DECRYPT] if len(absent) < len(names) else []
        if absent:
            reasons.append(f"the session keys lack its {', '.join(absent)}")
        return reasons + [f"{name} is given and does not fit" for name in wrong]


def _ticket_name(ticket: bytes) -> bytes:
    return TICKET + hashlib.sha256(ticket).digest()
