"""Draw the dashboards without Grafana, from the same queries on a Prometheus, to look at them and to keep pictures of them.

    python dashboards/render.py --prometheus http://localhost:9090 --minutes 10 -o dashboards/pictures

Needs vl-convert-python. The layout is Grafana's; colours and axes are not.
"""

import argparse
import json
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import vl_convert
from make import PAGES, Page, Panel, Query

POINTS = 120
COLUMN = 54  # pixels of one of Grafana's 24 columns
PLOT_HEIGHT = 150
UNITS = {
    "s": "s",
    "Bps": "bytes/s",
    "bytes": "bytes",
    "reqps": "1/s",
    "cps": "1/s",
    "percentunit": "share",
    "short": "",
}


def ask(prometheus: str, path: str, **parameters: Any) -> list[dict[str, Any]]:
    """The result of a query."""
    url = f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=30) as response:
        result: list[dict[str, Any]] = json.load(response)["data"]["result"]
    return result


class Source:
    """Answers queries as Grafana would ask them for the last so many minutes."""

    def __init__(self, prometheus: str, minutes: float) -> None:
        self._prometheus = prometheus
        self.end = time.time()
        self.start = self.end - minutes * 60
        self._step = max((self.end - self.start) / POINTS, 1.0)
        self._variables = {
            "$job": ".*",
            "$instance": ".*",
            "$__rate_interval": f"{max(int(4 * self._step), 20)}s",
            "$__range": f"{int(self.end - self.start)}s",
        }

    def rows(self, query: Query, title: str, *, now: bool) -> list[dict[str, Any]]:
        """A row for each point: series, time (ms), value."""
        expression = query.expr
        for name, value in self._variables.items():
            expression = expression.replace(name, value)
        if now:
            found = ask(self._prometheus, "query", query=expression, time=self.end)
            return [{"series": _name(query, title, one["metric"]), "value": _number(one["value"][1])} for one in found]
        span = {"start": self.start, "end": self.end, "step": self._step}
        return [
            {"series": _name(query, title, one["metric"]), "time": at * 1000, "value": _number(value)}
            for one in ask(self._prometheus, "query_range", query=expression, **span)
            for at, value in one["values"]
        ]


def _number(text: str) -> float | None:
    value = float(text)
    return value if abs(value) < float("inf") else None


def _name(query: Query, title: str, labels: dict[str, str]) -> str:
    name = query.legend or ("  ".join(labels[label] for label in sorted(labels)) or title)
    for label, value in labels.items():
        name = name.replace("{{" + label + "}}", value)
    return name


def picture(panel: Panel, source: Source) -> dict[str, Any]:
    """The Vega-Lite of one panel."""
    width = panel.width * COLUMN - 80
    title = {"text": panel.title, "anchor": "start", "fontSize": 13}
    is_now = panel.kind != "time"
    rows = [row for query in panel.queries for row in source.rows(query, panel.title, now=is_now)]
    if panel.kind == "now":
        text = _shown(rows[0]["value"], panel.unit) if rows else "no data"
        mark = {"type": "text", "fontSize": 28, "text": text}
        return {"title": title, "width": width, "height": 60, "data": {"values": [{}]}, "mark": mark}
    if panel.kind == "table":
        texts = [f"{row['series']}   {_shown(row['value'], panel.unit)}" for row in rows[:9]] or ["no data"]
        mark = {"type": "text", "align": "left", "text": texts, "lineBreak": "\n", "x": 0, "y": 8}
        return {"title": title, "width": width, "height": PLOT_HEIGHT, "data": {"values": [{}]}, "mark": mark}
    mark = {"type": "area", "opacity": 0.6} if panel.stacked else {"type": "line", "strokeWidth": 1.5}
    stack: Any = "zero" if panel.stacked else None
    y = {"field": "value", "type": "quantitative", "title": UNITS[panel.unit], "stack": stack, "axis": {"format": "~s"}}
    legend = {"orient": "bottom", "columns": 2 if panel.width < 12 else 3, "title": None, "labelLimit": 190}
    return {
        "title": title,
        "width": width,
        "height": PLOT_HEIGHT,
        "data": {"values": rows or [{"series": "no data", "time": source.end * 1000, "value": None}]},
        "mark": mark,
        "encoding": {
            "x": {"field": "time", "type": "temporal", "title": None, "axis": {"format": "%H:%M:%S", "tickCount": 4}},
            "y": y,
            "color": {"field": "series", "type": "nominal", "legend": legend, "scale": {"scheme": "tableau20"}},
        },
    }


def _shown(value: float | None, unit: str) -> str:
    if value is None:
        return "no data"
    if unit == "percentunit":
        return f"{value:.1%}"
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"
    if unit in ("Bps", "bytes"):
        return f"{value / 1e6:.3g} MB" + ("/s" if unit == "Bps" else "")
    return (f"{value:,.0f}" if value >= 100 else f"{value:.3g}") + (f" {UNITS[unit]}" if UNITS[unit] else "")


def draw(page: Page, source: Source) -> bytes:
    """The picture (PNG) of a dashboard."""
    lines: list[dict[str, Any]] = []
    for _, panels in page.rows:
        line: list[dict[str, Any]] = []
        room = 24
        for panel in panels:
            if panel.width > room:
                lines.append({"hconcat": line, "resolve": {"scale": {"color": "independent"}}})
                line, room = [], 24
            line.append(picture(panel, source))
            room -= panel.width
        lines.append({"hconcat": line, "resolve": {"scale": {"color": "independent"}}})
    whole = {
        "title": {"text": page.title, "fontSize": 18, "anchor": "start"},
        "vconcat": lines,
        "resolve": {"scale": {"color": "independent"}},
        "config": {"view": {"stroke": "#dddddd"}, "font": "sans-serif"},
        "background": "white",
    }
    png: bytes = vl_convert.vegalite_to_png(json.dumps(whole), scale=0.8)
    return png


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the dashboards from a Prometheus.")
    parser.add_argument("--prometheus", default="http://localhost:9090", metavar="URL")
    parser.add_argument("--minutes", type=float, default=10.0, help="how far back (10)")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="DIR")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    source = Source(arguments.prometheus.rstrip("/"), arguments.minutes)
    for page in PAGES:
        (arguments.out / f"{page.name}.png").write_bytes(draw(page, source))


if __name__ == "__main__":
    main()
