"""The routes of the page over a capture."""

import asyncio
import functools
import platform
import re
import subprocess
import sys
from mmap import PAGESIZE
from typing import Any

import pytest

import kproxy.page
from kproxy.page.answers import Answers
from kproxy.page.server import page_app
from tests.page.asking import HERE, ORDERS, TOKEN, Browser, browsed, decoded, opened
from tests.support.corpus import CAPTURES


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


def test_wrong_questions_get_one_sentence(page: Browser) -> None:
    for asked in ("offset=x", "limit=-1", "sort=none", "columns=a"):
        answer = page.get(f"/page/api/exchanges?{asked}")
        assert (answer.status_code, answer.json()["column"]) == (400, None), asked
        assert answer.json()["error"]


def test_no_other_file_is_served(page: Browser) -> None:
    for path in ("/page/static/../server.py", "/page/static/%2e%2e/server.py", "/page/static/none.js", "/nothing"):
        assert page.get(path).status_code == 404, path


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


def test_a_filter(page: Browser) -> None:
    numbers = [n for n, line in enumerate(decoded(ORDERS), 1) if line["apiName"] == "Fetch"]
    asked = {"filter": 'apiName == "Fetch"', "columns": "number"}
    assert page.get("/page/api/exchanges", params=asked).json()["numbers"] == numbers
    at = page.get("/page/api/position", params={**asked, "number": numbers[1]}).json()
    assert at == {"offset": 1}


def test_a_filter_with_a_mistake_says_where(page: Browser) -> None:
    for path in ("exchanges", "position", "activity", "heatmap"):
        answer = page.get(f"/page/api/{path}", params={"filter": "true && apiNam == 3"})
        assert (answer.status_code, answer.json()["column"], answer.json()["length"]) == (400, 9, 6)
        assert "apiName" in answer.json()["error"]


def test_a_number_of_no_exchange_is_refused_with_a_sentence(page: Browser) -> None:
    for number in ("9" * 5_000, str(1 << 63), "-1", "x"):
        for path in (
            f"exchanges/{number}",
            f"exchanges/{number}/request",
            f"position?filter=apiKey==1&number={number}",
        ):
            answer = page.get(f"/page/api/{path}")
            assert (answer.status_code, "is no whole number from 0 to" in answer.json()["error"]) == (400, True), path


def test_activity_heat_map_and_analyses(page: Browser) -> None:
    activity = page.get("/page/api/activity", params={"by": "api", "buckets": 5}).json()
    assert sum(sum(one["exchanges"]) for one in activity["series"]) == len(decoded(ORDERS))
    assert len(page.get("/page/api/heatmap", params={"buckets": 5}).json()["counts"]) == 5
    names = [one["id"] for one in page.get("/page/api/analyses").json()]
    assert page.get(f"/page/api/analyses/{names[0]}").json()["id"] == names[0]
    assert page.get("/page/api/analyses/none").status_code == 404
    assert page.get("/page/api/activity", params={"fromNs": "yesterday"}).status_code == 400


def test_compare_complete_and_command(page: Browser) -> None:
    assert page.get("/page/api/compare", params={"a": 1, "b": 1}).json()["differences"] == []
    assert page.get("/page/api/compare", params={"a": 1, "b": 999}).status_code == 404
    found = page.get("/page/api/complete", params={"text": "latenc", "cursor": 6}).json()
    assert (found["from"], found["to"], found["choices"][0]["text"]) == (0, 6, "latencyMs")
    assert page.get("/page/api/command", params={"filter": "apiKey == 3"}).json()["command"].startswith("kproxy decode")


