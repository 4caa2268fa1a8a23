"""ClientLogins: clients log in to kproxy, before anything of theirs reaches a broker (kproxy.authentication has the rules).

LinkOpener calls `authenticate` after TLS with the client and before it connects to the broker. Exactly the frames of the login
are read from the client; what follows them stays in the socket, or in OpenSSL, for the lanes. Later FilterDispatch gives
SaslHandshake and SaslAuthenticate requests to `authenticate_again` (KIP-368); lanes refuse all other requests once a session has
ended.

The connection to the broker does not begin while the client still logs in, though that would save its time. Otherwise, any
program that reaches kproxy could open connections at brokers without a login; and if only clients that name a known user had
one, the brokers' load and kproxy's own timing would tell which users exist.

ApiVersions is answered before the login, as clients choose their versions by it: with the versions of the broker that the client
is about to reach, narrowed by the filters. kproxy asks the broker for them itself, over a connection of its own, once in
VERSIONS_S.
"""

import asyncio
import contextlib
import socket
import ssl
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING, Any

from kproxy.authentication.budgets import Budgets
from kproxy.authentication.certificates import name_of, parse_rules
from kproxy.authentication.mechanisms import LoginFailed, Mechanism, Plain, Scram
from kproxy.authentication.principal import Principal
from kproxy.authentication.states import ClientLogin, Mechanisms, State, without_secret
from kproxy.authentication.tokens import Bearer, TokenRules
from kproxy.authentication.users import Users
from kproxy.config.structs import Authentication, Cluster
from kproxy.filters.chain import Chain
from kproxy.filters.contract import Answer, Close, ConnectionFacts, Outcome, RequestFacts, Send
from kproxy.filters.narrow_api_versions import refused_version
from kproxy.output.escaping import printable
from kproxy.protocol import ApiKey, Direction, RequestHeader
from kproxy.protocol.constants import SIZE_FIELD
from kproxy.proxy.admission import ClientRefused, LoginRefused
from kproxy.proxy.broker_client import explain_foreign_protocol
from kproxy.proxy.filter_runtime import FilterRuntime
from kproxy.proxy.forwarding.link import Link
from kproxy.proxy.logs import log
from kproxy.proxy.tap.counted import CloseCause, Total
from kproxy.proxy.tap.counters import Counters
from kproxy.proxy.token_keys import TokenKeys

if TYPE_CHECKING:
    from kproxy.authentication.kerberos import Service

BY_CERTIFICATE = "SSL"  # Principal.mechanism
STATE = "authentication"  # in ConnectionFacts.state: the ClientLogin of a connection; in Runtime.kept: keys by URL
VERSIONS_S = 60.0  # so long the versions of a broker are used before it is asked again
MOST_VERSIONS = 1_024  # answers of brokers that are kept
LARGEST_TOKENS = {"OAUTHBEARER": 131_072, "GSSAPI": 65_536}  # bytes; of other mechanisms BEYOND_TOKEN
BEYOND_TOKEN = 4_096  # bytes of a frame around its token, and all of a frame without one
RECORD = 16_384  # bytes read from a TLS connection at a time
HASHES_AT_A_TIME = 2  # of PLAIN passwords, each takes 16 MB; and tickets of Kerberos
NS = 1_000_000_000
LONGEST_NAME = 200  # characters in the log
FAILURE_AGAIN_S = 60.0  # after which a failed login of the same kind is logged again
MOST_FAILURES = 10_000  # kinds
MOST_LOGGED = 100  # a minute
SOFTWARE_FROM = 3  # version of ApiVersions with the client's software (KIP-511)
LOGIN_APIS = (pack(">h", ApiKey.SASL_HANDSHAKE), pack(">h", ApiKey.SASL_AUTHENTICATE))

AskVersions = Callable[[tuple[str, int] | None, int], Awaitable[bytes]]  # target, version -> body of the response


