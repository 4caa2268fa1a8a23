"""Charts over time: rates, lags, latencies and events, each from rows by hand."""

import pytest

from kproxy.analyses.report.charts.over_time import lag, latency_heat, rebalances, traffic

SPAN = (0, 10_000)


def test_traffic_is_a_rate_and_small_clients_are_put_together() -> None:
    rows = [{"client": f"c{number}", "at_ms": 0, "micros": 500_000, "bytes": 100 + number} for number in range(10)]
    spec = traffic(rows, 860, SPAN)
    assert spec is not None
    rates = {value["client"]: value["rate"] for value in spec["data"]["values"]}
    assert rates["c9"] == 218  # 109 bytes in half a second
    assert rates["all others"] == 2 * (100 + 101 + 102)
    assert len(rates) == 8


def test_only_who_is_behind_has_a_line() -> None:
    rows = [{"client": "a", "topic": "t", "at_ms": 1, "lag": 0}, {"client": "b", "topic": "t", "at_ms": 1, "lag": 3}]
    spec = lag(rows, 860, SPAN)
    assert spec is not None
    assert spec["data"]["values"] == [{"pair": "b ← t", "at": 1, "lag": 3}]
    assert lag(rows[:1], 860, SPAN) is None


def test_latencies_are_thirds_of_a_power_of_ten() -> None:
    spec = latency_heat([{"at_ms": 5, "micros": 2000, "third": 3, "requests": 4}], 860, SPAN)
    assert spec is not None
    (value,) = spec["data"]["values"]
    assert (value["low"], round(value["high"], 2), value["until"], value["requests"]) == (10, 21.54, 7, 4)


def test_each_member_has_a_line() -> None:
    rows = [
        {"group_id": "g", "client": "c", "member_id": member, "at_ms": at, "event": event}
        for at, (member, event) in enumerate((("m1", "join"), ("m2", "join"), ("m1", "leave")))
    ]
    spec = rebalances(rows, 860, SPAN)
    assert spec is not None
    assert [(value["member"], value["event"]) for value in spec["data"]["values"]] == [
        ("c 1 · g", "join"), ("c 2 · g", "join"), ("c 1 · g", "leave"),
    ]  # fmt: skip
    assert spec["encoding"]["color"]["scale"]["domain"] == ["join", "leave"]


def test_members_stand_by_their_groups_in_the_order_in_which_they_came() -> None:
    rows = [
        {"group_id": group, "client": client, "member_id": client, "at_ms": at, "event": "join"}
        for at, (group, client) in enumerate((("b", "b1"), ("a", "a1"), ("b", "b2"), ("a", "a0")))
    ]
    spec = rebalances(rows, 860, SPAN)
    assert spec is not None
    assert spec["encoding"]["y"]["sort"] == ["a1 2 · a", "a0 4 · a", "b1 1 · b", "b2 3 · b"]


@pytest.mark.parametrize(("letters", "columns"), [(5, 3), (40, 2), (60, 1), (200, 1)])
def test_a_legend_has_as_many_columns_as_its_names_leave_room_for(letters: int, columns: int) -> None:
    rows = [{"client": "c" * letters + str(n), "topic": "t", "at_ms": 1, "lag": 3} for n in range(2)]
    spec = traffic([{**row, "micros": 1, "bytes": 1} for row in rows], 860, SPAN)
    assert spec is not None
    legend = spec["encoding"]["color"]["legend"]
    assert legend["columns"] == (columns if letters < 40 else 2)  # names are cut to 40 letters
    spec = lag([{**row, "topic": "t" * letters} for row in rows], 860, SPAN)
    assert spec is not None
    assert spec["encoding"]["color"]["legend"]["columns"] == min(columns, 3 if letters < 40 else 1)


def test_nothing_is_no_chart() -> None:
    assert [chart([], 860, SPAN) for chart in (traffic, lag, latency_heat, rebalances)] == [None] * 4
