"""ClientLogin: the state of one client's authentication. The table is in the docstring of the package.

It does no I/O: it takes whole frames and returns whole frames. What takes long is awaited: passwords, the answer to ApiVersions.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from enum import Enum
from struct import pack
from typing import Any, NamedTuple, TypeAlias

from kproxy.authentication.mechanisms import LoginFailed, Mechanism
from kproxy.authentication.principal import Principal
from kproxy.errors import DecodeError
from kproxy.filters.narrow_api_versions import is_known
from kproxy.protocol import (
    ApiKey,
    Direction,
    RequestHeader,
    known_message,
    read_request_header,
    response_header_version,
)
from kproxy.protocol.constants import SIZE_FIELD
from kproxy.protocol.error_codes import ErrorCode
from kproxy.protocol.structs import struct_types

MOST_FRAMES = 32  # frames of a client until it is authenticated: ApiVersions twice, a handshake, and a few tokens
LONGEST_ASKED = 60  # characters of a mechanism in the log
# Answers ApiVersions: header, body (None: of a version that is not known) -> response frame
Versions: TypeAlias = Callable[[RequestHeader, Any], Awaitable[bytes]]
Mechanisms: TypeAlias = Mapping[str, Callable[[], Mechanism]]


class State(Enum):
    """Where a client stands."""

    REQUIRING_HANDSHAKE = "requiring handshake"
    REQUIRING_AUTHENTICATE = "requiring authenticate"
    AUTHENTICATED = "authenticated"
    FAILED = "failed"


class Answer(NamedTuple):
    """What the client gets: a whole frame; empty: nothing. *failure*: why it fails; then the connection is closed after it."""

    frame: bytes
    failure: LoginFailed | None = None


class ClientLogin:
    """The authentication of one connection, from its first frame; later its re-authentication (KIP-368).

    Args:
        mechanisms: makes a login of each mechanism that is offered.
        versions: answers ApiVersions.
        longest_session_ms: how long a session lasts at most; 0: no limit.
        admit: raises LoginFailed if the client may not try; called before a token is read.
        principal: who the client has proved to be already, by its certificate.
    """

    def __init__(
        self,
        mechanisms: Mechanisms,
        versions: Versions,
        longest_session_ms: int = 0,
        admit: Callable[[], None] = lambda: None,
        principal: Principal | None = None,
    ) -> None:
        self._admit = admit
        self.state = State.REQUIRING_HANDSHAKE if principal is None else State.AUTHENTICATED
        self.principal = principal
        self.mechanism = ""  # that the client has chosen
        self._mechanisms = mechanisms
        self._versions = versions
        self._longest_session_ms = longest_session_ms
        self._login: Mechanism | None = None
        self.is_raw = False  # raw tokens follow: the client chose the mechanism by SaslHandshake v0
        self._has_versions = False
        self._frames = 0

    def use_mechanisms(self, mechanisms: Mechanisms) -> None:
        """Offer these mechanisms from now on: the configuration, or the users, have changed."""
        self._mechanisms = mechanisms

    async def receive(self, frame: bytes) -> Answer:
        """Take the client's next frame, size field included, and return what it gets."""
        self._frames += 1
        try:
            if self.principal is None and self._frames > MOST_FRAMES:
                raise LoginFailed(f"more than {MOST_FRAMES} frames without a login")
            if self.is_raw and self.state is State.REQUIRING_AUTHENTICATE:
                return await self._on_token(frame[SIZE_FIELD:])
            return await self._on_request(frame)
        except LoginFailed as error:
            return self._fail(error)

    async def _on_request(self, frame: bytes) -> Answer:
        try:
            header = read_request_header(frame, SIZE_FIELD)
        except DecodeError:
            raise LoginFailed("it does not begin as Kafka's requests do") from None
        match header.api_key:
            case ApiKey.API_VERSIONS:
                return await self._on_versions(header, frame)
            case ApiKey.SASL_HANDSHAKE:
                return self._on_handshake(header, frame)
            case ApiKey.SASL_AUTHENTICATE:
                return await self._on_authenticate(header, frame)
        raise LoginFailed(f"a request of API {header.api_key} before authentication")

    async def _on_versions(self, header: RequestHeader, frame: bytes) -> Answer:
        """Answer with the versions of the broker: once, as brokers do, and again only if the client has to ask in another one."""
        if self.state is not State.REQUIRING_HANDSHAKE or self._has_versions:
            raise LoginFailed("ApiVersions in the midst of a login")
        known = is_known(header.api_key, header.api_version)
        answer = await self._versions(header, _body(header, frame) if known else None)
        error = answer[
            SIZE_FIELD + 4 : SIZE_FIELD + 6
        ]  # after the correlation id: these responses have no tags (KIP-511)
        self._has_versions = error != pack(">h", ErrorCode.UNSUPPORTED_VERSION)
        return Answer(answer)

    def _on_handshake(self, header: RequestHeader, frame: bytes) -> Answer:
        """Take the mechanism that the client chooses."""
        request = _body(header, frame)
        is_by_certificate = self.principal is not None and not self.mechanism
        if is_by_certificate or self.state not in (State.REQUIRING_HANDSHAKE, State.AUTHENTICATED):
            failure = LoginFailed("SaslHandshake in the midst of a login, or of a client with a certificate")
            return self._refuse(header, failure, ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
        offered = sorted(self._mechanisms)
        again = self.principal is not None
        if again and request.mechanism != self.mechanism:  # SaslServerAuthenticator: REAUTH_BAD_MECHANISM
            offered = [self.mechanism]
        if request.mechanism not in offered or (again and header.api_version == 0):
            asked = request.mechanism[:LONGEST_ASKED]
            failure = LoginFailed(f"the mechanism {asked!r} is not offered; {', '.join(offered)} would be")
            return self._refuse(header, failure, ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
        self.state = State.REQUIRING_AUTHENTICATE
        self.mechanism = request.mechanism
        self._login = self._mechanisms[self.mechanism]()
        self.is_raw = header.api_version == 0
        return Answer(_response(header, error_code=0, mechanisms=offered))

    async def _on_authenticate(self, header: RequestHeader, frame: bytes) -> Answer:
        """Give a token to the mechanism."""
        request = _body(header, frame)
        if self.state is not State.REQUIRING_AUTHENTICATE:
            failure = LoginFailed("SaslAuthenticate without a SaslHandshake")
            said = "SaslAuthenticate request received before a SaslHandshake request"
            return self._refuse(header, failure, ErrorCode.ILLEGAL_SASL_STATE, error_message=said, auth_bytes=b"")
        try:
            answer = await self._evaluate(request.auth_bytes)
        except LoginFailed as failure:
            said = failure.said or (
                "Authentication failed during authentication due to invalid credentials with SASL mechanism "
                f"{self.mechanism}"
            )
            error = ErrorCode.SASL_AUTHENTICATION_FAILED
            return self._refuse(header, failure, error, error_message=said, auth_bytes=b"")
        is_complete = self._login is None
        lifetime = self.principal.lifetime_ms if is_complete and self.principal else 0
        fields = {"session_lifetime_ms": lifetime} if header.api_version >= 1 else {}
        return Answer(_response(header, error_code=0, error_message=None, auth_bytes=answer, **fields))

    async def _on_token(self, token: bytes) -> Answer:
        """Give a raw token to the mechanism. Where it fails, nothing is sent: there is no frame for it, as with brokers."""
        answer = await self._evaluate(token)
        return Answer(pack(">i", len(answer)) + answer)

    async def _evaluate(self, token: bytes) -> bytes:
        assert self._login is not None
        self._admit()
        step = await self._login.evaluate(token)
        if step.principal is not None:
            self._accept(step.principal)
        return step.answer

    def _accept(self, principal: Principal) -> None:
        """Note who the client is; in a re-authentication it has to be who it was."""
        if self.principal is not None and principal.name != self.principal.name:
            # as ReauthInfo.ensurePrincipalUnchanged
            said = f"Cannot change principals during re-authentication from {self.principal.name}: {principal.name}"
            raise LoginFailed("it is another user than before", said, principal.name)
        limits = [limit for limit in (self._longest_session_ms, principal.lifetime_ms) if limit]
        self.principal = replace(principal, lifetime_ms=min(limits, default=0))
        self.state = State.AUTHENTICATED
        self._login = None

    def _refuse(self, header: RequestHeader, failure: LoginFailed, error_code: int, **fields: Any) -> Answer:
        return self._fail(failure, _response(header, error_code=error_code, **fields))

    def _fail(self, failure: LoginFailed, frame: bytes = b"") -> Answer:
        self.state = State.FAILED
        self._login = None
        return Answer(frame, failure)


def without_secret(frame: bytes, mechanism: str) -> bytes:
    """Return a request of a login that has succeeded, of the same size, with asterisks for what is secret in it."""
    header = read_request_header(frame, SIZE_FIELD)
    if header.api_key != ApiKey.SASL_AUTHENTICATE:
        return frame
    token: bytes = _body(header, frame).auth_bytes
    if mechanism == "PLAIN":
        start, end = token.rindex(b"\0") + 1, len(token)
    elif mechanism == "OAUTHBEARER":
        start, end = token.rindex(b".") + 1, token.rindex(b"\x01\x01")
    elif mechanism == "GSSAPI":
        start, end = 0, len(token)
    else:  # SCRAM shows neither
        return frame
    return frame.replace(token, token[:start] + b"*" * (end - start) + token[end:])


def _body(header: RequestHeader, frame: bytes) -> Any:
    """Decode a request. Raises LoginFailed."""
    message = known_message(Direction.REQUEST, header.api_key)
    if header.api_version not in message.versions:
        raise LoginFailed(f"{message.name} version {header.api_version}, which kproxy does not know")
    try:
        return message.decode(header.api_version, frame[header.size + SIZE_FIELD :])
    except DecodeError as error:
        raise LoginFailed(f"{message.name} cannot be read ({type(error).__name__})") from None


def _response(header: RequestHeader, **fields: Any) -> bytes:
    message = known_message(Direction.RESPONSE, header.api_key)
    made: Any = struct_types(message.name)[message.name](**fields)
    body = message.encode(header.api_version, made)
    tags = b"\0" * response_header_version(header.api_key, header.api_version)
    return pack(">ii", 4 + len(tags) + len(body), header.correlation_id) + tags + body
