"""The charts of reports: what each shows, and that nothing in a drawing can run or load."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from kproxy.analyses.duck import Database
from kproxy.analyses.report.charts.drawing import (
    MOST_NODES,
    UnsafeDrawing,
    draw,
    lag,
    latency_heat,
    map_graph,
    most,
    name_of,
    rebalances,
    scaled,
    time_axis,
    traffic,
)
from kproxy.analyses.report.charts.gallery import CHARTS, chosen, draw_all, tables_of_charts
from tests.support.corpus import CAPTURES
from tests.support.scenes import Rows
from tests.support.scenes.rows import moment

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="5">{}</svg>'


@pytest.mark.parametrize(
    "inside",
    [
        "<script/>",
        "<foreignObject/>",
        "<image/>",
        '<a href="x"/>',
        '<g onclick="x"/>',
        '<rect fill="url(http://x)"/>',
        "<use/>",
    ],
)
def test_what_could_run_or_load_is_refused(inside: str) -> None:
    with pytest.raises(UnsafeDrawing):
        scaled(SVG.format(inside))


def test_a_drawing_shrinks_with_the_page() -> None:
    drawn = scaled(SVG.format('<g clip-path="url(#a)"/>'))
    assert 'style="max-width:100%;height:auto;aspect-ratio:10/5"' in drawn


def test_colours_are_the_pages() -> None:
    spec = {
        "height": 50,
        "data": {"values": [{"a": "<b>", "at": 1}]},
        "mark": "point",
        "encoding": {"x": time_axis(300, (0, 10)), "color": {"field": "a", "type": "nominal"}},
    }
    drawn = draw(spec, 300)
    assert "var(--c0)" in drawn and "var(--muted)" in drawn
    assert "<b>" not in drawn
    assert "".join(ElementTree.fromstring(drawn).itertext()).endswith("<b>")


def test_a_chart_asks_no_network() -> None:
    with pytest.raises(ValueError, match=r"not allowed|denied|Allowed|allowed"):
        draw({"height": 50, "data": {"url": "https://127.0.0.1:1/x.csv"}, "mark": "point"}, 300)


def test_names_are_escaped_and_ranked() -> None:
    assert name_of("a\x1b\u202e") == "a\\x1b\\u202e"
    assert (name_of(""), name_of(None)) == ("(no name)", "(no name)")
    rows = [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "a", "v": 3}, {"k": "c", "v": 2}]
    assert most(rows, "k", "v", 2) == ["a", "b"]


@pytest.mark.parametrize("limit", [30, 37, 44])
def test_a_label_is_cut_wherever_there_is_no_more_room(limit: int) -> None:
    """With characters of two UTF-16 units as they are, some of these charts cannot be drawn."""
    name = name_of("app\U0001f600" * 9)
    spec = {
        "data": {"values": [{"name": name, "count": 1}]},
        "mark": "bar",
        "encoding": {
            "y": {"field": "name", "type": "nominal", "axis": {"labelLimit": limit}},
            "x": {"field": "count", "type": "quantitative"},
        },
    }
    assert "app\ufffd" in draw(spec, 300)


SPAN = (0, 1)


def row(direction: str, party: str, topic: str, records: int) -> dict[str, Any]:
    return {"direction": direction, "party": party, "topic": topic, "records": records}


def test_writers_stand_left_and_readers_right() -> None:
    spec = map_graph([row("produce", "w", "t", 1000), row("fetch", "group g", "t", 10)], 1000, SPAN)
    assert spec is not None
    lines, *texts = spec["layer"]
    nodes = {node["name"]: node["x"] for layer in texts for node in layer["data"]["values"]}
    assert nodes["w"] < nodes["t"] < nodes["group g"]
    edges = {(point["edge"], point["thickness"], point["colour"]) for point in lines["data"]["values"]}
    assert edges == {(0, 4, "var(--c0)"), (1, 2, "var(--c1)")}


def test_the_least_are_left_out() -> None:
    rows = [row("produce", f"w{number}", f"t{number}", number) for number in range(1, 40)]
    spec = map_graph(rows, 1000, SPAN)
    assert spec is not None
    names = {node["name"] for layer in spec["layer"][1:] for node in layer["data"]["values"]}
    assert len(names) == 2 * MOST_NODES
    assert {"w39", "t39"} <= names and "w1" not in names


SPAN = (0, 10_000)


def test_traffic_is_a_rate_and_small_clients_are_put_together() -> None:
    rows = [{"client": f"c{number}", "at_ms": 0, "micros": 500_000, "bytes": 100 + number} for number in range(10)]
    spec = traffic(rows, 860, SPAN)
    assert spec is not None
    rates = {value["client"]: value["high"] - value["low"] for value in spec["data"]["values"]}
    assert rates["c9"] == 218  # 109 bytes in half a second
    assert {(value["at"], value["until"]) for value in spec["data"]["values"]} == {(0, 500)}  # not beside its time
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
    assert [chart([], 860, SPAN) for chart in (map_graph, traffic, lag, latency_heat, rebalances)] == [None] * 5


REBALANCE = CAPTURES / "03-classic-rebalance-range.pcap"
MANIFEST: dict[str, Any] = {
    row["file"]: row for row in map(json.loads, (CAPTURES / "MANIFEST.jsonl").read_text("utf-8").splitlines())
}


@pytest.fixture(scope="module")
def database() -> Any:
    with Database([REBALANCE], wanted=tables_of_charts(None)) as opened:
        yield opened


def rows(database: Database, name: str) -> list[dict[str, Any]]:
    (chart,) = (chart for chart in CHARTS if chart.name == name)
    found: list[dict[str, Any]] = database.select(chart.view).to_pylist()
    return found


def test_the_map_has_the_records_of_the_manifest(database: Database) -> None:
    read = MANIFEST[REBALANCE.name]["expect"]["records_consumed_by_group_and_topic"]
    found = {
        f"{row['party'].removeprefix('group ')}/{row['topic']}": row["records"] for row in rows(database, "map_graph")
    }
    assert found == read


def test_traffic_sums_to_all_bytes(database: Database) -> None:
    found = rows(database, "traffic")
    sums = database.connection.execute("SELECT sum(request_bytes + response_bytes) FROM connections").fetchall()
    assert sum(row["bytes"] for row in found) == sums[0][0]
    assert {row["client"] for row in found} == set(MANIFEST[REBALANCE.name]["client_ids"])


def test_groups_do_what_the_workload_did(database: Database) -> None:
    """Three members joined one by one, and left."""
    found = rows(database, "rebalances")
    assert {row["group_id"] for row in found} == {"g-range"}
    assert sum(row["event"] == "leave" for row in found) == 3
    assert max(row["generation"] or 0 for row in found) == 4


def test_latency_counts_the_answered_requests(database: Database) -> None:
    counted = database.connection.execute(
        "SELECT count(*) FROM exchanges WHERE latency_ms IS NOT NULL AND api_key NOT IN (1, 11, 14, 78)"
    ).fetchall()
    assert sum(row["requests"] for row in rows(database, "latency_heat")) == counted[0][0]


def test_each_chart_is_drawn_wide_and_narrow(database: Database) -> None:
    drawings = draw_all(database, None, (1795235451000, 1795235465000))
    assert len(drawings) == len(CHARTS)
    assert all(each.wide.startswith("<svg ") and each.narrow.startswith("<svg ") for each in drawings)


def test_charts_tell_clusters_apart(tmp_path: Path) -> None:
    """The same producer, consumer, group and topic in two clusters: each has its own nodes and lines."""
    tables = Rows()
    client = tables.client("app")
    client.fetch(1, "t", 0, end=5)
    client.commit(2, "g", "t", 0)
    client.group(3, "join", "g", member_id="m1")
    where = {
        "connection_id": client.id,
        "minute": moment(0),
        "topic": "t",
        "partition": 0,
        "client_id": "app",
        "records": 7,
    }
    tables.add("topic_activity", direction="produce", **where)
    tables.repeat_in_another_cluster()
    with Database([tables.write(tmp_path / "tables")], wanted=tables_of_charts(None)) as opened:
        drawings = {each.title: each for each in draw_all(opened, None, (0, 10_000))}
    assert len(drawings) == len(CHARTS)
    for chart, names in zip(
        CHARTS, (("t (1)", "app (2)"), ("app (1)", "app (2)"), ("g (1)", "g (2)"), ("t (1)", "t (2)")), strict=False
    ):
        shown = drawings[chart.title]
        assert all(name in shown.wide for name in names), chart.name
        assert shown.note.endswith("clusters: (1) is brokers at 10.0.0.9:9092, (2) is brokers at 10.9.9.9:9092.")


def test_a_client_id_in_several_groups_shows_each(tmp_path: Path) -> None:
    """Two hosts with one client id and a group each, and one host that reads each topic for another group."""
    tables = Rows()
    for address, topic, group in (
        ("10.0.0.5", "t", "g1"),
        ("10.0.0.6", "t", "g2"),
        ("10.0.0.7", "t", "g3"),
        ("10.0.0.7", "u", "g4"),
    ):
        client = tables.client("app", address)
        client.commit(1, group, topic, 5)
        tables.add(
            "topic_activity", connection_id=client.id, minute=moment(0), topic=topic, partition=0, client_id="app",
            direction="fetch", records=1,
        )  # fmt: skip
    both = tables.client("app", "10.0.0.8")
    for group in ("a", "b", "c", "d"):
        both.commit(2, group, "v", 5)
    tables.add(
        "topic_activity", connection_id=both.id, minute=moment(0), topic="v", partition=0, client_id="app",
        direction="fetch", records=1,
    )  # fmt: skip
    with Database([tables.write(tmp_path / "tables")], wanted=tables_of_charts(None)) as opened:
        found = {(row["party"], row["topic"]) for row in rows(opened, "map_graph")}
    assert found == {
        ("group g1", "t"), ("group g2", "t"), ("group g3", "t"), ("group g4", "u"), ("groups a, b and 2 more", "v"),
    }  # fmt: skip


def test_of_many_members_those_that_fail_are_shown_and_the_rest_is_told(tmp_path: Path) -> None:
    """Three hundred members join and sync; long after, one leaves and another is told that it is not known."""
    tables = Rows()
    client = tables.client("app")
    for number in range(300):
        for event in ("join", "sync"):
            client.event(number, 1, event, "g", member_id=f"m-{number:03}", response_generation=1, error_code=0)
    client.event(900, 1, "leave", "g", member_id="m-250", error_code=0)
    client.event(901, 1, "heartbeat", "g", member_id="m-299", error_code=25)
    for number in range(5_000):
        client.event(1000 + number, 1, "heartbeat", "g", member_id="m-000", error_code=0)
    with Database([tables.write(tmp_path / "tables")], wanted=tables_of_charts(None)) as opened:
        found = rows(opened, "rebalances")
        (drawing,) = draw_all(opened, ["rebalances"], (0, 10_000_000))
    assert len(found) == 4_000
    assert len({row["member_id"] for row in found}) == 40
    assert {row["member_id"]: row["event"] for row in found if row["event"] in ("leave", "error")} == {
        "m-250": "leave", "m-299": "error",
    }  # fmt: skip
    assert drawing.note.endswith(
        "Shown are 40 of 300 members, those with the most errors, leaves and joins, and 4,000 of 5,602 events; all are in the "
        "table group_events."
    )


def test_only_the_charts_of_what_was_asked_for_are_drawn() -> None:
    assert [chart.name for chart in chosen(["latency"])] == ["latency_heat"]
    assert tables_of_charts(["latency"]) == {"exchanges"}
    assert tables_of_charts(["lag"]) == {"offsets", "exchanges", "connections"}
    assert chosen(["no_such"]) == []
