"""Draw Vega-Lite charts as SVG of shapes and text only, in the colours of the page, light or dark."""

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
    "labelColor": "var(--muted)",
    "titleColor": "var(--muted)",
    "labelFontSize": 11,
    "titleFontSize": 11,
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
        sums[row[key]] = sums.get(row[key], 0) + row[value]
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
