"""What is known of a connection's TLS, as the decoded log's object ``tls`` and as words.

The object has all of these fields:

    version                     str: as "TLS 1.3"; null where the broker did not choose or was not seen
    offeredVersions             list of str: what the client offered
    cipherSuite                 str: IANA's name, or null
    serverName                  str: the host name that the client sent (SNI), or null
    offeredAlpn                 list of str
    alpn                        str: the protocol chosen, or null
    resumed                     bool: an earlier session is resumed; no certificates then
    helloRetry                  bool: the broker answered with HelloRetryRequest
    earlyData                   str: accepted, rejected or offered; null where there was none
    clientCertificateRequested  bool
    clientCertificate           str: subject (RFC 4514); "" where the client showed none; null where that cannot be seen
    serverCertificate           str: likewise
    keyUpdates                  int: changes of keys in TLS 1.3
    renegotiations              int: further handshakes in TLS 1.2
    alerts                      list of str: side and alert, without close_notify
    decrypted                   bool: whether application data was read
    missing                     list of str: why not, or not all
    problems                    list of str: what was damaged or missing on the way
    clientHelloAt               str: when (RFC 3339); null where it was not seen
    handshakeMs                 float: from the ClientHello to both sides' Finished; null where that cannot be seen
    requests                    object: records, wireSize, plainSize, notDecrypted, lost of client to broker
    responses                   object: likewise
"""

from typing import Any

import msgspec

from kproxy.output.times import parse_instant, render_duration, render_instant, render_size
from kproxy.session.tls_facts import TlsFacts, TlsTraffic

JOINED_LATE_HINT = "record connections from their beginning: without its handshake, keys cannot be matched with one"
KEYS_HINT = "give kproxy the session keys (--keylog FILE; kproxy decode --help says how to get them)"


def tls_json(facts: TlsFacts) -> dict[str, Any]:
    """Return what is known about a TLS connection as an object of the decoded log, ready to be encoded."""
    start, end = facts.client_hello_at, facts.established_at
    return {
        "version": facts.version,
        "offeredVersions": facts.offered_versions,
        "cipherSuite": facts.cipher_suite,
        "serverName": facts.server_name,
        "offeredAlpn": facts.offered_alpn,
        "alpn": facts.alpn,
        "resumed": facts.resumed,
        "helloRetry": facts.hello_retry,
        "earlyData": facts.early_data,
        "clientCertificateRequested": facts.client_certificate_requested,
        "clientCertificate": facts.client_certificate,
        "serverCertificate": facts.server_certificate,
        "keyUpdates": facts.key_updates,
        "renegotiations": facts.renegotiations,
        "alerts": facts.alerts,
        "decrypted": facts.decrypted,
        "missing": facts.missing,
        "problems": facts.problems,
        "clientHelloAt": None if start is None else render_instant(start),
        "handshakeMs": None if start is None or end is None else (end - start) / 1e6,
        "requests": _traffic_json(facts.requests),
        "responses": _traffic_json(facts.responses),
    }


def _traffic_json(traffic: TlsTraffic) -> dict[str, int]:
    return {
        "records": traffic.records,
        "wireSize": traffic.wire_size,
        "plainSize": traffic.plain_size,
        "notDecrypted": traffic.not_decrypted,
        "lost": traffic.lost,
    }


class _Traffic(msgspec.Struct, rename="camel"):
    records: int = 0
    wire_size: int = 0
    plain_size: int = 0
    not_decrypted: int = 0
    lost: int = 0


