"""Raw SASL tokens: which frames are tokens, when nothing on the wire says so.

After SaslHandshake v0, and for 0.9 clients from the first byte, both sides send a size and an opaque token until
authentication completes (SaslServerAuthenticator). The end is not on the wire: the phase is over when the broker has
answered a token and the client's next frame is, to the last byte, a request by the same client (or by any, where the
handshake named none). Whether every token was answered says nothing: the last one of GSSAPI never is (GssKrb5Server has
no challenge left, so the broker is silent).
Not here: SaslHandshake v1, whose tokens travel in SaslAuthenticate requests like any other.
"""

import contextlib
from typing import Any

from kproxy.errors import DecodeError
from kproxy.protocol import ApiKey, Direction, RequestHeader, read_request_header
from kproxy.protocol.frames import GSSAPI_FIRST_BYTE
from kproxy.session.events import Connection, SaslToken
from kproxy.session.recognise import is_request, may_be_newer

# What a broker accepts before authentication is done.
AUTHENTICATING = (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE)


def is_of_authentication(header: RequestHeader, data: bytes) -> bool:
    """Whether a frame where a token may come is a request: one that can be read, or SaslAuthenticate newer than the facts."""
    return is_request(data) or (header.api_key == ApiKey.SASL_AUTHENTICATE and may_be_newer(header))


class SaslPhase:
    """Where a connection stands in its authentication."""

    __slots__ = ("_answered", "_any_client_id", "_begun", "_client_id", "in_tokens", "may_be_token")

    def __init__(self) -> None:
        self.in_tokens = False
        self.may_be_token = False  # whether what is no request may be a token, so that nothing in it is to be told
        self._begun = False
        self._any_client_id = False
        self._client_id: str | None = None
        self._answered = False  # a token, by the broker

    def on_handshake(self, api_version: int, client_id: str | None) -> bool:
        """A SaslHandshake request; say whether it is the connection's first (KIP-368 repeats it later)."""
        first = not self._begun
        self._begun = self.may_be_token = True
        self._client_id = client_id
        # Java's consumers and producers up to 0.11 shake hands with the configured client id, and if there is none then go on as
        # "consumer-1" (KafkaConsumer's constructor makes it up after the channel builder was configured).
        self._any_client_id = not client_id
        self._answered = False
        self.in_tokens = api_version == 0
        return first

    def on_refusal(self) -> None:
        """The broker does not take the mechanism: no token is due, but a client may send one all the same."""
        self._answered = True

    def begins_with_token(self, data: bytes) -> bool:
        """Whether a connection's first frame is a token without a handshake; the phase then begins."""
        if self._begun or data[:1] != bytes([GSSAPI_FIRST_BYTE]):
            return False
        self._begun = self.in_tokens = self.may_be_token = self._any_client_id = True
        return True

    def ends_with(self, data: bytes) -> bool:
        """Whether a client's frame ends the phase, being a request."""
        if not self._answered or not is_request(data):
            return False
        return self._any_client_id or read_request_header(data).client_id == self._client_id

    def on_server_token(self) -> None:
        """The broker answered a token."""
        self._answered = True

    def on_gap(self) -> None:
        """Tokens may be missing: the next plausible request ends the phase."""
        self._answered = True

    def leave(self) -> None:
        """The phase is over: with the first request after raw tokens, or with a token in SaslAuthenticate that was taken."""
        self.in_tokens = self.may_be_token = False


def token_event(connection: Connection, direction: Direction, data: bytes, at: int) -> SaslToken:
    """The event of a raw token: who sent it, its size, and its parts that are no secret."""
    from kproxy.protocol.embedded.sasl import open_token  # noqa: PLC0415 (most connections have no token: 4 MB of code less)

    mechanism = connection.sasl_mechanism or "GSSAPI"
    parts: dict[str, Any] | None = None
    with contextlib.suppress(DecodeError):  # a token that is not what its mechanism demands stays opaque
        parts = open_token(data, mechanism, from_client=direction == Direction.REQUEST)
    return SaslToken(connection, at, direction, len(data), None if parts is None or "size" in parts else parts)
