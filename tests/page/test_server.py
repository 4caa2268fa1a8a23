"""The routes of the page over a capture."""

import functools
from typing import Any

import pytest

from kproxy.page.answers import Answers
from tests.page.asking import HERE, TOKEN, Browser, browsed
from tests.page.test_recorded import ORDERS, decoded


@pytest.fixture(scope="module")
def page() -> Any:
    with browsed(ORDERS) as browser:
        yield browser


def test_the_source(page: Browser) -> None:
    found = page.get("/page/api/source").json()
    lines = decoded(ORDERS)
    assert (found["name"], found["exchanges"], found["dropped"], found["loading"]) == (ORDERS.name, len(lines), 0, None)
    assert found["bytes"] > sum(
        line["requestSize"] + (line["responseSize"] or 0) for line in lines
    )  # and the log's lines
    assert found["token"] == TOKEN
    assert {column["name"] for column in found["columns"] if column["shown"]} >= {"requestAt", "apiName", "latencyMs"}
    assert "apiName" in {name["name"] for name in found["names"]}
    assert isinstance(found["firstNs"], str)


def test_rows(page: Browser) -> None:
    found = page.get("/page/api/exchanges", params={"columns": "apiName,clientId", "offset": 2, "limit": 3}).json()
    lines = decoded(ORDERS)
    assert found["rows"] == [[line["apiName"], line["clientId"]] for line in lines[2:5]]
    assert (found["total"], found["offset"], found["numbers"]) == (len(lines), 2, [3, 4, 5])


def test_an_exchange_and_one_that_there_is_not(page: Browser) -> None:
    assert page.get("/page/api/exchanges/1").json()["row"]["apiName"] == decoded(ORDERS)[0]["apiName"]
    missing = page.get("/page/api/exchanges/999999")
    assert (missing.status_code, list(missing.json())) == (404, ["error", "column", "length"])


def test_a_position(page: Browser) -> None:
    assert page.get("/page/api/position", params={"number": 4}).json() == {"offset": 3}
    assert page.get("/page/api/position", params={"number": 400_000}).json() == {"offset": None}


@pytest.mark.parametrize(
    "path",
    [
        "/page/api/exchanges?offset=x",
        "/page/api/exchanges?limit=-1",
        "/page/api/exchanges?sort=none",
        "/page/api/exchanges?columns=a",
    ],
)
def test_wrong_questions_get_one_sentence(page: Browser, path: str) -> None:
    answer = page.get(path)
    assert (answer.status_code, answer.json()["column"]) == (400, None)
    assert answer.json()["error"]


@pytest.mark.parametrize(
    "path", ["/page/static/../server.py", "/page/static/%2e%2e/server.py", "/page/static/none.js", "/nothing"]
)
def test_no_other_file_is_served(page: Browser, path: str) -> None:
    assert page.get(path).status_code == 404


def test_the_page_itself(page: Browser) -> None:
    answer = page.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_nothing_is_changed_by_any_method(page: Browser, method: str) -> None:
    """Also for a request that has the token: the one change that the page makes, a replay, needs a body."""
    nothing: Any = None  # of what is asked only the routes are used
    named = {"{name:path}": "main.js", "{name}": "map", "{number:int}": "1"}
    paths = [route.path for route in Answers(nothing, TOKEN).routes()]
    paths = [functools.reduce(lambda path, one: path.replace(*one), named.items(), path) for path in paths]
    assert len(paths) > 12
    before = page.get("/page/api/source").json()
    headers = {"origin": HERE, "x-kproxy-token": TOKEN, "x-http-method-override": "GET"}
    for path in paths:
        refused = 400 if method == "POST" and path.startswith("/page/api/replay") else 405  # a replay without its parts
        assert page.ask(method, path, headers=headers, content=b"{}").status_code == refused, path
    assert page.get("/page/api/source").json() == before