class TlsObject(msgspec.Struct, rename="camel"):
    """What is known about a TLS connection, as read from a line of the decoded log."""

    version: str | None = None
    offered_versions: list[str] = []
    cipher_suite: str | None = None
    server_name: str | None = None
    offered_alpn: list[str] = []
    alpn: str | None = None
    resumed: bool = False
    hello_retry: bool = False
    early_data: str | None = None
    client_certificate_requested: bool = False
    client_certificate: str | None = None
    server_certificate: str | None = None
    key_updates: int = 0
    renegotiations: int = 0
    alerts: list[str] = []
    decrypted: bool = False
    missing: list[str] = []
    problems: list[str] = []
    client_hello_at: str | None = None
    handshake_ms: float | None = None
    requests: _Traffic = msgspec.field(default_factory=_Traffic)
    responses: _Traffic = msgspec.field(default_factory=_Traffic)

    def facts(self) -> TlsFacts:
        """Return the facts that the object was made from. Raises ValueError for an invalid time.

        The time of the broker's answer is not known, only that it came: it chose a version.
        """
        fields = msgspec.structs.asdict(self)
        duration = fields.pop("handshake_ms")
        start = None if self.client_hello_at is None else parse_instant(self.client_hello_at)
        fields["client_hello_at"] = start
        fields["server_hello_at"] = None if self.version is None else start
        fields["established_at"] = None if start is None or duration is None else start + round(duration * 1e6)
        for side in ("requests", "responses"):
            fields[side] = TlsTraffic(**msgspec.structs.asdict(fields[side]))
        return TlsFacts(**fields)


def tls_words(facts: TlsFacts) -> str:
    """Describe a TLS connection in one line."""
    parts = [*_protocol(facts), *_peers(facts), *_happenings(facts), _traffic(facts)]
    return ", ".join(parts)


def undecrypted_words(facts: TlsFacts) -> str:
    """Describe a TLS connection that could not be decrypted: why, and what to do."""
    if not facts.missing:
        return f"{tls_words(facts)}; the handshake did not come to its end"
    return f"{tls_words(facts)}; {why_not_decrypted(facts)}"


def why_not_decrypted(facts: TlsFacts) -> str:
    """Say what is missing to decrypt a connection, and what to do: the same text for the same reason."""
    hint = JOINED_LATE_HINT if joined_late(facts) else KEYS_HINT
    return f"not decrypted: {'; '.join(facts.missing)}; {hint}"


def joined_late(facts: TlsFacts) -> bool:
    """Return whether the capture begins after the ClientHello, so that session keys alone do not help."""
    return facts.client_hello_at is None


def _protocol(facts: TlsFacts) -> list[str]:
    if facts.version is None:
        offered = f" (the client offers {', '.join(facts.offered_versions)})" if facts.offered_versions else ""
        return [f"TLS{offered}"]
    return [f"{facts.version} {facts.cipher_suite}"] + (["resumed"] if facts.resumed else [])


def _peers(facts: TlsFacts) -> list[str]:
    parts = []
    if facts.server_name is not None:
        parts.append(f"server name {facts.server_name}")
    if facts.alpn is not None:
        parts.append(f"ALPN {facts.alpn}")
    if facts.client_certificate:
        parts.append(f"client certificate {facts.client_certificate}")
    elif facts.client_certificate == "":
        parts.append("no client certificate although the broker asked for one")
    if facts.server_certificate:
        parts.append(f"broker certificate {facts.server_certificate}")
    return parts


def _happenings(facts: TlsFacts) -> list[str]:
    parts = [f"alert from {alert}" for alert in facts.alerts]
    start, end = facts.client_hello_at, facts.established_at
    if start is not None and end is not None:
        parts.append(f"handshake in {render_duration(end - start)}")
    elif start is not None and facts.server_hello_at is None and not facts.alerts:
        parts.append("the broker did not answer in TLS: its listener may be a PLAINTEXT one")
    if facts.early_data is not None:
        parts.append(f"early data {facts.early_data}")
    if facts.key_updates:
        parts.append(f"key updates: {facts.key_updates}")
    if facts.renegotiations:
        parts.append(f"renegotiations: {facts.renegotiations}")
    return parts


def _traffic(facts: TlsFacts) -> str:
    sides = []
    for side, traffic in (("client", facts.requests), ("broker", facts.responses)):
        lost = f", {traffic.lost} lost" if traffic.lost else ""
        closed = f", {traffic.not_decrypted} not decrypted" if traffic.not_decrypted and facts.decrypted else ""
        sides.append(f"{side} {render_size(traffic.wire_size)} in {traffic.records} records{closed}{lost}")
    return ", ".join(sides)
