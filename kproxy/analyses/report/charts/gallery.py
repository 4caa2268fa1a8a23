"""All charts, in the order in which a page shows them."""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from kproxy.analyses.analysis import View, read_view
from kproxy.analyses.library import load_views, tables_needed
from kproxy.analyses.report.charts import drawing
from kproxy.analyses.report.charts.drawing import NARROW, WIDE, Span, Spec, draw, map_graph
from kproxy.analyses.report.verdicts import Tables
from kproxy.output.escaping import printable

Build = Callable[[list[dict[str, Any]], int, Span], Spec | None]


class Chart(Struct, frozen=True):
    """One kind of chart."""

    name: str  # of its .sql, too
    title: str
    note: str
    build: Build
    analyses: tuple[str, ...]  # with --only, the chart is shown with these
    named: tuple[str, ...] = ()  # columns with names that are unique only within a cluster
    left_out: Callable[[list[dict[str, Any]]], str] = lambda rows: ""  # a sentence about what the chart leaves out

    @property
    def view(self) -> View:
        return _view(self.name)


class Drawing(Struct, frozen=True):
    """A chart that was drawn, for a page and for a phone."""

    title: str
    note: str
    wide: str
    narrow: str


CHARTS = (
    Chart(
        "map_graph",
        "Who writes and who reads",
        "Producers on the left, topics in the middle, consumers and their groups on the right; the more records the thicker.",
        map_graph,
        ("map", "inventory", "topics"),
        ("party", "topic"),
    ),
    Chart(
        "traffic",
        "Traffic by client, bytes a second",
        "Requests and responses on the wire, by client id.",
        drawing.traffic,
        ("map", "inventory", "topics"),
        ("client",),
    ),
    Chart(
        "rebalances",
        "What groups did",
        "One line for each member, by group. Times are UTC.",
        drawing.rebalances,
        ("rebalances",),
        ("group_id",),
        drawing.members_left_out,
    ),
    Chart(
        "lag",
        "Lag before each Fetch, records",
        "Of each client and topic, the partition that was furthest behind when it asked. Lag of commits: analysis lag.",
        drawing.lag,
        ("lag",),
        ("topic",),
    ),
    Chart(
        "latency_heat",
        "Latency, milliseconds",
        "The stronger the colour, the more requests. Without Fetch, JoinGroup and SyncGroup, which brokers hold on purpose.",
        drawing.latency_heat,
        ("latency",),
    ),
)


def tables_of_charts(only: Iterable[str] | None) -> set[str]:
    """The tables that the charts of these analyses read; None: of all analyses."""
    views = load_views()
    return {name for chart in chosen(only) for name in tables_needed(chart.view, views)}


def chosen(only: Iterable[str] | None) -> list[Chart]:
    """The charts of these analyses; None: of all analyses."""
    wanted = None if only is None else set(only)
    return [chart for chart in CHARTS if wanted is None or wanted & set(chart.analyses)]


def draw_all(tables: Tables, only: Iterable[str] | None, span: Span) -> list[Drawing]:
    """Draw the charts that have data. *span*: from when to when the sources were captured."""
    drawings = []
    for chart in chosen(only):
        rows, note = _with_cluster_numbers(tables.select(chart.view).to_pylist(), chart)
        drawing = [(chart.build(rows, width, span), width) for width in (WIDE, NARROW)]
        if all(spec is not None for spec, _ in drawing):
            wide, narrow = (draw(spec, width) for spec, width in drawing if spec is not None)
            drawings.append(Drawing(chart.title, note, wide, narrow))
    return drawings


def _with_cluster_numbers(rows: list[dict[str, Any]], chart: Chart) -> tuple[list[dict[str, Any]], str]:
    """Return rows and note; if there are several clusters, number them after the names, and explain the numbers in the note."""
    clusters = sorted({row["cluster"] for row in rows}) if chart.named else []
    note = f"{chart.note} {chart.left_out(rows)}".rstrip()
    if len(clusters) < 2:
        return rows, note
    numbers = {cluster: number for number, cluster in enumerate(clusters, 1)}
    names = ", ".join(f"({number}) is {printable(cluster)}" for cluster, number in numbers.items())
    numbered = [{**row, **{name: f"{row[name]} ({numbers[row['cluster']]})" for name in chart.named}} for row in rows]
    return numbered, f"{note} Numbers after names are clusters: {names}."


@cache
def _view(name: str) -> View:
    return read_view(Path(__file__).with_name(f"{name}.sql"))