class ClientStream:
    """Reads exactly as many bytes from a client as are asked for, and writes; plain or TLS.

    Args:
        connected: non-blocking; stays the caller's.
        tls: what a handshake has left: the SSLObject, and its buffers of received bytes and of bytes to send.
    """

    def __init__(
        self, connected: socket.socket, tls: tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO] | None = None
    ) -> None:
        self._connected = connected
        self._tls = tls

    async def read(self, size: int) -> bytes:
        """Return the next *size* bytes. Raises EOFError if the client ends before, or OSError."""
        received = bytearray()
        while len(received) < size:
            data = await self._receive(size - len(received))
            if not data:
                raise EOFError("the client left before it had logged in")
            received += data
        return bytes(received)

    async def write(self, data: bytes) -> None:
        """Send *data*. Raises OSError."""
        if self._tls is not None:
            self._tls[0].write(data)
            data = self._tls[2].read()
        await asyncio.get_running_loop().sock_sendall(self._connected, data)

    async def _receive(self, most: int) -> bytes:
        loop = asyncio.get_running_loop()
        if self._tls is None:
            return await loop.sock_recv(self._connected, most)
        side, incoming, outgoing = self._tls
        while True:
            try:
                return side.read(most)
            except ssl.SSLWantReadError:
                if outgoing.pending:  # the answer to a key update
                    await loop.sock_sendall(self._connected, outgoing.read())
                data = await loop.sock_recv(self._connected, RECORD)
                if not data:
                    return b""
                incoming.write(data)
            except ssl.SSLZeroReturnError:
                return b""


