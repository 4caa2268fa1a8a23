"""Charts over time: traffic by client, lag, latency, events of group members."""

from typing import Any

from kproxy.analyses.report.charts.drawing import COLOURS, OTHERS, Span, Spec, most, name_of, time_axis

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
DECADES = [0.01, 0.1, 1, 10, 100, 1_000, 10_000, 100_000]
THIRDS = range(-6, 16)  # of powers of ten of milliseconds: 0.01 ms to 100 s


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
    return {
        "height": 180,
        "data": {"values": values},
        "mark": {"type": "rect", "opacity": 0.9, "clip": True},
        "encoding": {
            "x": time_axis(width, span),
            "x2": {"field": "until"},
            "y": {
                "field": "low",
                "type": "quantitative",
                "axis": {"title": None, "format": "~s", "tickCount": 4},
            },
            "y2": {"field": "high"},
            "color": _colour("client", names, width),
        },
    }


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
    return {
        "height": 180,
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after", "point": {"size": 28}, "strokeWidth": 1.5},
        "encoding": {
            "x": time_axis(width, span),
            "y": {
                "field": "lag",
                "type": "quantitative",
                "axis": {"title": None, "format": "~s", "tickCount": 4},
            },
            "color": _colour("pair", named, width),
        },
    }


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
    x = time_axis(width, span)
    return {
        "height": 180,
        "data": {"values": values},
        "mark": {"type": "rect", "color": COLOURS[0], "clip": True},
        "encoding": {
            "x": x,
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
        },
    }


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
