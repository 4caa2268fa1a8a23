"""BrowserGuard: allows requests of the page's own scripts and of people with its token, not those of other sites.

A page that another site opens in the same browser can send requests here, and after DNS rebinding even under a name of its own.
It can neither read the token, nor set a header of its own (kproxy allows no cross-origin request, so the browser refuses to send
one), nor forge Host, Origin and Sec-Fetch-Site, which the browser writes. So:

    every request   names a host of kproxy: a loopback name, an IP address, or one that the configuration lists.
                    Origin and Sec-Fetch-Site, if sent, name this page: a browser takes another port of this host for the same
                    site, and sends it the cookie
    reading         has the token, in the cookie or in the header X-Kproxy-Token
    changing        has the token in the header

The cookie has the port in its name: all ports of a host share their cookies, and two pages on one machine have two tokens.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator

from kproxy.protocol.addresses import parse_ip

LOOPBACK = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})
TOKEN_HEADER = b"x-kproxy-token"
COOKIE = "kproxy_token"
TOKEN_BYTES = 32
READING = ("GET", "HEAD")
SAME_SITE = ("same-origin", "none")  # none: the person has typed the address, or opened a bookmark

Headers = Iterable[tuple[bytes, bytes]]  # names in small letters, as ASGI has them
Refusal = tuple[int, str]  # status, and one sentence


class BrowserGuard:
    """Decides about requests.

    Args:
        hosts: names under which the page may be requested, in addition to loopback names and IP addresses.
        token: the token of the page; None: a new one.
    """

    def __init__(self, hosts: Iterable[str] = (), token: str | None = None) -> None:
        self._hosts = LOOPBACK | {host.lower() for host in hosts}
        self.token = new_token() if token is None else token

    def refusal(self, method: str, headers: Headers) -> Refusal | None:
        """Return why a request is refused; None: it is allowed."""
        listed = list(headers)
        refused = self.host_refusal(listed)
        if refused is not None:
            return refused
        if method in READING and not self.may_read(listed):
            return 403, f"the token is missing or wrong: {HOW}"
        if method not in READING and not self._is_token_alone(_values(listed, TOKEN_HEADER)):
            return 403, "a change needs the token in the header X-Kproxy-Token"
        return (403, "the request comes from a page of another site") if _is_of_another_site(listed) else None

    def host_refusal(self, headers: Headers) -> Refusal | None:
        """Return why a request is refused by its Host header alone; None: it is not."""
        named = _values(headers, b"host")
        if len(named) == 1 and self.is_ours(named[0]):
            return None
        return 421, "this is not a name of kproxy; ask for it by its address"

    def is_token(self, text: str) -> bool:
        """Return whether *text* is the token, in a time that does not depend on how much of it is right."""
        return hmac.compare_digest(text.encode("utf-8", "replace"), self.token.encode())

    def set_cookie(self, host: str) -> str:
        """Return the value of Set-Cookie that gives a browser the token; *host* is the Host header of its request."""
        return f"{cookie_name(host)}={self.token}; Path=/; HttpOnly; SameSite=Strict"

    def may_read(self, headers: Headers) -> bool:
        """Return whether a request has the token and names a host of kproxy. Another site may have led the browser here."""
        listed = list(headers)
        if self.host_refusal(listed) is not None:
            return False
        given = _values(listed, TOKEN_HEADER)
        if given:
            return self._is_token_alone(given)
        (host,) = _values(listed, b"host")
        return any(self.is_known(text, host) for text in _values(listed, b"cookie"))

    def is_known(self, cookies: str, host: str) -> bool:
        """Return whether the token is in a Cookie header of a request to *host*."""
        return any(self.is_token(value) for value in _cookie_values(cookies, cookie_name(host)))

    def _is_token_alone(self, given: list[str]) -> bool:
        return len(given) == 1 and self.is_token(given[0])

    def is_ours(self, host: str) -> bool:
        """Return whether a Host header names kproxy; an IP address always does, as no foreign name led to it."""
        name = host_name(host)
        return name in self._hosts or parse_ip(name) is not None


def new_token() -> str:
    """Return a new token that cannot be guessed."""
    return secrets.token_urlsafe(TOKEN_BYTES)


HOW = "open the address that kproxy printed (see kproxy run --help), or send the token in the header X-Kproxy-Token"


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60ch;margin:8vh auto;padding:0 16px}h1{font-size:20px}"
    "dt{font-weight:600;margin-top:8px}dd{margin:0}pre{overflow:auto}"
)
TOKEN_PAGE_STYLE = (
    f"'sha256-{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'"  # for style-src of a policy
)


def token_page(sentence: str, more: str = "") -> str:
    """Return what a browser shows that asks for the page without its token: an HTML page that says what to do."""
    from html import escape  # noqa: PLC0415 - a list of 2,000 names comes with it

    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark"><title>kproxy: the token is missing</title>'
        f"<style>{_STYLE}</style>"
        f"<h1>kproxy</h1><p>{escape(sentence)}</p>"
        "<p>The page shows traffic, so it opens only by an address with a token in it. Open that address once; the browser "
        "remembers the token while kproxy runs.</p><dl>"
        "<dt>kproxy open</dt><dd>prints the address in its terminal.</dd>"
        "<dt>kproxy run, kproxy demo</dt><dd>print it in the terminal. Without a terminal the log names a file that has it: "
        "look for the event <code>the page</code>.</dd></dl>"
        f"{more}</html>\n"
    )


def cookie_name(host: str) -> str:
    """Return the name of the cookie for the Host header of a request."""
    port = host.rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdecimal() and port.isascii() else COOKIE


def host_name(host: str) -> str:
    """Return the host of a Host header (RFC 9110, 7.2): small letters, without port, brackets and final dot; "" for none."""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        return name if bracket and (not port or port.startswith(":")) else ""
    name, _, port = host.partition(":")
    return name.lower().removesuffix(".") if not port or port.isdecimal() else ""


def _values(headers: Headers, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name == wanted]


def _is_of_another_site(headers: list[tuple[bytes, bytes]]) -> bool:
    """Return whether the browser says that a page of another site sent the request, whose Host header is valid."""
    (host,) = _values(headers, b"host")
    ours = (f"http://{host.lower()}", f"https://{host.lower()}")
    if any(origin.lower() not in ours for origin in _values(headers, b"origin")):
        return True
    return any(site not in SAME_SITE for site in _values(headers, b"sec-fetch-site"))


def _cookie_values(cookies: str, name: str) -> Iterator[str]:
    """Yield the values of the cookies of that name. Other cookies may hold anything, as other servers on this host set them.

    http.cookies stops at the first cookie that it does not understand, and knows only the last of two with the same name.
    """
    for cookie in cookies.split(";"):
        key, _, value = cookie.partition("=")
        if key.strip() == name:
            yield value.strip()
