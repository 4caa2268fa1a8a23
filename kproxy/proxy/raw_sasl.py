"""Tell raw SASL tokens on a link from requests; session/sasl.py has the rules."""

from kproxy.errors import DecodeError
from kproxy.protocol import read_request_header
from kproxy.proxy.forwarding.link import Link
from kproxy.session.sasl import SaslPhase


def begins_tokens(link: Link, frame: bytes) -> bool:
    """Note a SaslHandshake request; return whether raw tokens follow it."""
    phase: SaslPhase = link.sasl or SaslPhase()
    link.sasl = phase
    try:
        header = read_request_header(frame, 4)
    except DecodeError:
        return False
    phase.on_handshake(header.api_version, header.client_id)
    return phase.in_tokens


def is_token(link: Link, frame: bytes) -> bool:
    """Return whether a frame is a raw token. Also called for a connection's first frame, which may be a GSSAPI token."""
    data = frame[4:]
    if link.sasl is None:
        link.sasl = SaslPhase()
        return bool(link.sasl.begins_with_token(data))
    if not link.sasl.ends_with(data):
        return True
    link.sasl.leave()
    return False
