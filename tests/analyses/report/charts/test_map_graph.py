"""The map: which parties stand where, and what is joined with what."""

from typing import Any

from kproxy.analyses.report.charts.map_graph import MOST_NODES, map_graph

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
    assert edges == {(0, 4, "var(--c1)"), (1, 2, "var(--c2)")}


def test_the_least_are_left_out() -> None:
    rows = [row("produce", f"w{number}", f"t{number}", number) for number in range(1, 40)]
    spec = map_graph(rows, 1000, SPAN)
    assert spec is not None
    names = {node["name"] for layer in spec["layer"][1:] for node in layer["data"]["values"]}
    assert len(names) == 2 * MOST_NODES
    assert {"w39", "t39"} <= names and "w1" not in names


def test_nothing_is_no_chart() -> None:
    assert map_graph([], 1000, SPAN) is None
