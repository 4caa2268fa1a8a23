"""Draw charts: rows as Vega-Lite, and Vega-Lite as SVG of shapes and text only, in the colours of the page, light or dark.

The map is a graph: who writes on the left, topics in the middle, who reads on the right. The others are over time: traffic by
client, lag, latency, events of group members.
"""

import math
import re
from typing import Any, TypeAlias
from xml.etree import ElementTree

from kproxy.output.escaping import printable

Spec: TypeAlias = dict[str, Any]
Span: TypeAlias = tuple[int, int]  # milliseconds since the epoch
A_DAY = 86_400_000
WIDE, NARROW = 860, 330  # pixels: a page, a phone
COLOURS = [f"var(--c{number})" for number in range(8)]
MOST_NAMES = len(COLOURS)
OTHERS = "all others"
SHAPES = {"svg", "g", "path", "line", "rect", "text", "tspan", "circle", "defs", "clipPath", "title"}
BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
NAMESPACE = re.compile(r"^\{http://www\.w3\.org/2000/svg\}")
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
TEXT = {
    **dict.fromkeys(("labelColor", "titleColor"), "var(--muted)"),
    **dict.fromkeys(("labelFontSize", "titleFontSize"), 11),
    "titleFontWeight": "normal",
}
CONFIG: Spec = {
    "font": "Arial, Helvetica, sans-serif",
    "view": {"stroke": None},
    "padding": {"left": 4, "right": 14, "top": 4, "bottom": 4},
    "axis": {**TEXT, "gridColor": "var(--grid)", "domainColor": "var(--grid)", "tickColor": "var(--grid)"},
    "legend": {**TEXT, "orient": "top", "title": None, "symbolSize": 60},
    "range": {"category": COLOURS},
}
MOST_NODES = 14  # in a column
ROW = 26  # pixels
Row = dict[str, Any]
MOST_MEMBERS = 40
LETTER = 6.8  # pixels of a letter in a legend, in a wide font
LEGEND_GAP = 24
EVENTS = {
    "join": COLOURS[0],
    "sync": COLOURS[1],
    "assign": COLOURS[4],
    "heartbeat": COLOURS[2],
    "leave": "var(--warning)",
    "error": "var(--critical)",
}
NUMBERS = {"title": None, "format": "~s", "tickCount": 4}  # a vertical axis
DECADES = [0.01, 0.1, 1, 10, 100, 1_000, 10_000, 100_000]
THIRDS = range(-6, 16)  # of powers of ten of milliseconds: 0.01 ms to 100 s


class UnsafeDrawing(ValueError):
    """A drawing holds something that is neither shape nor text."""


def draw(spec: Spec, width: int) -> str:
    """The SVG of a chart. Raises UnsafeDrawing, ValueError."""
    import vl_convert  # noqa: PLC0415 - takes a second to start, and only the page needs it

    chart = {"$schema": SCHEMA, "background": None, "config": CONFIG, "width": width, **spec}
    chart.setdefault("autosize", {"type": "fit-x", "contains": "padding"})
    return scaled(vl_convert.vegalite_to_svg(chart, allowed_base_urls=[]))


def scaled(svg: str) -> str:
    """Check the SVG, and let it shrink with the page. Raises UnsafeDrawing."""
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise UnsafeDrawing(f"it is no XML: {error}") from None
    for element in root.iter():
        if NAMESPACE.sub("", element.tag) not in SHAPES:
            raise UnsafeDrawing(f"an element {element.tag[:80]!r}")
        for name, value in element.attrib.items():
            if name.lower().startswith("on") or "href" in name.lower() or "url(" in value.lower().replace("url(#", ""):
                raise UnsafeDrawing(f"an attribute {name[:80]!r}")
    width, height = root.attrib["width"], root.attrib["height"]
    return svg.replace("<svg ", f'<svg role="img" style="max-width:100%;height:auto;aspect-ratio:{width}/{height}" ', 1)


def name_of(text: Any, limit: int = 40) -> str:
    """A name from the traffic as text of a chart.

    Characters of two UTF-16 units become U+FFFD: where Vega cuts a label between the two, it cannot draw the chart.
    """
    return BEYOND_BMP.sub("\ufffd", printable(str(text), limit)) if text not in ("", None) else "(no name)"


