"""A condition on fields of values selects the same orders in decode, on both kinds of page, in SQL and in the filter deny."""

import json
from pathlib import Path

import pytest

from kproxy.filters.chain import Chain
from kproxy.filters.contract import Answer
from kproxy.filters.loading import load_filter
from kproxy.page.live.process import FEED, listen
from kproxy.page.live.store import Live
from kproxy.page.server import page_app
from kproxy.pipeline.run import Options
from kproxy.schemas.settings import SchemaSources
from tests.cli.test_schemas import capture, produced
from tests.page.asking import TOKEN, Browser, browsed
from tests.page.feeding import feed_of, send
from tests.support.command import kproxy
from tests.support.filtering import CallingRuntime, connection, settled
from tests.support.kafka.processes import eventually

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "country", "type": "string"},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "items", "type": ["null", "int"]},
    ],
}
ORDERS = [("DE", 9_999, 3), ("DE", 10_001, 2), ("FR", 20_000, 2), ("DE", 30_000, None), ("DE", 12_345, 5)]
CONDITION = 'record.value.country == "DE" && double(record.value.total) > 100.0'
ANOTHER = "record.value.items != null && record.value.items > 2"
EXPECTED = {CONDITION: [1, 3, 4], ANOTHER: [0, 4]}


def framed(country: str, cents: int, items: int | None) -> bytes:
    """By Avro's specification: zigzag sizes and numbers."""
    money = cents.to_bytes(3, "big")
    tail = b"\0" if items is None else bytes((2, 2 * items))
    return b"\0\0\0\0\7" + b"\x04" + country.encode() + b"\6" + money + tail


@pytest.mark.parametrize("condition", [CONDITION, pytest.param(ANOTHER, marks=pytest.mark.slow)])
def test_one_condition(tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: str) -> None:
    (tmp_path / "7.avsc").write_text(json.dumps(SCHEMA))
    requests = [produced("orders", framed(*order)) for order in ORDERS]
    file = capture(tmp_path / "orders.pcap", *requests)
    sources, expected = SchemaSources.of_options(folders=[tmp_path]), EXPECTED[condition]

    words = ("decode", "-q", "--records", "--schemas", tmp_path, "--format", "jsonl")
    assert kproxy(*words, file) == 0
    times = [json.loads(line)["requestAt"] for line in capsys.readouterr().out.splitlines()]
    assert kproxy(*words, "--where", condition, file) == 0
    shown = [json.loads(line)["requestAt"] for line in capsys.readouterr().out.splitlines()]
    assert [times.index(one) for one in shown] == expected

    with browsed(file, options=Options(records=True, schemas=sources)) as browser:
        query = {"filter": condition, "sort": "number"}
        answer = browser.get("/page/api/exchanges", params={**query, "columns": "requestAt"}).json()
    assert sorted(number - 1 for number in answer["numbers"]) == expected
    with Live("a proxy", listen(tmp_path, FEED), 1 << 28, record_schemas=sources.open()) as store:
        store.start()
        feed = feed_of(tmp_path)
        send(feed, file)
        eventually(lambda: store.last == len(ORDERS), what="the page has all exchanges")
        browser = Browser(page_app(store, TOKEN))
        browser.get("/", params={"token": TOKEN})
        feed.close()
        numbers = browser.get("/page/api/exchanges", params={"filter": condition}).json()["numbers"]
        assert sorted(number - 1 for number in numbers) == expected
    with browsed(file) as browser:
        refused = browser.get("/page/api/exchanges", params={"filter": condition})
    assert "contents of records are not shown: kproxy open --records" in refused.text

    sql = (
        condition.replace("record.value.", "").replace("&&", "AND").replace('"', "'").replace("double(total)", "total")
    )
    sql = sql.replace("items != null", "items IS NOT NULL")
    words = ("sql", "-q", "--format", "json", "--schemas", tmp_path, "--view", "orders", file)
    assert kproxy(*words, f"SELECT country, total, items FROM orders WHERE {sql}") == 0
    rows = sorted(json.loads(capsys.readouterr().out), key=str)
    chosen = [ORDERS[at] for at in expected]
    assert rows == sorted(
        ({"country": where, "total": f"{cents / 100:.2f}", "items": items} for where, cents, items in chosen), key=str
    )

    runtime = CallingRuntime()
    runtime.given_schemas = sources.open()
    chain = Chain([load_filter("deny", {"rules": [{"when": condition}]})], runtime=runtime)
    outcomes = [settled(chain.on_request(connection(), request)) for request in requests]
    assert [at for at, outcome in enumerate(outcomes) if isinstance(outcome, Answer)] == expected
