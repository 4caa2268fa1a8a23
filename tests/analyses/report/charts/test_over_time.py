"""Charts over time: rates, lags, latencies and events, each from rows by hand."""

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
        ("g · c 1", "join"), ("g · c 2", "join"), ("g · c 1", "leave"),
    ]  # fmt: skip
    assert spec["encoding"]["color"]["scale"]["domain"] == ["join", "leave"]


def test_nothing_is_no_chart() -> None:
    assert [chart([], 860, SPAN) for chart in (traffic, lag, latency_heat, rebalances)] == [None] * 4
