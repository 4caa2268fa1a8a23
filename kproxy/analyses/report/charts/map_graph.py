"""The map as a graph: who writes on the left, topics in the middle, who reads on the right."""

import math
from typing import Any

from kproxy.analyses.report.charts.drawing import COLOURS, Span, Spec, name_of

MOST_NODES = 14  # in a column
ROW = 26  # pixels
Row = dict[str, Any]


def map_graph(rows: list[Row], width: int, span: Span) -> Spec | None:
    """The chart, of rows of map_graph.sql: direction, party, topic, records."""
    topics = _ranked(rows, "topic")[:MOST_NODES]
    shown = [row for row in rows if row["topic"] in topics]
    writers = _ranked([row for row in shown if row["direction"] == "produce"], "party")[:MOST_NODES]
    readers = _ranked([row for row in shown if row["direction"] == "fetch"], "party")[:MOST_NODES]
    if not topics:
        return None
    height = max(len(topics), len(writers), len(readers)) * ROW
    columns = {"produce": _places(writers, height), "topic": _places(topics, height), "fetch": _places(readers, height)}
    half = min(width * 0.15, 10 + 3.6 * max(len(name_of(topic)) for topic in topics))  # of the texts in the middle
    edges = [point for at, row in enumerate(shown) for point in _edge(row, columns, width, half, at)]
    nodes = [node for kind, places in columns.items() for node in _nodes(kind, places, width)]
    x = {
        "field": "x",
        "type": "quantitative",
        "axis": None,
        "scale": {"domain": [0, width], "nice": False, "zero": False},
    }
    y = {"field": "y", "type": "quantitative", "axis": None, "scale": {"domain": [height, 0], "nice": False}}
    layers: list[Spec] = [
        {
            "data": {"values": edges},
            "mark": {"type": "line", "interpolate": "basis", "opacity": 0.55},
            "encoding": {
                "x": x,
                "y": y,
                "detail": {"field": "edge", "type": "nominal"},
                "order": {"field": "order", "type": "quantitative"},
                "strokeWidth": {"field": "thickness", "type": "quantitative", "scale": None, "legend": None},
                "color": {"field": "colour", "type": "nominal", "scale": None, "legend": None},
            },
        },
    ]
    for align in ("left", "center", "right"):
        layers.append(
            {
                "data": {"values": [node for node in nodes if node["align"] == align]},
                "mark": {
                    "type": "text",
                    "align": align,
                    "baseline": "middle",
                    "limit": round(width * 0.28),
                    "fontSize": 11,
                    "color": "var(--fg)",
                },
                "encoding": {"x": x, "y": y, "text": {"field": "name", "type": "nominal"}},
            }
        )
    return {"height": height, "layer": layers, "autosize": {"type": "pad"}}


def _ranked(rows: list[Row], key: str) -> list[str]:
    sums: dict[str, int] = {}
    for row in rows:
        sums[row[key]] = sums.get(row[key], 0) + (row["records"] or 0)
    return sorted(sums, key=lambda name: (-sums[name], name))


def _places(names: list[str], height: int) -> dict[str, float]:
    """Name -> vertical place, spread over the height."""
    return {name: height * (at + 0.5) / len(names) for at, name in enumerate(names)}


def _edge(row: Row, columns: dict[str, dict[str, float]], width: int, half: float, number: int) -> list[Row]:
    direction = row["direction"]
    if direction not in ("produce", "fetch") or row["party"] not in columns[direction]:
        return []
    ends = [columns[direction][row["party"]], columns["topic"][row["topic"]]]
    across = [width * 0.28 + 6, width / 2 - half]  # from the texts on the left to those in the middle
    if direction == "fetch":
        ends.reverse()
        across = [width - across[1], width - across[0]]
    path = zip(
        (across[0], across[0] + (across[1] - across[0]) * 0.4, across[0] + (across[1] - across[0]) * 0.6, across[1]),
        (ends[0], *ends, ends[1]),
        strict=True,
    )
    more = {
        "edge": number,
        "thickness": round(1 + min(math.log10(max(row["records"] or 1, 1)), 6), 2),
        "colour": COLOURS[0] if direction == "produce" else COLOURS[1],
    }
    return [{"x": x, "y": y, "order": order, **more} for order, (x, y) in enumerate(path)]


def _nodes(kind: str, places: dict[str, float], width: int) -> list[Row]:
    align, x = {"produce": ("right", width * 0.28), "topic": ("center", width / 2), "fetch": ("left", width * 0.72)}[
        kind
    ]
    return [{"x": x, "y": y, "align": align, "name": name_of(name)} for name, y in places.items()]
