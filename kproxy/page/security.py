"""Refuse requests as BrowserGuard does, let people in by the token, and add protecting headers to every answer.

What this protects against

    another site in the same browser   cannot send the cookie (SameSite=Strict), is refused by its Origin and Sec-Fetch-Site, gets
                                       no CORS headers; what changes something also needs the token in a header
    DNS rebinding                      the Host header must be a loopback name, an IP address, or one of the names given
    another user of this machine       has no token: it is in the address that ``kproxy open`` prints, once, then in a cookie. The
                                       browser is started with another address, which all users can see among the processes: the
                                       word in it in place of the token works once
    what is in the traffic             only kproxy's own scripts run (Content-Security-Policy); browsers must not guess types
"""

import hmac
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kproxy.proxy.supervisor.browser_guard import READING, TOKEN_PAGE_STYLE, BrowserGuard, token_page

POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self' {TOKEN_PAGE_STYLE}; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


class Guard:
    """ASGI middleware that lets only the person pass who started kproxy.

    Args:
        app: what is guarded.
        token: see kproxy.proxy.supervisor.browser_guard.
        hosts: names under which it may be requested, in addition to loopback names and IP addresses.
        once: works like the token, but only for the first request that has it; empty: there is none.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str] = (), once: str = "") -> None:
        self._app = app
        self._guard = BrowserGuard(hosts, token)
        self._once = once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification, version 3."""
        if scope["type"] != "http":  # a WebSocket, which nothing here speaks; the server closes it
            return
        app = self._answer(scope) or self._app

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                ours = {name for name, _ in HEADERS}
                kept = [pair for pair in message.get("headers", []) if pair[0].lower() not in ours]
                message["headers"] = kept + HEADERS
            await send(message)

        await app(scope, receive, send_guarded)

    def _answer(self, scope: Scope) -> Response | None:
        """Return the answer in place of the page; None if the request may pass."""
        headers = list(scope["headers"])
        refused = self._guard.host_refusal(headers)
        if refused is not None:
            return refusal(*refused)
        is_page = scope["path"] == "/" and scope["method"] in READING
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if given and is_page:
            (host,) = (value.decode("latin-1") for name, value in headers if name == b"host")
            return self._let_in(given[0], host)
        if not self._guard.may_read(headers):
            sentence = "The token is missing: open the address that kproxy printed."
            return _token_page(sentence) if is_page else refusal(401, sentence)
        if is_page:  # a link of another site may lead here
            return None
        refused = self._guard.refusal(scope["method"], headers)
        return None if refused is None else refusal(*refused)

    def _let_in(self, token: str, host: str) -> Response:
        """Redirect to the page with a cookie, as a token in the address would stay in the browser's history."""
        if not self._guard.is_token(token) and not self._is_first(token):
            return _token_page(
                "This is not the token, or it was used already: open the address that kproxy printed last."
            )
        answer = RedirectResponse("/", 303)
        answer.headers["set-cookie"] = self._guard.set_cookie(host)
        return answer

    def _is_first(self, token: str) -> bool:
        """Return whether *token* is the word that works once; from now on it does not work."""
        is_first = self._once != "" and hmac.compare_digest(token.encode("utf-8", "replace"), self._once.encode())
        if is_first:
            self._once = ""
        return is_first


def _token_page(sentence: str) -> Response:
    return HTMLResponse(token_page(sentence), 401)


def refusal(status: int, sentence: str, column: int | None = None, length: int | None = None) -> Response:
    """Return an answer that says why a request is refused, and where in the filter the mistake is."""
    return JSONResponse({"error": sentence, "column": column, "length": length}, status)
