"""TLS 1.2 and 1.3 in captures: the bytes of both directions in, application data and facts out.

No clock, and no I/O except in keylog.KeyLogFile. The way of a byte: connection -> records (ciphers) -> connection: application
data is delivered, handshake messages go to messages and handshake, which sets the keys to come.

    keylog.py        KeyLog: secrets by connection, from NSS key logs and decryption secrets blocks; KeyLogFile
    connection.py    TlsConnection: what each record is for; the state machine
    records.py       Half: one direction: bytes to records, which keys and sequence number open them, also after a gap
    ciphers.py       cipher suites, from secrets to keys, opening a record; the only place that needs the package cryptography
    handshake.py     handshake messages: keys to come, names, certificates
    messages.py      the fields of handshake messages; the subject of a certificate

Seams

    keylog = KeyLog(); keylog.feed(data); keylog.finish()
    connection = TlsConnection(keylog)
    connection.receive(Direction.REQUEST, data, at) -> list[Plain | Lost | TlsProblem | TlsFacts]
    connection.gap(Direction.RESPONSE, size, at)    -> likewise; *size* None: unknown
    connection.close(at)                            -> likewise
    connection.facts                                -> TlsFacts (kproxy.session.events), filled in as it goes on

No text, error or repr() of this package contains a secret.

To add a cipher suite or a kind of cipher: ciphers.py. To add a kind of secret: keylog.Label.

This package exports only what a reader of captures without TLS needs, too; import TlsConnection from connection.py where a
flow is TLS: it brings most modules.
"""

from kproxy.capture.items import Lost, Plain, TlsItem
from kproxy.capture.tls.keylog import KeyLog, KeyLogFile
from kproxy.session.events import TlsFacts

__all__ = [
    "KeyLog",
    "KeyLogFile",
    "Lost",
    "Plain",
    "TlsFacts",
    "TlsItem",
]
