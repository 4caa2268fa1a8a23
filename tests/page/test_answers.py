"""What each URL of the page gives."""

import asyncio
import re
from typing import Any

import pytest

import kproxy.page
from kproxy.page.server import page_app
from tests.page.asking import TOKEN, Browser, browsed, opened
from tests.page.test_recorded import ORDERS, decoded
from tests.support.traffic import CAPTURES


@pytest.fixture(scope="module")
def page() -> Any:
    with browsed(ORDERS) as browser:
        yield browser


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


@pytest.mark.parametrize("number", ["9" * 5_000, str(1 << 63), "-1", "x"])
def test_a_number_of_no_exchange_is_refused_with_a_sentence(page: Browser, number: str) -> None:
    position = {"filter": 'apiName == "Fetch"', "number": number}
    for answer in (
        page.get(f"/page/api/exchanges/{number}"),
        page.get(f"/page/api/exchanges/{number}/request"),
        page.get("/page/api/position", params=position),
    ):
        assert (answer.status_code, "is no whole number from 0 to" in answer.json()["error"]) == (400, True)


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


@pytest.mark.parametrize(
    "asked",
    [
        *("source", "exchanges?limit=1", "activity?buckets=2", "heatmap?buckets=2", "analyses/lag"),
        *("compare?a=1&b=2", "complete?text=a&cursor=1", "command", "exchanges/3"),
    ],
)
def test_what_is_in_an_answer_is_described(page: Browser, asked: str) -> None:
    described = set(re.findall(r"\w+", kproxy.page.__doc__ or ""))
    assert set(page.get(f"/page/api/{asked}").json()) <= described


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
        assert page["numbers"][0] != 1
        times = [int(row[0]) for row in page["rows"]]
        assert times == sorted(times)
        place = browser.get(f"/page/api/position?number={page['numbers'][7]}").json()
        assert place == {"offset": 7}
