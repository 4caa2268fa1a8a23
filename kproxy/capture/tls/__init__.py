"""TLS 1.2 and 1.3 in captures: the bytes of both directions in, application data and facts out.

No clock, and no I/O but for keylog_file.py.

    keylog.py        KeyLog: secrets by connection, from NSS key logs and decryption secrets blocks
    keylog_file.py   a key log as a file
    connection.py    TlsConnection: what each record is for
    handshake.py     what the handshake says: keys to come, names, certificates
    half.py          one direction: bytes, records, keys, what was lost
    epochs.py        which keys and which sequence number; what is tried after a gap
    records.py       bytes to records, also after a gap
    messages.py      handshake messages
    certificates.py  whose certificate it is
    schedule.py      from secrets to keys
    protection.py    opening a record with given keys; the only place that needs the package cryptography
    suites.py        numbers and names
    items.py         Plain, Lost, TlsProblem

Seams

    keylog = KeyLog(); keylog.feed(data); keylog.finish()
    connection = TlsConnection(keylog)
    connection.receive(Direction.REQUEST, data, at) -> list[Plain | Lost | TlsProblem | TlsFacts]
    connection.gap(Direction.RESPONSE, size, at)    -> likewise; *size* None: nobody knows
    connection.close(at)                            -> likewise
    connection.facts                                -> TlsFacts (kproxy.session.tls_facts), filled in as it goes on

Secrets are in no text, error or representation that comes out of here.

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
