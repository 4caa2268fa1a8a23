"""TLS 1.2 and 1.3 in captures: the bytes of both directions in, application data and facts out.

No clock, and no I/O except in keylog_file.py. The way of a byte: connection -> half -> records -> epochs (protection) ->
connection: application data is delivered, handshake messages go to messages and handshake, which sets the keys to come.

    keylog.py        KeyLog: secrets by connection, from NSS key logs and decryption secrets blocks
    keylog_file.py   a key log as a file
    connection.py    TlsConnection: what each record is for; the state machine
    handshake.py     handshake messages: keys to come, names, certificates
    half.py          Half: one direction: bytes, records, keys, whether data was lost
    epochs.py        which keys and which sequence number; what is tried after a gap, and its budget
    records.py       bytes to records, also after a gap
    messages.py      handshake messages
    certificates.py  the subject of a certificate
    schedule.py      from secrets to keys
    protection.py    opening a record with given keys; the only place that needs the package cryptography
    suites.py        numbers and names
    items.py         Plain, Lost, TlsProblem

Seams

    keylog = KeyLog(); keylog.feed(data); keylog.finish()
    connection = TlsConnection(keylog)
    connection.receive(Direction.REQUEST, data, at) -> list[Plain | Lost | TlsProblem | TlsFacts]
    connection.gap(Direction.RESPONSE, size, at)    -> likewise; *size* None: unknown
    connection.close(at)                            -> likewise
    connection.facts                                -> TlsFacts (kproxy.session.tls_facts), filled in as it goes on

No text, error or repr() of this package contains a secret.

To add a cipher suite: suites.py; another kind of cipher also protection.py. To add a kind of secret: keylog.Label.

This package exports only what a reader of captures without TLS needs, too; import TlsConnection from connection.py where a
flow is TLS: it brings a dozen modules.
"""

from kproxy.capture.tls.items import Lost, Plain, TlsItem, TlsProblem
from kproxy.capture.tls.keylog import KeyLog
from kproxy.capture.tls.keylog_file import KeyLogFile
from kproxy.session.tls_facts import TlsFacts, TlsTraffic

__all__ = [
    "KeyLog",
    "KeyLogFile",
    "Lost",
    "Plain",
    "TlsFacts",
    "TlsItem",
    "TlsProblem",
    "TlsTraffic",
]
