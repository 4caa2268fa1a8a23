"""Recognise raw SASL tokens, which nothing on the wire marks as such.

After SaslHandshake v0, and for clients of Kafka 0.9 from the first byte, both sides send a size and an opaque token until
authentication completes (SaslServerAuthenticator). Its end is not on the wire: the phase is over when the broker has answered
a token and the client's next frame is exactly a request by the same client (by any client if the handshake had no client id).
Not every token needs an answer: the last one of GSSAPI gets none (GssKrb5Server has no challenge left, so the broker is
silent).
SaslHandshake v1 is followed by SaslAuthenticate requests, which are ordinary frames. Until one succeeds, a frame that is not a
request may be a token of a client that violates the protocol, so nothing in it is shown.

    state         what a client's frame is                 flags of SaslPhase
    NOT_BEGUN     a request                                none
    REQUESTS      a request; anything else may be a token  may_be_token
    TOKENS        a token                                  may_be_token, in_tokens
    MAY_END       a token, unless it is a request          may_be_token, in_tokens, and the broker has answered
    DONE          a request                                none

    state           event                                              next
    NOT_BEGUN       the connection's first frame begins as GSSAPI's    TOKENS
    any             on_handshake, version 1 and above                  REQUESTS
    any             on_handshake, version 0                            TOKENS
    TOKENS          on_server_token, on_refusal, on_gap                MAY_END
    MAY_END         a frame that ends_with accepts, then leave         DONE
    REQUESTS        leave: SaslAuthenticate succeeded, or a request    DONE
                    that only an authenticated client sends

KIP-368: a client may repeat the handshake at any time (re-authentication).
"""

import contextlib
from typing import Any

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey, Direction, RequestHeader, read_request_header
from kproxy.protocol.constants import GSSAPI_FIRST_BYTE
from kproxy.session.events import Connection, SaslToken
from kproxy.session.exchanges import Frame
from kproxy.session.recognise import is_request, looks_like_request_header, may_be_newer

# APIs that a broker accepts before authentication is done.
AUTHENTICATING = (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE)


def is_of_authentication(header: RequestHeader, frame: Frame) -> bool:
    """Return whether a frame that may be a token is a request: readable, or a SaslAuthenticate newer than the facts."""
    return may_be_request(frame.data, cut=bool(frame.cut)) or (
        header.api_key == ApiKey.SASL_AUTHENTICATE and may_be_newer(header)
    )


def may_be_request(data: bytes, *, cut: bool) -> bool:
    """Return whether a frame that may be a token is a request: exactly, or for a cut frame by its complete header."""
    if not cut:
        return is_request(data)
    with contextlib.suppress(DecodeError):
        read_request_header(data)
        return looks_like_request_header(data)
    return False


class SaslPhase:
    """The state of a connection's authentication; see the table above."""

    __slots__ = ("_answered", "_any_client_id", "_begun", "_client_id", "in_tokens", "may_be_token")

    def __init__(self) -> None:
        self.in_tokens = False
        self.may_be_token = (
            False  # whether a frame that is not a request may be a token, so that nothing in it may be shown
        )
        self._begun = False
        self._any_client_id = False
        self._client_id: str | None = None
        self._answered = False  # whether the broker has answered a token

    def on_handshake(self, api_version: int, client_id: str | None) -> bool:
        """Handle a SaslHandshake request; return whether it is the connection's first."""
        first = not self._begun
        self._begun = self.may_be_token = True
        self._client_id = client_id
        # Java's consumers and producers up to 0.11 send the handshake with the configured client id; without one, their next
        # requests have "consumer-1" (KafkaConsumer's constructor makes it up after the channel builder was configured).
        self._any_client_id = not client_id
        self._answered = False
        self.in_tokens = api_version == 0
        return first

    def on_refusal(self) -> None:
        """Note that the broker refused the mechanism: no token is due, but the client may still send one."""
        self._answered = True

    def begins_with_token(self, data: bytes) -> bool:
        """Return whether a connection's first frame is a token without a handshake; if so, begin the phase."""
        if self._begun or data[:1] != bytes([GSSAPI_FIRST_BYTE]):
            return False
        self._begun = self.in_tokens = self.may_be_token = self._any_client_id = True
        return True

    def ends_with(self, data: bytes, *, cut: bool = False) -> bool:
        """Return whether a client's frame is a request and so ends the phase."""
        if not self._answered or not may_be_request(data, cut=cut):
            return False
        return self._any_client_id or read_request_header(data).client_id == self._client_id

    def on_server_token(self) -> None:
        """Note that the broker answered a token."""
        self._answered = True

    def on_gap(self) -> None:
        """Note that tokens may be missing: the next plausible request ends the phase."""
        self._answered = True

    def leave(self) -> None:
        """End the phase: at the first request after raw tokens, or when SaslAuthenticate succeeded."""
        self.in_tokens = self.may_be_token = False


def token_event(connection: Connection, direction: Direction, token: Frame) -> SaslToken:
    """Return the event of a raw token: its sender, its size, and its non-secret parts."""
    from kproxy.protocol.embedded.sasl import open_token  # noqa: PLC0415 (most connections have no token; saves 4 MB)

    mechanism = connection.sasl_mechanism or "GSSAPI"
    parts: dict[str, Any] | None = None
    with contextlib.suppress(DecodeError):  # a token that does not follow its mechanism stays opaque
        if not token.cut:
            parts = open_token(token.data, mechanism, from_client=direction == Direction.REQUEST)
    parts = None if parts is None or "size" in parts else parts
    return SaslToken(connection, token.ended_at, direction, token.size, parts)
