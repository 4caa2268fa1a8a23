"""Drawings: what is no shape or text is refused; names are escaped; colours are the page's."""

from xml.etree import ElementTree

import pytest

from kproxy.analyses.report.charts.drawing import UnsafeDrawing, draw, most, name_of, scaled, time_axis

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
    assert "var(--c1)" in drawn and "var(--muted)" in drawn
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
