"""Another site cannot read or act: foreign names, foreign origins, no token."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kproxy.page.security import Guard
from kproxy.proxy.supervisor.browser_guard import cookie_name
from tests.page.asking import HERE, TOKEN, Browser
from tests.support.foreign_sites import ORIGINS, REBOUND, SITES


async def secret(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("secret", headers={"content-security-policy": "default-src *"})


def client() -> Browser:
    routes = [Route("/", secret), Route("/page/api/source", secret), Route("/act", secret, methods=["POST", "PUT"])]
    guard = Middleware(Guard, token=TOKEN, hosts=["kproxy.example"])
    return Browser(Starlette(routes=routes, middleware=[guard]))


@pytest.fixture
def inside() -> Browser:
    found = client()
    found.get("/", params={"token": TOKEN})
    return found


def test_the_token_becomes_a_cookie_that_no_script_and_no_other_site_gets() -> None:
    answer = client().get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"kproxy_token_8000={TOKEN};") and "HttpOnly" in cookie and "SameSite=Strict" in cookie


def test_what_a_browser_is_started_with_lets_one_in() -> None:
    guard = Guard(Starlette(routes=[Route("/page/api/source", secret)]), TOKEN, once="seen-by-all")
    first, second = Browser(guard), Browser(guard)
    assert first.get("/", params={"token": "seen-by-all"}).status_code == 303
    assert first.get("/page/api/source").text == "secret"
    refused = second.get("/", params={"token": "seen-by-all"})
    assert refused.status_code == 401 and "used already" in refused.text
    assert second.get("/page/api/source", headers={"x-kproxy-token": "seen-by-all"}).status_code == 401
    assert second.get("/", params={"token": TOKEN}).status_code == 303


def test_a_program_may_read_with_the_token_in_a_header() -> None:
    """As the admin port says, which passes such a request on."""
    assert client().get("/page/api/source", headers={"x-kproxy-token": TOKEN}).text == "secret"
    for wrong in ({"x-kproxy-token": "wrong"}, {"x-kproxy-token": TOKEN, "origin": "http://attacker.example"}):
        assert client().get("/page/api/source", headers=wrong).status_code in (401, 403)


@pytest.mark.parametrize("token", ["", "wrong", "a-token-for-test", "ä", TOKEN.upper()])
def test_without_it_nothing_is_told(token: str) -> None:
    for answer in (
        client().get("/", params={"token": token}),
        client().get("/page/api/source", headers={"cookie": f"{cookie_name(HERE)}={token}".encode()}),
        client().get("/page/api/source", params={"token": TOKEN}),
        client().get("/"),
    ):
        assert answer.status_code == 401 and "secret" not in answer.text
        if answer.request.url.path == "/":
            assert "Open that address once" in answer.text and answer.headers["content-type"].startswith("text/html")
        else:
            assert list(answer.json()) == ["error", "column", "length"]


def test_foreign_names_and_other_sites_are_refused_and_a_change_needs_the_header(inside: Browser) -> None:
    """As the admin port refuses them: tests/proxy/supervisor/test_admin.py has every kind."""
    for headers, status in (
        ({"host": REBOUND[0], "origin": f"http://{REBOUND[0]}"}, 421),
        ({"origin": ORIGINS[0]}, 403),
        ({"sec-fetch-site": SITES[0]}, 403),
        ({"host": "KPROXY.example:8000"}, 200),
    ):
        answer = inside.get("/page/api/source", headers=headers)
        assert (answer.status_code, answer.text == "secret") == (status, status == 200), headers
    has = {"x-kproxy-token": TOKEN}
    assert inside.post("/act", headers=has).status_code == inside.put("/act", headers=has).status_code == 200
    assert inside.post("/act").status_code == 403
    assert inside.post("/act", headers={**has, "origin": ORIGINS[0]}).status_code == 403


def test_every_answer_is_locked_down(inside: Browser) -> None:
    for answer in (
        inside.get("/page/api/source"),
        inside.get("/none"),
        client().get("/"),
        inside.get("/", headers={"host": "x.y"}),
    ):
        policy = answer.headers.get_list("content-security-policy")
        assert len(policy) == 1 and "default-src 'none'" in policy[0] and "unsafe" not in policy[0]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers
