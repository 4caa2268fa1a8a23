"""Whom a page in the browser obeys: requests of its own scripts and of people with its token, not those of other sites.

A page that another site opens in the same browser can send requests here, and after DNS rebinding even under a name of its own.
What it cannot do is read the token, set a header of its own (kproxy allows no cross-origin request, so the browser refuses to
send one), or forge Host, Origin and Sec-Fetch-Site, which the browser writes. So:

    every request   names a host of ours: a loopback name, an IP address, or one that the configuration lists
    reading         has the token, in the cookie or in the header X-Kproxy-Token
    changing        has the token in the header; Origin and Sec-Fetch-Site, where a browser has sent them, name this page

The cookie has the port in its name: all ports of a host share their cookies, and two pages on one machine have two tokens.
"""

import hmac
import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie

from kproxy.protocol.addresses import parse_ip

LOOPBACK = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})
TOKEN_HEADER = b"x-kproxy-token"
COOKIE = "kproxy_token"
TOKEN_BYTES = 32
READING = ("GET", "HEAD")
SAME_SITE = ("same-origin", "none")  # none: the person has typed the address, or opened a bookmark
LONGEST_COOKIES = 16_384  # characters

Headers = Iterable[tuple[bytes, bytes]]  # names in small letters, as ASGI has them
Refusal = tuple[int, str]  # status, and one sentence


class BrowserGuard:
    """Decides about requests.

    Args:
        hosts: names under which the page may be asked, beside loopback ones and IP addresses.
        token: None: a new one.
    """

    def __init__(self, hosts: Iterable[str] = (), token: str | None = None) -> None:
        self._hosts = LOOPBACK | {host.lower() for host in hosts}
        self.token = new_token() if token is None else token

    def refusal(self, method: str, headers: Headers) -> Refusal | None:
        """Why a request is refused; None: it is allowed."""
        listed = list(headers)
        found = self.host_refusal(listed)
        if found is not None:
            return found
        if method in READING:
            return None if self._may_read(listed) else (403, f"the token is missing or wrong: {HOW}")
        return self._change_refusal(listed)

    def host_refusal(self, headers: Headers) -> Refusal | None:
        """Why a request is refused by its Host header alone."""
        named = _values(headers, b"host")
        if len(named) == 1 and self.is_ours(named[0]):
            return None
        return 421, "this is not a name of the admin server; ask it by its address"

    def is_token(self, text: str) -> bool:
        """Whether it is the token; how long that takes says nothing about it."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.token.encode())

    def set_cookie(self, host: str) -> str:
        """The value of Set-Cookie that gives a browser the token; *host* is the Host header of its request."""
        return f"{cookie_name(host)}={self.token}; Path=/; HttpOnly; SameSite=Strict"

    def _may_read(self, headers: list[tuple[bytes, bytes]]) -> bool:
        given = _values(headers, TOKEN_HEADER)
        if given:
            return len(given) == 1 and self.is_token(given[0])
        (host,) = _values(headers, b"host")
        wanted = cookie_name(host)
        return any(
            self.is_token(morsel.value)
            for text in _values(headers, b"cookie")
            for name, morsel in _cookies(text).items()
            if name == wanted
        )

    def _change_refusal(self, headers: list[tuple[bytes, bytes]]) -> Refusal | None:
        given = _values(headers, TOKEN_HEADER)
        if len(given) != 1 or not self.is_token(given[0]):
            return 403, "a change needs the token in the header X-Kproxy-Token"
        (host,) = _values(headers, b"host")
        origins = _values(headers, b"origin")
        if any(origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}") for origin in origins):
            return 403, "the request comes from a page of another site"
        if any(site not in SAME_SITE for site in _values(headers, b"sec-fetch-site")):
            return 403, "the request comes from a page of another site"
        return None

    def is_ours(self, host: str) -> bool:
        """Whether a Host header is ours; an IP address always is, as no foreign name led to it."""
        name = host_name(host)
        return name in self._hosts or parse_ip(name) is not None


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(TOKEN_BYTES)


HOW = "open the address that kproxy has logged, or send it in the header X-Kproxy-Token"


def cookie_name(host: str) -> str:
    """The name of the cookie for the Host header of a request."""
    port = host.rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdecimal() and port.isascii() else COOKIE


def host_name(host: str) -> str:
    """The host of a Host header (RFC 9110, 7.2): small letters, without its port, brackets and the root's dot; "" for none."""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        return name if bracket and (not port or port.startswith(":")) else ""
    name, _, port = host.partition(":")
    return name.lower().removesuffix(".") if not port or port.isdecimal() else ""


def _values(headers: Headers, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name == wanted]


def _cookies(text: str) -> SimpleCookie:
    """The cookies of a header; those that are malformed are none."""
    found = SimpleCookie()
    try:
        found.load(text[:LONGEST_COOKIES])
    except CookieError:
        return SimpleCookie()
    return found
