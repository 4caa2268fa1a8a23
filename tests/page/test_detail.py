"""One exchange, whole."""

import base64
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kproxy.page.detail import bytes_of, compare, detail_of
from kproxy.page.recorded import Recorded
from kproxy.page.tables import Tabled
from kproxy.pipeline.run import Options
from tests.page.asking import CAPTURE, ORDERS, decoded, opened
from tests.page.test_tables import decoded_tables


def test_an_exchange() -> None:
    lines = decoded(ORDERS)
    with opened(ORDERS) as store:
        every = [detail_of(store, number) for number in range(len(lines) + 2)]
    assert (every[0], every[-1]) == (None, None)
    for line, found in zip(lines, every[1:-1], strict=True):
        assert found is not None
        assert found["row"]["apiName"] == line["apiName"]
        for side in ("request", "response"):
            if line[f"{side}Size"] is not None:
                assert len(base64.b64decode(found[side]["bytes"])) == found[side]["size"] == line[f"{side}Size"]
        assert [error["code"] for error in found["errors"]] == list(dict.fromkeys(e["code"] for e in line["errors"]))


def test_what_an_error_means_and_what_clients_do() -> None:
    errors = [error for one in every_detail(CAPTURE) for error in one["errors"]]
    (known,) = {error["name"]: error for error in errors if error["code"] == 79}.values()
    assert (known["name"], known["retriable"]) == ("MEMBER_ID_REQUIRED", False)
    assert "join again" in known["clients"] and "KIP-394" in known["meaning"]


def test_the_text_is_that_of_decode() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kproxy", "decode", "-q", "-v", str(CAPTURE)], capture_output=True, check=True
    )
    text = done.stdout.decode()
    for one in every_detail(CAPTURE):
        for side in ("request", "response"):
            assert one[side] is None or (one[side]["rendered"] and one[side]["rendered"] in text)


def test_of_a_decoded_log_bytes_are_encoded_where_they_are_as_many_as_were_sent(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in decoded(CAPTURE)))
    same = others = 0
    for of_log, of_capture in zip(every_detail(log), every_detail(CAPTURE), strict=True):
        for side in ("request", "response"):
            if of_log[side] is None or of_log[side]["bytes"] is None:
                others += 1
                continue
            assert of_log[side]["bytes"] == of_capture[side]["bytes"]
            assert "anew" in of_log[side]["note"]
            assert of_log[side]["tree"] == of_capture[side]["tree"]
            same += 1
    assert same > 10 * others


def test_of_tables_there_is_what_they_have(tmp_path: Path) -> None:
    with (
        Tabled([decoded_tables(tmp_path / "with", "--bodies")]) as tables,
        Tabled([decoded_tables(tmp_path / "bare")]) as bare,
    ):
        found, without = detail_of(tables, 3), detail_of(bare, 3)
    assert found is not None and without is not None
    whole = every_detail(CAPTURE)[2]
    assert [node["name"] for node in found["request"]["tree"]["children"][0]["children"]] == [
        node["name"] for node in whole["request"]["tree"]["children"][2]["children"] if node["name"] != "taggedFields"
    ]
    assert without["request"]["size"] == whole["request"]["size"]
    assert without["request"]["tree"]["children"] == [] and "no bodies" in without["request"]["tree"]["note"]


@pytest.mark.slow
def test_tables_that_hold_records_show_them(tmp_path: Path) -> None:
    with (
        Tabled([decoded_tables(tmp_path / "tables", "--records")]) as tables,
        opened(CAPTURE, options=Options(records=True)) as store,
    ):
        pairs = [(detail_of(tables, n), detail_of(store, n)) for n in range(store.first, store.last + 1)]
    seen = 0
    for of_tables, of_capture in pairs:
        assert of_tables is not None and of_capture is not None
        expected = {place(one): one["json"]["records"] for one in of_capture["records"] if one["json"].get("records")}
        ordinary = {key: rows for key, rows in expected.items() if not str(key[1]).startswith("__")}
        found = {place(one): one["json"]["records"] for one in of_tables["records"]}
        assert {key: found[key] for key in ordinary} == ordinary
        seen += len(ordinary)
    assert seen > 5


def place(one: dict[str, Any]) -> tuple[Any, ...]:
    """Side, topic and partition of records."""
    return one["in"], one["json"]["topic"], one["json"]["partition"]


def test_many_bytes_are_asked_for_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(ORDERS) as store:
        whole = detail_of(store, 1)
        monkeypatch.setattr("kproxy.page.detail.MOST_INLINE", 40)
        apart = detail_of(store, 1)
        assert whole is not None and apart is not None
        for side in ("request", "response"):
            assert (apart[side]["bytes"], apart[side]["apart"]) == (None, True)
            assert bytes_of(store, 1, side) == base64.b64decode(whole[side]["bytes"])
        assert bytes_of(store, 0, "request") is None


def test_no_more_records_than_a_person_looks_at(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = decoded(ORDERS)
    at = next(number for number, line in enumerate(lines, 1) if line["apiName"] == "Produce")
    with opened(ORDERS, options=Options(records=True)) as store:
        whole = detail_of(store, at)
        monkeypatch.setattr("kproxy.page.detail.MOST_OF_PARTITION", 1)
        monkeypatch.setattr("kproxy.page.detail.LONGEST_TEXT", 3)
        found = detail_of(store, at)
    assert whole is not None and found is not None
    counts = [one["json"]["count"] for one in lines[at - 1]["embedded"] if one["kind"] == "records"]
    assert sum(counts) > len(counts)
    for one, shown in zip(whole["records"], found["records"], strict=True):
        first, *more = one["json"]["records"]
        assert 1 + len(more) == one["json"]["count"] == shown["json"]["count"]
        (record,) = shown["json"]["records"]
        assert record["offset"] == first["offset"]
        assert record["value"]["text"] == f"{first['value']['text'][:3]}…"
    assert [one["json"]["count"] for one in found["records"]] == counts


def test_an_exchange_is_equal_to_itself(store: Recorded) -> None:
    assert compare(store, 5, 5) == {"differences": [], "more": False}
    assert compare(store, 5, 10**9) is None


def test_fields_that_differ(store: Recorded) -> None:
    lines = dict(enumerate(map(msgspec.json.decode, store.lines(list(range(1, store.last + 1)), [])), 1))
    beats = [number for number, line in lines.items() if line["apiName"] == "Heartbeat" and line["response"]]
    a, b = beats[0], next(n for n in beats if lines[n]["request"]["memberId"] != lines[beats[0]]["request"]["memberId"])
    found = compare(store, a, b)
    assert found is not None
    request = [(one["path"], one["a"], one["b"]) for one in found["differences"] if one["side"] == "request"]
    assert request == [
        (name, lines[a]["request"][name], lines[b]["request"][name])
        for name in lines[a]["request"]
        if lines[a]["request"][name] != lines[b]["request"][name]
    ]
    assert not {one["path"] for one in found["differences"]} & {"correlationId", "requestAt"}


def test_of_different_apis_what_one_lacks_is_null(store: Recorded) -> None:
    found = compare(store, 1, 5)
    assert found is not None
    assert ("exchange", "apiName") in {(one["side"], one["path"]) for one in found["differences"]}
    assert any(None in (one["a"], one["b"]) for one in found["differences"] if one["side"] == "request")


@cache
def every_detail(path: Path) -> list[dict[str, Any]]:
    """The details of the exchanges of a capture, as JSON has them."""
    with opened(path) as store:
        found = [detail_of(store, number) for number in range(store.first, store.last + 1)]
    return [one for one in found if one is not None]
