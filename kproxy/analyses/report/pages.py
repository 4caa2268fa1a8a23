"""A report as JSON: everything, for programs."""

import math
import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import msgspec

from kproxy import __version__
from kproxy.analyses.analysis import is_number
from kproxy.analyses.report.verdicts import Answer, Report
from kproxy.analyses.report.words import cell, column_cells, overview, source_names
from kproxy.output.times import render_instant

MOST_ROWS = 50
MARKUP = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&@:-])")


def json_page(report: Report) -> bytes:
    """The report as one JSON object, indented."""
    summary = msgspec.to_builtins(report.summary)
    for name in ("first", "last"):
        micros = summary.pop(f"{name}_micros")
        summary[f"{name}_seen_at"] = None if micros is None else render_instant(micros * 1000)
    page = {
        "kproxy": __version__,
        "summary": summary,
        "verdicts": [
            {"id": one.analysis.id, "title": one.analysis.title, "severity": one.severity, "verdict": one.verdict}
            for one in report.verdicts
        ],
        "analyses": {one.analysis.id: _plain_answer(one) for one in report.answers},
        "damages": report.damages,
        **({"compared": report.compared} if report.compared else {}),
        **({"part": report.part} if report.part else {}),
    }
    return msgspec.json.format(msgspec.json.encode(page, enc_hook=str), indent=1) + b"\n"


def _plain_answer(answer: Answer) -> dict[str, Any]:
    header = answer.analysis.header
    return {
        "title": header.title,
        "severity": answer.severity,
        "verdict": answer.verdict,
        "meaning": header.meaning,
        **({"basis": msgspec.to_builtins(header.basis)} if header.basis else {}),
        "columns": answer.analysis.columns,
        "action": header.action,
        "reference": header.reference,
        "parameters": answer.parameters,
        "rows": [{name: plain(value) for name, value in row.items()} for row in answer.rows.to_pylist()],
    }


def plain(value: Any) -> Any:
    """A value that JSON has: times as RFC 3339, bytes as base64 (by msgspec), no NaN."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    return value


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
    if header.basis:
        yield from ["", f"Rests on: {escaped(header.basis.in_words())}"]
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
    for row in zip(*(column_cells(name, [row[name] for row in shown]) for name in names), strict=True):
        yield "| " + " | ".join(map(escaped, row)) + " |"
    if rows.num_rows > len(shown):
        yield from ["", f"... and {rows.num_rows - len(shown):,} more rows."]
