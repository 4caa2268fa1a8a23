"""The HTML report: hostile names execute nothing and stay text, in a parser and in Chromium; it fits a phone; it is small."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pyarrow as pa
import pytest

from kproxy.analyses.analysis import Analysis, Header
from kproxy.analyses.report.charts.drawing import NARROW, WIDE, draw, lag, map_graph, rebalances, traffic
from kproxy.analyses.report.charts.gallery import Drawing
from kproxy.analyses.report.html_page import LARGEST, html_page
from kproxy.analyses.report.pages import json_page
from kproxy.analyses.report.verdicts import Answer, Report, Summary
from tests.support import chromium

HOSTILE = [
    "<script>document.title='run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "</style></svg></title><script>document.title='run'</script>",
    '"><svg onload="document.title=\'run\'">',
    "{{ 7*7 }}{% raw %}",
    "javascript:document.title='run'",
    "a\u202egnp.exe\x1b[31m\x00\n\u2028b",
    "&lt;b&gt;",
]
TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "p", "h1", "h2", "div", "strong",
    "ul", "li", "span", "a", "figure", "figcaption", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "b",
    "dl", "dt", "dd", "svg", "g", "path", "line", "rect", "text", "circle", "defs", "clippath", "tspan",
}  # fmt: skip
SPAN = (0, 10_000)


class Page(HTMLParser):
    """What a parser makes of the page: its tags, its attributes, its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def answer(name: str, number: int) -> Answer:
    header = Header(id=f"an_id_{number}", title="A title", severity="warning", meaning="m", reference=name)
    rows = pa.table({"client_id": [name], name.replace("\x00", ""): [1]})
    return Answer(Analysis(header=header, sql="", path=""), {}, rows, "warning", f"{name} did it")


def drawings(names: list[str]) -> list[Drawing]:
    moved = [
        {"direction": way, "party": name, "topic": name, "records": 5} for name in names for way in ("produce", "fetch")
    ]
    group = [
        {"group_id": name, "client": name, "member_id": name, "at_ms": 5, "event": event}
        for name in names
        for event in ("join", "leave", "error")
    ]
    rates = [{"client": name, "at_ms": at, "micros": 1000, "bytes": 5} for name in names for at in (1, 5000)]
    behind = [{"client": name, "topic": name, "at_ms": 5, "lag": 7} for name in names]
    made = []
    for build, rows in ((map_graph, moved), (rebalances, group), (traffic, rates), (lag, behind)):
        wide, narrow = (draw(build(rows, width, SPAN) or {}, width) for width in (WIDE, NARROW))
        made.append(Drawing("A chart", "note", wide, narrow))
    return made


def report(names: list[str]) -> Report:
    summary = Summary(names, 1, 1, 1, 5, 0, 1, 0, 1, {})
    return Report(summary, [answer(name, number) for number, name in enumerate(names)], names)


@pytest.fixture(scope="module")
def hostile() -> str:
    return html_page(report(HOSTILE), drawings(HOSTILE))


def test_no_name_becomes_markup(hostile: str) -> None:
    page = Page(hostile)
    assert page.tags <= TAGS
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    links = {value for name, value in page.attributes if name in ("href", "src", "xlink:href")}
    assert all(link.startswith("#an_id_") for link in links)
    text = "".join(page.texts)
    assert all(name in text for name in HOSTILE[:6])


def test_what_would_reorder_or_hide_text_is_escaped(hostile: str) -> None:
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\u2028\x00-\x08\x1b]", hostile)
    assert "\\u202e" in hostile


def test_the_page_forbids_scripts_and_loads_nothing(hostile: str) -> None:
    assert "Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'" in hostile
    assert not re.search(r"<(script|link|iframe|object|img)|@import|url\((?!#)", hostile)


def test_nothing_runs_in_a_browser(hostile: str, tmp_path: Path, require: Callable[[str, object, str], None]) -> None:
    require("chromium", chromium.found(), "no chromium")
    path = tmp_path / "page.html"
    path.write_text(hostile, encoding="utf-8")
    shown = chromium.dom(path)
    title = re.search(r"<title>(.*?)</title>", shown, re.DOTALL)
    assert title is not None and title[1].startswith("Kafka traffic: &lt;script&gt;")
    assert "<script" not in shown.replace("&lt;script", "")
    # the same without the policy: escaping alone has to be enough
    path.write_text(hostile.replace("Content-Security-Policy", "x"), encoding="utf-8")
    title = re.search(r"<title>(.*?)</title>", chromium.dom(path), re.DOTALL)
    assert title is not None and title[1].startswith("Kafka traffic: ")


