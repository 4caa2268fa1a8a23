"""The report as one self-contained HTML file, to attach to a ticket. It looks like kproxy's page (kproxy/page/static/page.css).

The page forbids scripts and all loading (Content-Security-Policy), holds no script, and is at most 2 MB: tables are cut.
page.html.jinja is the template, in which Jinja2 escapes every value; page.css has colours (light, dark, paper) and layout.
"""

import re
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Any

from msgspec import Struct

from kproxy import __version__
from kproxy.analyses.analysis import is_number
from kproxy.analyses.report.charts.gallery import Drawing
from kproxy.analyses.report.templates import shown_by
from kproxy.analyses.report.verdicts import Answer, Report
from kproxy.analyses.report.words import WHOLE, cell, column_cells, overview, source_names, when
from kproxy.output.escaping import printable
from kproxy.output.times import counted

MOST_ROWS = 50  # of each analysis; half as many as long as the page is too large
LARGEST = 2_000_000  # bytes
LINK = re.compile(r"https?://[^\s\"'<>]+")


class Section(Struct, frozen=True):
    """An analysis with rows, prepared for the template."""

    answer: Answer
    names: list[tuple[str, bool]]  # of columns, and whether they hold numbers
    rows: list[tuple[tuple[str, bool], ...]]  # text, and whether it is a number
    meanings: list[tuple[str, str]]  # of the columns, those that the headline names
    hidden: str  # how many more rows there are, in words
    link: str


def html_page(report: Report, drawings: Iterable[Drawing], *, most: int | None = None) -> str:
    """The page, with as many rows as fit into 2 MB."""
    drawings = list(drawings)
    rows = MOST_ROWS if most is None else most
    page = _page(report, drawings, rows)
    while len(page.encode("utf-8", "replace")) > LARGEST and rows > 1:
        rows //= 2
        page = _page(report, drawings, rows)
    return page


def _page(report: Report, drawings: list[Drawing], most: int) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - an extra, and only for pages

    environment = Environment(
        loader=PackageLoader("kproxy.analyses", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    facts = report.summary
    return environment.get_template("page.html.jinja").render(
        css=resources.files("kproxy.analyses.report").joinpath("page.css").read_text(encoding="utf-8"),
        title=source_names(facts),
        overview=overview(facts),
        when=when(facts),
        numbers=_numbers(report),
        verdicts=report.verdicts,
        part=report.part,
        damages=[cell(damage, 400) for damage in report.damages],
        drawings=drawings,
        sections=[_section(answer, most) for answer in report.answers if answer.fires],
        compared=report.compared,
        version=__version__,
    )


def _numbers(report: Report) -> list[list[str]]:
    facts = report.summary
    counts = [
        counted(facts.requests, "request"),
        counted(facts.kafka_connections, "connection"),
        counted(facts.clients, "client id"),
        counted(facts.errors, "answer with errors", "answers with errors"),
    ]
    return [count.split(" ", 1) for count in counts]


def _section(answer: Answer, most: int) -> Section:
    shown = answer.rows.slice(0, most).to_pylist()
    names: list[str] = answer.rows.column_names
    hidden = answer.rows.num_rows - len(shown)
    header = answer.analysis.header
    headline = shown_by(header.verdict)
    return Section(
        answer=answer,
        names=[(name, is_number(shown[0][name])) for name in names],
        rows=list(zip(*(_cells(name, [row[name] for row in shown]) for name in names), strict=True)),
        meanings=[(name, meaning) for name, meaning in answer.analysis.columns.items() if name in headline and meaning],
        hidden=counted(hidden, "more row") if hidden else "",
        link=header.reference if LINK.fullmatch(header.reference) else "",
    )


def _harmless(value: Any) -> Any:
    """Escape characters that would reorder or hide text. Markup (drawings, CSS) stays as it is."""
    return printable(value.replace("\n", " "), len(value)) if type(value) is str else value


def _cells(name: str, values: list[Any]) -> Iterator[tuple[str, bool]]:
    return zip(column_cells(name, values, WHOLE), map(is_number, values), strict=True)
