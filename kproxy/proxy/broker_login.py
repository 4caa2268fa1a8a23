"""Log the links of a virtual cluster in to their brokers, as kproxy itself: before the first request, and again between two.

A link says when a login may begin (LinkOwner.on_login_due). Until the login ends, no further request of the client begins,
while responses go on. The login's own requests (SaslHandshake, SaslAuthenticate) go out between the client's, and the link hands
their responses over (Link.send_own_request in forwarding/link.pyx): neither the client nor the tap gets anything of it.

A session that ends (KIP-368) is renewed when 85 to 95 % of its lifetime are over, as Kafka's clients do: at once if the link is
between two requests, else before the next request. Brokers answer what came before, so no request is lost.
"""

import asyncio
import random
import time
from typing import Any

from kproxy.config.structs import Login, Timeouts
from kproxy.errors import DecodeError, LoginRefused, UsageError
from kproxy.login.client_settings import Credentials
from kproxy.login.identities import Identities
from kproxy.login.log_in import Ask, log_in
from kproxy.protocol import ApiKey
from kproxy.protocol.constants import SIZE_FIELD
from kproxy.proxy.broker_client import BrokerClient, decode_response, encode_request
from kproxy.proxy.forwarding.link import Link

# of the lifetime, as in Kafka's SaslClientAuthenticator.setAuthenticationEndAndSessionReauthenticationTimes
RENEWED_AFTER = 0.85, 0.95
CLOSED = "the broker closes the connection"


class BrokerLogin:
    """How a virtual cluster logs in to its brokers under one configuration.

    Args:
        login: of the cluster.
        timeouts: a login may take as long as a connect.
    """

    def __init__(self, login: Login, timeouts: Timeouts) -> None:
        try:
            self._identities = Identities(login, time.time)
        except LoginRefused as error:
            raise UsageError(f"login: {error}: {error.advice}") from None
        self._fetching = asyncio.Lock()
        self.timeout = timeouts.connect
        self.versions: dict[object, dict[int, int]] = {}  # of a broker's APIs, by its address

    async def log_in(self, ask: Ask, host: str, versions: dict[int, int], principal: str | None) -> int:
        """Log in for a client; *ask* sends requests on the connection. Returns and raises what kproxy.login.log_in does."""
        try:
            return await log_in(ask, await self._credentials(principal), host, asyncio.to_thread, versions)
        except LoginRefused:
            self._identities.note_refusal(principal)
            raise

    async def _credentials(self, principal: str | None) -> Credentials:
        if known := self._identities.known(principal):
            return known
        async with self._fetching:
            if known := self._identities.known(principal):  # another link has waited for the same
                return known
            return await asyncio.to_thread(self._identities.fetch, principal)

    async def log_in_client(self, client: BrokerClient, host: str, versions: dict[int, int]) -> None:
        """Log in on a connection for kproxy's own requests, if kproxy has an identity of its own. Raises LoginRefused."""
        if self._identities.has_own:
            await self.log_in(client.ask, host, versions, None)


class LinkLogin:
    """The logins on one link, one request at a time; *by*: the configuration, which stays the link's."""

    def __init__(self, link: Link, by: BrokerLogin) -> None:
        self._link = link
        self._principal = None if link.facts is None else link.facts.principal  # the same at each login of a session
        self._by = by
        self._response: asyncio.Future[bytes] | None = None
        self._renewal: asyncio.TimerHandle | None = None

    async def log_in(self) -> None:
        """Log in while the client waits, and let the client go on. Raises LoginRefused, whose text holds no secret."""
        try:
            async with asyncio.timeout(self._by.timeout):
                versions = await self._versions()
                host, _ = self._link.target or ("", 0)
                lifetime_ms = await self._by.log_in(self._ask, host, versions, self._principal)
        except TimeoutError:
            raise LoginRefused(f"no answer within {self._by.timeout:g} s", "is the broker overloaded?") from None
        except (EOFError, DecodeError) as error:
            self._by.versions.pop(self._link.target, None)  # the broker may be of another release by now
            raise LoginRefused(str(error), "is this a listener with SASL? See the log of the broker") from None
        if lifetime_ms > 0:
            seconds = lifetime_ms / 1_000 * random.uniform(*RENEWED_AFTER)
            self._renewal = asyncio.get_running_loop().call_later(seconds, self._link.begin_login)
        self._link.end_login()

    async def _versions(self) -> dict[int, int]:
        known = self._by.versions
        if self._link.target not in known:
            offered = await self._ask(ApiKey.API_VERSIONS, 0, "{}")
            known[self._link.target] = {api.api_key: api.max_version for api in offered.api_keys}
        return known[self._link.target]

    async def _ask(self, api_key: int, version: int, body: Any) -> Any:
        """Send a request between the client's; return the response. Raises EOFError if none comes, DecodeError for a bad one."""
        self._response = asyncio.get_running_loop().create_future()
        self._link.send_own_request(encode_request(api_key, version, body))
        return decode_response(api_key, version, await self._response)

    def on_response(self, frame: bytes | None) -> None:
        """Take the response; None: the broker has closed, or the link is closed."""
        if self._response is None or self._response.done():
            return
        if frame is None:
            self._response.set_exception(EOFError(CLOSED))
        else:
            self._response.set_result(frame[SIZE_FIELD:])

    def close(self) -> None:
        """Give up what runs: the link is closed."""
        self.on_response(None)
        if self._renewal is not None:
            self._renewal.cancel()