def test_lines_are_sent_many_at_a_time() -> None:
    """Each piece is passed on by the supervisor's loop too."""
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async def receive() -> Any:
        await asyncio.Event().wait()  # the browser stays

    headers = [(b"host", b"127.0.0.1:8000"), (b"cookie", f"kproxy_token_8000={TOKEN}".encode())]
    asked = {"method": "GET", "path": "/page/api/export", "query_string": b"format=jsonl", "headers": headers}
    with opened(ORDERS) as store:
        scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, **asked}
        asyncio.run(page_app(store, TOKEN)(scope, receive, send))  # type: ignore[arg-type]
    (piece,) = filter(None, sent)
    assert len(piece.splitlines()) == len(decoded(ORDERS)) > 1


def test_what_is_in_an_answer_is_described(page: Browser) -> None:
    described = set(re.findall(r"\w+", kproxy.page.__doc__ or ""))
    asked = [
        "source",
        "exchanges?limit=1",
        "activity?buckets=2",
        "heatmap?buckets=2",
        "analyses/lag",
        "compare?a=1&b=2",
    ]
    for path in [*asked, "complete?text=a&cursor=1", "command", "exchanges/3"]:
        assert set(page.get(f"/page/api/{path}").json()) <= described, path


def test_exports(page: Browser) -> None:
    lines = page.get("/page/api/export", params={"format": "jsonl", "filter": "apiKey == 3"})
    assert len(lines.text.splitlines()) == sum(line["apiKey"] == 3 for line in decoded(ORDERS))
    assert "attachment" in lines.headers["content-disposition"]
    packets = page.get("/page/api/export", params={"format": "pcapng", "filter": "apiKey == 3"})
    assert packets.content[:4] == b"\x0a\x0d\x0d\x0a" and "exchanges.pcapng" in packets.headers["content-disposition"]
    wrong = page.get("/page/api/export", params={"format": "pcapng", "filter": "apiKey =="})
    assert (wrong.status_code, wrong.json()["column"]) == (400, 10)


def test_a_failure_of_ours_is_locked_down_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(ORDERS) as store:
        monkeypatch.setattr(store, "times", lambda: 1 // 0)
        browser = Browser(page_app(store, TOKEN), raises=False)
        browser.get("/", params={"token": TOKEN})
        answer = browser.get("/page/api/source")
    assert (answer.status_code, list(answer.json())) == (500, ["error", "column", "length"])
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "ZeroDivisionError" in answer.json()["error"] and "Traceback" not in answer.text


def test_several_sources_are_merged_by_time() -> None:
    later, earlier = CAPTURES / "01-java-produce-consume-group.pcap", CAPTURES / "03-classic-rebalance-range.pcap"
    with browsed(later, earlier) as browser:
        page = browser.get("/page/api/exchanges?limit=500&columns=requestAt").json()
        times = [int(row[0]) for row in page["rows"]]
        assert times == sorted(times)
        place = browser.get(f"/page/api/position?number={page['numbers'][7]}").json()
        assert place == {"offset": 7}


KEPT, FREED, ROUNDS = 20_000, 200_000, 1_000
MEASURED = f"""
import sys
from kproxy.page.server import keep_large_blocks_apart
if sys.argv[1] == "apart":
    keep_large_blocks_apart()
def resident():
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("RssAnon:"))
bytearray(16 << 20)  # freed: from here on glibc maps no block below this size by itself
before, kept = resident(), []
for _ in range({ROUNDS}):  # as compressed blocks, each made of buffers that are freed behind it
    buffers = [bytearray({FREED}) for _ in range(4)]
    kept.append(bytearray({KEPT}))
    del buffers[::2]
    kept.append(buffers)
for index in range(1, len(kept), 2):
    kept[index] = None
print(resident() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone has such a threshold")
def test_blocks_take_what_they_have() -> None:
    def resident(how: str) -> int:
        return int(subprocess.check_output([sys.executable, "-c", MEASURED, how]))

    pages = -(-(KEPT + 16) // PAGESIZE) * PAGESIZE + PAGESIZE  # each block in pages of its own, with malloc's header
    assert KEPT * ROUNDS <= resident("apart") < 1.1 * pages * ROUNDS < resident("as it is")