class Failures:
    """Which failed logins are logged: of the same address, user and reason one a minute, and how many there were before it.

    Of all together MOST_LOGGED a minute: who tries a user after another does not fill the disk. Metrics count each.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: OrderedDict[tuple[str, ...], tuple[float, int]] = OrderedDict()  # logged again when, not logged yet
        self._minute = clock(), 0  # its begin, and how many were logged in it

    def note(self, *kind: str) -> int:
        """Note a failure; return how many of its kind the log has to say, 0: none now."""
        now = self._clock()
        again_at, count = self._seen.get(kind, (now, 0))
        since, logged = self._minute if now < self._minute[0] + FAILURE_AGAIN_S else (now, 0)
        is_logged = now >= again_at and logged < MOST_LOGGED
        self._minute = since, logged + is_logged
        self._seen[kind] = (now + FAILURE_AGAIN_S, 0) if is_logged else (again_at, count + 1)
        if len(self._seen) > MOST_FAILURES:
            self._seen.popitem(last=False)
        return count + 1 if is_logged else 0


class ClientLogins:
    """The logins of clients at one virtual cluster, in one worker, under one configuration.

    Raises UsageError if a file cannot be used.

    Args:
        cluster: its ``authentication`` is set.
        unauthenticated_frame_size: limits.unauthenticated_frame_size.
        counters: of the worker.
        ask_versions: asks a broker for its versions; target None: any bootstrap broker.
        runtime: what the filters of all workers share.
        chain: returns the filters, which see a response to ApiVersions and learn of logins.
    """

    def __init__(
        self,
        cluster: Cluster,
        unauthenticated_frame_size: int,
        counters: Counters,
        ask_versions: AskVersions,
        runtime: FilterRuntime,
        chain: Callable[[], Chain],
    ) -> None:
        assert cluster.authentication is not None
        self._settings: Authentication = cluster.authentication
        settings = self._settings
        self._name = cluster.name
        self._largest_frame = unauthenticated_frame_size
        self._counters = counters
        self._ask_versions = ask_versions
        self._chain = chain
        self._answers: OrderedDict[tuple[tuple[str, int] | None, int], tuple[float, bytes]] = OrderedDict()
        self._threads: ThreadPoolExecutor | None = None
        self._budgets = Budgets(
            settings.failures_per_address,
            settings.failures_per_user,
            time.monotonic,
            runtime.shared_times("authentication"),
            runtime.shared_set("authentication.known"),
        )
        self._failures = Failures(time.monotonic)
        self._users: Users | None = None
        self._tokens: TokenKeys | None = None
        if settings.tokens is not None:
            kept = runtime.kept.setdefault(STATE, {})
            self._tokens = TokenKeys(settings.tokens, cluster.name, runtime.share_keys, kept)
        self._rules = parse_rules(settings.certificates or "")
        self._service: Service | None = None
        self._read_files()

    def _read_files(self) -> None:
        users, kerberos = self._settings.users, self._settings.kerberos
        if users is not None:
            self._users = Users(Path(users))
        if kerberos is not None:
            from kproxy.authentication.kerberos import Service  # noqa: PLC0415 - few clusters have Kerberos

            self._service = Service(kerberos.keytab, kerberos.service, kerberos.principal_rules)

    def receive_keys(self, url: str, keys: str) -> None:
        """Take the keys of an identity provider as another worker has fetched them."""
        if self._tokens is not None:
            self._tokens.receive(url, keys.encode())

    def reload(self) -> None:
        """Read the files again. Raises UsageError; then those read before stay in use."""
        self._read_files()
        if self._tokens is not None:
            self._tokens.reload()

    async def authenticate(
        self, link: Link, stream: ClientStream, known: ConnectionFacts, target: tuple[str, int] | None
    ) -> Principal:
        """Have the client prove who it is, by its certificate or by SASL.

        Raises ClientRefused, EOFError, OSError, UpstreamError.
        """
        name = name_of(known.tls.certificate or "", self._rules) if known.tls is not None else None
        if name is not None:
            principal = Principal(name, BY_CERTIFICATE)
            known.state[STATE] = ClientLogin({}, partial(self._versions, known, target), principal=principal)
            self._accept(link, known, principal)
            self._counters.add(Total.CLIENT_LOGINS_OK)
            return principal
        if not self._settings.mechanisms:
            self._counters.add(Total.CLIENT_LOGINS_FAILED)
            raise ClientRefused(CloseCause.AUTHENTICATION_FAILED, "no certificate that names the client")
        host = _host(known)
        login = ClientLogin(
            self._mechanisms(host),
            partial(self._versions, known, target),
            round(self._settings.session * 1_000),
            partial(self._budgets.admit_address, host),
        )
        self._chain().note_login(known, False)
        exchanges: list[tuple[bytes, bytes]] = []
        while login.state is not State.AUTHENTICATED:
            frame = await self._read_frame(stream, login)
            began = time.monotonic()
            answer = await login.receive(frame)
            if answer.failure is not None:
                await self._fail(known, login, answer.failure, began)
                with contextlib.suppress(OSError):
                    await stream.write(answer.frame)
                raise LoginRefused(CloseCause.AUTHENTICATION_FAILED, answer.failure.why)
            await stream.write(answer.frame)
            exchanges.append((frame, answer.frame))
        assert login.principal is not None
        if not login.is_raw:
            mechanism = login.mechanism
            link.login_exchanges = [(without_secret(frame, mechanism), answer) for frame, answer in exchanges]
        self._accept(link, known, login.principal)
        known.state[STATE] = login
        self._chain().note_login(known, True)
        self._counters.add(Total.CLIENT_LOGINS_OK)
        return login.principal

    def is_login(self, link: Link, frame: bytes) -> bool:
        """Return whether a request on an open connection is one of a re-authentication."""
        return link.is_authenticated and frame[SIZE_FIELD : SIZE_FIELD + 2] in LOGIN_APIS

    async def authenticate_again(self, link: Link, known: ConnectionFacts, frame: bytes) -> Outcome:
        """Answer a request of a re-authentication. If it fails, the connection is closed after the answer."""
        login: ClientLogin = known.state[STATE]
        login.use_mechanisms(self._mechanisms(_host(known)))
        began = time.monotonic()
        answer = await login.receive(frame)
        if answer.failure is not None:
            await self._fail(known, login, answer.failure, began)
            if not answer.frame:
                return Close("a re-authentication failed")
            asyncio.get_running_loop().call_soon(link.drain)
        elif login.state is State.AUTHENTICATED and login.principal is not None:
            self._accept(link, known, login.principal)
            self._counters.add(Total.CLIENT_LOGINS_REPEATED)
        return Answer(answer.frame)

    def _accept(self, link: Link, known: ConnectionFacts, principal: Principal) -> None:
        """Note who the client is, and when its session ends."""
        known.principal, known.groups, known.claims = principal.name, principal.groups, principal.claims
        known.mechanism = None if principal.mechanism == BY_CERTIFICATE else principal.mechanism
        self._budgets.note_success(_host(known), principal.name)
        link.is_authenticated = True
        link.session_ends_at = time.monotonic_ns() + principal.lifetime_ms * NS // 1_000 if principal.lifetime_ms else 0

    async def _read_frame(self, stream: ClientStream, login: ClientLogin) -> bytes:
        """Read one frame; its size is checked before any of it is read."""
        start = await stream.read(SIZE_FIELD)
        size = int.from_bytes(start, "big", signed=True)
        limit = BEYOND_TOKEN + LARGEST_TOKENS.get(login.mechanism, BEYOND_TOKEN)
        if not 0 <= size <= min(limit, self._largest_frame):
            foreign = explain_foreign_protocol(start, Direction.REQUEST)
            if foreign:
                raise ClientRefused(CloseCause.NOT_KAFKA, foreign)
            raise ClientRefused(CloseCause.AUTHENTICATION_FAILED, f"a frame of {size} bytes before authentication")
        return start + await stream.read(size)

    async def _fail(self, known: ConnectionFacts, login: ClientLogin, failure: LoginFailed, began: float) -> None:
        """Log and count a failure; return at a fixed time after the client's frame came, whatever took how long."""
        self._counters.add(Total.CLIENT_LOGINS_FAILED)
        self._budgets.note_failure(_host(known), failure)
        known.refused_user = failure.user
        count = self._failures.note(_host(known), printable(failure.user, LONGEST_NAME), failure.why)
        if count:
            log(
                "warning",
                "a login failed",
                cluster=self._name,
                connection=known.number,
                client=known.client,
                principal=printable(failure.user, LONGEST_NAME) or None,
                mechanism=login.mechanism or None,
                reason=failure.why,
                count=count,
            )
        await asyncio.sleep(max(0.0, began + self._settings.failure_delay - time.monotonic()))

    def _mechanisms(self, address: str) -> Mechanisms:
        """Return what makes a login of each mechanism that is offered, for a client at *address*."""
        admit = partial(self._budgets.admit_user, address)
        users, tokens, rules = self._users, self._tokens, self._settings.tokens
        made: dict[str, Callable[[], Mechanism]] = {}
        if tokens is not None and rules is not None:
            accepted = frozenset(rules.audience), frozenset(rules.scope)
            checked = TokenRules(rules.issuer, *accepted, rules.principal_claim, rules.groups_claim, rules.clock_skew)
            made["OAUTHBEARER"] = partial(Bearer, checked, tokens.current, tokens.refresh, time.time)
        if self._service is not None:
            from kproxy.authentication.kerberos import Gssapi  # noqa: PLC0415 - few clusters have Kerberos

            made["GSSAPI"] = partial(Gssapi, self._service, self._in_thread)
        for name in self._settings.mechanisms:
            if users is not None and name not in made:
                if name == "PLAIN":
                    made[name] = partial(Plain, users, self._in_thread, admit)
                else:
                    made[name] = partial(Scram, users, name, admit)
        return made

    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(HASHES_AT_A_TIME, "passwords")
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    # ApiVersions

    async def _versions(
        self, known: ConnectionFacts, target: tuple[str, int] | None, header: RequestHeader, body: Any
    ) -> bytes:
        """Return the response to ApiVersions, as the client would get it behind the filters."""
        version = header.api_version
        empty = pack(">ii", 4, header.correlation_id)
        if body is None:
            return refused_version(empty)
        if version >= SOFTWARE_FROM:
            known.software = body.client_software_name[:LONGEST_NAME], body.client_software_version[:LONGEST_NAME]
        answer = await self._versions_of(target, version)
        whole = pack(">ii", 4 + len(answer), header.correlation_id) + answer
        request = RequestFacts(ApiKey.API_VERSIONS, version, header.correlation_id)
        outcome = self._chain().on_response(known, request, whole)
        if isinstance(outcome, Awaitable):
            outcome = await outcome
        if not isinstance(outcome, Send):
            raise LoginFailed("a filter refuses the response to ApiVersions")
        return outcome.frame

    async def _versions_of(self, target: tuple[str, int] | None, version: int) -> bytes:
        """Return the body of a broker's ApiVersions response, the broker's or as it is remembered."""
        now = time.monotonic()
        at, answer = self._answers.get((target, version), (0.0, b""))
        if not answer or now > at + VERSIONS_S:
            answer = await self._ask_versions(target, version)
            self._answers[target, version] = now, answer
            self._answers.move_to_end((target, version))
            if len(self._answers) > MOST_VERSIONS:
                self._answers.popitem(last=False)
        return answer


def _host(known: ConnectionFacts) -> str:
    """Return the client's address without its port."""
    return known.client.rpartition(":")[0]
