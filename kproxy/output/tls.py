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
    serverCertificate           str: subject; null where that cannot be seen
    keyUpdates                  int: changes of keys in TLS 1.3
    renegotiations              int: further handshakes in TLS 1.2
    alerts                      list of str: side and alert, without close_notify
    decrypted                   bool: whether application data was read
    missing                     list of str: why not, or not all
    problems                    list of str: what was damaged or missing on the way
    clientHelloAt               str: when (RFC 3339); null where it was not seen
    handshakeMs                 float: from the ClientHello to both sides' Finished; null where that cannot be seen
    requests                    object: records, wireSize, plainSize, notDecrypted, lost of client to broker
    responses                   object: the same of broker to client
"""

from functools import cache
from typing import Any

import msgspec
from msgspec import structs

from kproxy.output.times import counted, parse_instant, render_duration, render_instant, render_size
from kproxy.session.events import TlsFacts, TlsTraffic

JOINED_LATE_HINT = "record connections from their beginning: without its handshake, keys cannot be matched with one"
KEYS_HINT = "give kproxy the session keys (--keylog FILE; kproxy help captures says how to get them)"


def tls_json(facts: TlsFacts) -> dict[str, Any]:
    """Return what is known about a TLS connection as an object of the decoded log, ready to be encoded."""
    row: dict[str, Any] = {}
    start, end = facts.client_hello_at, facts.established_at
    for name, value in structs.asdict(facts).items():
        if name == "client_hello_at":
            row["clientHelloAt"] = None if start is None else render_instant(start)
            row["handshakeMs"] = None if start is None or end is None else (end - start) / 1e6
        elif isinstance(value, TlsTraffic):
            row[name] = {_camel(inner): count for inner, count in structs.asdict(value).items()}
        elif name not in ("server_hello_at", "established_at"):
            row[_camel(name)] = value
    return row


def tls_facts(row: dict[str, Any]) -> TlsFacts:
    """Return the facts that an object of the decoded log was made from. Raises ValueError or MsgspecError if it is invalid.

    The time of the broker's answer is not known, only that it came: it chose a version.
    """
    fields = {name: row[_camel(name)] for name in TlsFacts.__struct_fields__ if _camel(name) in row}
    text, milliseconds = row.get("clientHelloAt"), row.get("handshakeMs")
    start = None if text is None else parse_instant(text)
    fields["client_hello_at"] = start
    fields["server_hello_at"] = None if row.get("version") is None else start
    fields["established_at"] = None if start is None or milliseconds is None else start + round(milliseconds * 1e6)
    for side in ("requests", "responses"):
        counts = row.get(side) or {}
        fields[side] = {name: counts[_camel(name)] for name in TlsTraffic.__struct_fields__ if _camel(name) in counts}
    return msgspec.convert(fields, TlsFacts)


@cache
def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


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
        sides.append(f"{side} {render_size(traffic.wire_size)} in {counted(traffic.records, 'record')}{closed}{lost}")
    return ", ".join(sides)
