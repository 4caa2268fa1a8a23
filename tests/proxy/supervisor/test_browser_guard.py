"""BrowserGuard: requests as browsers send them: from the page itself, from another site, after DNS rebinding, with no token."""

import pytest

from kproxy.proxy.supervisor.browser_guard import BrowserGuard, cookie_name, host_name
from tests.support.foreign_sites import ORIGINS, REBOUND, SITES

HOST = "127.0.0.1:9644"
TOKEN = "a-token-of-the-test"


def refused(method: str, host: str | None = HOST, **headers: str) -> int | None:
    """The status with which a request is refused; None: it is not. Underscores stand for hyphens."""
    named = [] if host is None else [(b"host", host.encode())]
    others = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    found = BrowserGuard(["kproxy.example"], TOKEN).refusal(method, [*named, *others])
    return None if found is None else found[0]


def test_the_page_itself_may_read_and_change() -> None:
    cookie = f"theme=dark; kproxy_token_9644={TOKEN}"
    assert refused("GET", cookie=cookie) is None
    assert refused("GET", x_kproxy_token=TOKEN) is None
    sent_by_browser = {"origin": f"http://{HOST}", "sec_fetch_site": "same-origin", "cookie": cookie}
    assert refused("POST", x_kproxy_token=TOKEN, **sent_by_browser) is None
    assert refused("PUT", x_kproxy_token=TOKEN) is None, "curl sends no Origin"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("host", REBOUND)
def test_a_name_that_is_not_ours_gets_nothing(method: str, host: str) -> None:
    assert refused(method, host, x_kproxy_token=TOKEN) == 421


def test_a_request_names_one_host() -> None:
    guard = BrowserGuard(token=TOKEN)
    token = (b"x-kproxy-token", TOKEN.encode())
    assert guard.refusal("GET", [token]) is not None
    assert guard.refusal("GET", [token, (b"host", b"127.0.0.1"), (b"host", b"evil.example")]) is not None
    assert guard.refusal("GET", [token, (b"host", b"127.0.0.1")]) is None


@pytest.mark.parametrize("host", ["localhost:1", "[::1]:9644", "10.1.2.3", "KPROXY.example:80", "kproxy.example."])
def test_names_of_ours(host: str) -> None:
    assert refused("GET", host, x_kproxy_token=TOKEN) is None


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "é", TOKEN.upper()])
def test_without_the_token_nothing_is_read_or_changed(token: str) -> None:
    for method in ("GET", "POST", "PUT"):
        assert refused(method, x_kproxy_token=token) == 403
    assert refused("GET", cookie=f"kproxy_token_9644={token}") == 403
    assert refused("GET") == 403


@pytest.mark.parametrize(
    "others", ['theme={"dark": 1}', "a", "@=1", "ä=é", "a=b c", '"', "=", "kproxy_token_9644=of another one"]
)
def test_cookies_of_others_on_this_machine_do_not_lock_the_page(others: str) -> None:
    """Cookies are of a host with all its ports: whatever is served there sets some, and not all keep to RFC 6265."""
    ours = f"kproxy_token_9644={TOKEN}"
    assert refused("GET", cookie=f"{others}; {ours}") is None
    assert refused("GET", cookie=f"{ours};{others}") is None


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_another_port_of_this_host_gets_nothing_though_the_browser_sends_it_the_cookie(method: str) -> None:
    has = {"cookie": f"kproxy_token_9644={TOKEN}", "x_kproxy_token": TOKEN}
    assert refused(method, **has) is None
    assert refused(method, **has, sec_fetch_site="same-site") == 403
    assert refused(method, **has, origin="http://127.0.0.1:9645") == 403


def test_a_change_needs_more_than_the_cookie_that_browsers_add_by_themselves() -> None:
    assert refused("POST", cookie=f"kproxy_token_9644={TOKEN}") == 403


@pytest.mark.parametrize("origin", [*ORIGINS, "http://127.0.0.1:9645"])
def test_pages_of_other_sites_change_nothing(origin: str) -> None:
    assert refused("POST", x_kproxy_token=TOKEN, origin=origin) == 403


@pytest.mark.parametrize("site", SITES)
def test_other_sites_are_known_by_what_the_browser_says_of_them(site: str) -> None:
    assert refused("POST", x_kproxy_token=TOKEN, sec_fetch_site=site) == 403


def test_the_cookie_is_of_one_port_and_out_of_reach_of_scripts() -> None:
    assert refused("GET", cookie=f"kproxy_token_9645={TOKEN}") == 403, "of another kproxy on this machine"
    value = BrowserGuard(token=TOKEN).set_cookie(HOST)
    assert value == f"kproxy_token_9644={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    assert cookie_name("[::1]:80") == "kproxy_token_80"
    assert cookie_name("localhost") == "kproxy_token"


@pytest.mark.parametrize("cookie", ["=;=;", '"', "a" * 100_000, "kproxy_token_9644", "\xff=\xff"])
def test_malformed_cookies_are_no_token(cookie: str) -> None:
    assert refused("GET", cookie=cookie) == 403


def test_each_guard_has_a_token_of_its_own() -> None:
    first, second = BrowserGuard().token, BrowserGuard().token
    assert first != second
    assert len(first) >= 43  # 32 bytes in base64


def test_host_names() -> None:
    assert host_name("LocalHost.:80") == "localhost"
    assert host_name("[::1]:80") == "::1"