MEASURE = """<script>onload = () => document.title = [
    innerWidth, document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor
]</script>"""


@pytest.mark.slow
@pytest.mark.parametrize(("dark", "lightness"), [(False, range(200, 256)), (True, range(60))])
def test_a_phone_shows_it_light_and_dark(
    dark: bool, lightness: range, hostile: str, tmp_path: Path, require: Callable[[str, object, str], None]
) -> None:
    require("chromium", chromium.found(), "no chromium")
    path = tmp_path / "page.html"
    path.write_text(hostile.replace("Content-Security-Policy", "x") + MEASURE, encoding="utf-8")
    shown = chromium.dom(path, "--window-size=500,300", f"--blink-settings=preferredColorScheme={int(not dark)}")
    title = re.search(r"<title>(.*?)</title>", shown, re.DOTALL)
    assert title is not None
    width, needed, *colour = map(int, re.findall(r"\d+", title[1]))
    assert needed <= width == 500, "something reaches over the right edge"
    assert all(part in lightness for part in colour[:3])


def test_a_page_is_cut_to_its_limit() -> None:
    rows = pa.table({f"column_{number}": ["x" * 190] * 500 for number in range(30)})
    header = Header(id="a", title="T", severity="info", meaning="m", reference="https://kafka.apache.org/x")
    one = Answer(Analysis(header=header, sql="", path=""), {}, rows, "info", "v")
    page = html_page(Report(Summary(["s"], 1, 1, 1, 1, 0, 1, 0, 1, {}), [one], []), [], most=500)
    assert len(page.encode()) <= LARGEST
    assert re.search(r"and \d+ more rows", page)
    assert '<a href="https://kafka.apache.org/x" rel="noreferrer noopener">' in page


def test_without_kafka_it_says_so() -> None:
    page = html_page(Report(Summary(["s"], 0, 0, 0, 0, 0, 0, None, None, {}), [], []), [])
    assert "no Kafka traffic, and no other TCP connection with data, was found." in page


def test_the_page_and_the_json_say_the_same_in_the_same_order() -> None:
    said = {"b": "critical", "a": "warning", "c": "notice"}
    answers = [
        Answer(
            Analysis(header=Header(id=name, title=f"Title {name}", severity="info", meaning="m"), sql="", path=""),
            {}, pa.table({"n": [1]}), severity, f"verdict {name}",
        )
        for name, severity in said.items()
    ]  # fmt: skip
    made = Report(Summary(["s"], 1, 1, 1, 5, 0, 1, 0, 1, {}), answers, ["damage"], part="the first half")
    page, told = Page(html_page(made, [])), json.loads(json_page(made))
    expected = [(one["severity"], one["title"], one["verdict"]) for one in told["verdicts"]]
    texts = [text.strip() for text in page.texts if text.strip()]
    evidence = texts[texts.index("Evidence") + 1 :]
    assert [text for text in texts if text.startswith("verdict ")][:3] == [verdict for *_, verdict in expected]
    for severity, title, verdict in expected:
        at = evidence.index(title)
        assert (evidence[at - 1], evidence[at + 1]) == (severity, verdict)
    titles = [text for text in evidence if text.startswith("Title ")]
    assert titles == [title for _, title, _ in expected] == [one["title"] for one in told["analyses"].values()]
    assert told["damages"][0] in "".join(texts) and told["part"] in "".join(texts)


def test_the_report_has_the_colours_and_tables_of_the_page() -> None:
    ours, pages = (
        resources.files(package).joinpath(name).read_text(encoding="utf-8")
        for package, name in (("kproxy.analyses.report", "page.css"), ("kproxy.page", "static/page.css"))
    )
    colours = re.findall(r"--[a-z0-9]+: light-dark\(.*?\);", ours)
    assert len(colours) > 15 and all(colour in pages for colour in colours)
    for rule in ("body", "h2", "table", "th, td", "td.number, th.number", "details.finding summary"):
        (of_report,), (of_page,) = (re.findall(rf"^{re.escape(rule)} {{ (.*) }}$", css, re.M) for css in (ours, pages))
        assert set(of_report.rstrip(";").split("; ")) - {"background: var(--bg)"} <= set(
            of_page.rstrip(";").split("; ")
        ), rule