def most(rows: list[dict[str, Any]], key: str, value: str, count: int = MOST_NAMES - 1) -> list[str]:
    """The *count* keys with the largest sums of *value*, the largest first; ties by name."""
    sums: dict[str, int] = {}
    for row in rows:
        sums[row[key]] = sums.get(row[key], 0) + (row[value] or 0)
    return sorted(sums, key=lambda name: (-sums[name], name))[:count]


def time_axis(width: int, span: Span) -> Spec:
    """The horizontal axis of a chart over time, in UTC. *span*: its two ends."""
    begins, ends = span
    return {
        "field": "at",
        "type": "temporal",
        "scale": {"type": "utc", "domain": [begins, max(ends, begins + 1)], "nice": False},
        "axis": {
            "title": None,
            "grid": False,
            "tickCount": max(width // 110, 2),
            "format": "%H:%M:%S" if ends - begins < A_DAY else "%d %b %H:%M",
            "labelOverlap": True,
        },
    }


def map_graph(rows: list[Row], width: int, span: Span) -> Spec | None:
    """The chart, of rows of map_graph.sql: direction, party, topic, records."""
    topics = most(rows, "topic", "records", MOST_NODES)
    shown = [row for row in rows if row["topic"] in topics]
    writers = most([row for row in shown if row["direction"] == "produce"], "party", "records", MOST_NODES)
    readers = most([row for row in shown if row["direction"] == "fetch"], "party", "records", MOST_NODES)
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
        }
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


def _places(names: list[str], height: int) -> dict[str, float]:
    """Name -> vertical place, spread over the height."""
    return {name: height * (at + 0.5) / len(names) for at, name in enumerate(names)}


def _edge(row: Row, columns: dict[str, dict[str, float]], width: int, half: float, number: int) -> list[Row]:
    """Return the points of the line between a party and a topic of the map; none if the party is not shown."""
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


