"""A report as Markdown, for a ticket or a chat: verdicts as a table, then each analysis with its first rows."""

import re
from collections.abc import Iterator
from typing import Any

from kproxy.analyses.report.cells import cell, cell_of, is_number
from kproxy.analyses.report.verdicts import Answer, Report
from kproxy.analyses.report.words import overview, source_names

MOST_ROWS = 50
MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&@:-])")


def markdown_page(report: Report, *, most: int | None = None) -> str:
    """The report, GitHub's dialect. Names from the traffic cannot be markup, links or mentions in it."""
    return "\n".join(_lines(report, MOST_ROWS if most is None else most)) + "\n"


def escaped(text: str) -> str:
    """Escape text so that Markdown treats nothing in it as markup."""
    return MARKUP.sub(r"\\\1", text).replace("\n", " ").replace("@", "@\u2060")


def _lines(report: Report, most: int) -> Iterator[str]:
    yield f"# {escaped(source_names(report.summary))}"
    yield ""
    if report.part:
        yield from [f"**Interrupted: this is from {escaped(report.part)}, not from all.**", ""]
    yield escaped(overview(report.summary)) + "."
    if report.verdicts:
        yield from ["", "| | |", "|---|---|"]
        for answer in report.verdicts:
            yield f"| **{answer.severity}** | {escaped(answer.verdict)} ({escaped(answer.analysis.id)}) |"
    if report.compared:
        yield from ["", escaped(report.compared)]
    for damage in report.damages:
        yield from ["", f"Damaged: {escaped(cell(damage))}"]
    for answer in report.answers:
        if answer.fires:
            yield from _answer(answer, most)


def _answer(answer: Answer, most: int) -> Iterator[str]:
    header = answer.analysis.header
    yield from ["", f"## {escaped(header.title)}", ""]
    yield escaped(header.meaning)
    if answer.verdict:
        yield from ["", f"**{escaped(answer.verdict)}**"]
    yield from ["", *_table(answer.rows, most)]
    if header.action:
        yield from ["", f"What to do: {escaped(header.action)}"]
    if header.reference:
        yield from [
            "",
            f"<{header.reference}>"
            if re.fullmatch(r"https://[^\s<>]+", header.reference)
            else escaped(header.reference),
        ]


def _table(rows: Any, most: int) -> Iterator[str]:
    shown = rows.slice(0, most).to_pylist()
    names = rows.column_names
    yield "| " + " | ".join(escaped(name) for name in names) + " |"
    yield "|" + "|".join("---:" if is_number(shown[0][name]) else "---" for name in names) + "|"
    for row in shown:
        yield "| " + " | ".join(escaped(cell_of(name, row[name])) for name in names) + " |"
    if rows.num_rows > len(shown):
        yield from ["", f"... and {rows.num_rows - len(shown):,} more rows."]