def traffic(rows: list[Row], width: int, span: Span) -> Spec | None:
    """Bytes per second, stacked by client."""
    if not rows:
        return None
    named = most(rows, "client", "bytes")
    sums: dict[tuple[str, int], float] = {}
    for row in rows:
        key = (name_of(row["client"]) if row["client"] in named else OTHERS, row["at_ms"])
        sums[key] = sums.get(key, 0) + row["bytes"] * 1e6 / max(row["micros"], 1)
    until = {row["at_ms"]: row["at_ms"] + max(row["micros"] // 1000, 1) for row in rows}
    names = [name for name in [*map(name_of, named), OTHERS] if any(key[0] == name for key in sums)]
    values = []
    for at in sorted(until):
        below = 0.0
        for name in names:
            above = below + sums.get((name, at), 0)
            values.append(
                {"client": name, "at": at, "until": until[at], "low": round(below, 1), "high": round(above, 1)}
            )
            below = above
    encoding = {
        "x2": {"field": "until"},
        "y": {"field": "low", "type": "quantitative", "axis": NUMBERS},
        "y2": {"field": "high"},
        "color": _colour("client", names, width),
    }
    return _over_time(values, {"type": "rect", "opacity": 0.9, "clip": True}, encoding, width, span)


def lag(rows: list[Row], width: int, span: Span) -> Spec | None:
    """Records behind, by client and topic."""
    pairs = [{**row, "pair": f"{name_of(row['client'])} ← {name_of(row['topic'])}"} for row in rows]
    worst: dict[str, int] = {}
    for row in pairs:
        worst[row["pair"]] = max(worst.get(row["pair"], 0), row["lag"])
    named = [name for name in sorted(worst, key=lambda name: (-worst[name], name)) if worst[name] > 0][: len(COLOURS)]
    if not named:
        return None
    values = [{"pair": row["pair"], "at": row["at_ms"], "lag": row["lag"]} for row in pairs if row["pair"] in named]
    mark = {"type": "line", "interpolate": "step-after", "point": {"size": 28}, "strokeWidth": 1.5}
    encoding = {
        "y": {"field": "lag", "type": "quantitative", "axis": NUMBERS},
        "color": _colour("pair", named, width),
    }
    return _over_time(values, mark, encoding, width, span)


def latency_heat(rows: list[Row], width: int, span: Span) -> Spec | None:
    """A heat map: how many requests took how long."""
    if not rows:
        return None
    values = [
        {
            "at": row["at_ms"],
            "until": row["at_ms"] + max(row["micros"] // 1000, 1),
            "low": 10 ** (_third(row) / 3),
            "high": 10 ** ((_third(row) + 1) / 3),
            "requests": row["requests"],
        }
        for row in rows
    ]
    encoding = {
        "x2": {"field": "until"},
        "y": {
            "field": "low",
            "type": "quantitative",
            "scale": {"type": "log", "nice": False},
            "axis": {"title": None, "format": "~r", "values": DECADES, "grid": True, "labelOverlap": True},
        },
        "y2": {"field": "high"},
        "opacity": {
            "field": "requests",
            "type": "quantitative",
            "scale": {"type": "log", "range": [0.25, 1], "nice": False},
            "legend": None,
        },
    }
    return _over_time(values, {"type": "rect", "color": COLOURS[0], "clip": True}, encoding, width, span)


def rebalances(rows: list[Row], width: int, span: Span) -> Spec | None:
    """One line for each member of a group, one mark for each of its events."""
    members: dict[tuple[str, str], str] = {}
    for row in rows:
        key = (row["group_id"], row["member_id"] or row["client"])
        if key not in members and len(members) < MOST_MEMBERS:
            members[key] = (
                f"{_member(row, len(members) + 1)} · {name_of(row['group_id'], 24)}"  # where it is cut, the member stays
            )
    values = [
        {"member": members[key], "at": row["at_ms"], "event": row["event"]}
        for row in rows
        if (key := (row["group_id"], row["member_id"] or row["client"])) in members
    ]
    if not values:
        return None
    shown = [event for event in EVENTS if any(value["event"] == event for value in values)]
    return {
        "height": {"step": 18},
        "padding": {"left": round(width * 0.05), "right": 14, "top": 4, "bottom": 4},  # a reader's font may be wider
        "data": {"values": values},
        "mark": {"type": "point", "filled": True, "size": 45, "opacity": 0.85},
        "encoding": {
            "x": time_axis(width // 2, span),
            "y": {
                "field": "member",
                "type": "nominal",
                "sort": [members[key] for key in sorted(members, key=lambda key: key[0])],  # of a group as they came
                "axis": {"title": None, "grid": True, "labelLimit": round(width * 0.34)},
            },
            "color": {
                "field": "event",
                "type": "nominal",
                "scale": {"domain": shown, "range": [EVENTS[event] for event in shown]},
                "legend": {"columns": max(width // 85, 2)},
            },
            "shape": {
                "field": "event",
                "type": "nominal",
                "scale": {
                    "domain": shown,
                    "range": [{"leave": "cross", "error": "triangle-up"}.get(event, "circle") for event in shown],
                },
            },
        },
    }


def members_left_out(rows: list[Row]) -> str:
    """Say how many members and events are shown, if not all; else ""."""
    if not rows or len(rows) == rows[0]["all_events"]:
        return ""
    shown = len({(row["cluster"], row["group_id"], row["member_id"] or row["client"]) for row in rows})
    members, events = rows[0]["all_members"], rows[0]["all_events"]
    return (
        f"Shown are {shown:,} of {members:,} members, those with the most errors, leaves and joins, and {len(rows):,} of "
        f"{events:,} events; all are in the table group_events."
    )


def _over_time(values: list[Row], mark: Spec, encoding: Spec, width: int, span: Span) -> Spec:
    return {
        "height": 180,
        "data": {"values": values},
        "mark": mark,
        "encoding": {"x": time_axis(width, span), **encoding},
    }


def _member(row: Row, number: int) -> str:
    """A short unique name for a member."""
    return f"{name_of(row['client'], 24)} {number}"


def _third(row: Row) -> int:
    return min(max(int(row["third"]), THIRDS.start), THIRDS.stop)


def _colour(field: str, names: list[str], width: int) -> Spec:
    longest = max(map(len, names), default=0) * LETTER + 2 * LEGEND_GAP
    columns = 1 if width < 500 else max(1, min(3, int(width / longest)))
    legend = {"columns": columns, "columnPadding": 60, "labelLimit": width // columns - 2 * LEGEND_GAP}
    return {
        "field": field,
        "type": "nominal",
        "scale": {"domain": names, "range": COLOURS[: len(names)]},
        "legend": legend,
    }
