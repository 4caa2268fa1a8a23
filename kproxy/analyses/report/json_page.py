"""A report as JSON: everything, for programs."""

import math
from datetime import date, datetime
from typing import Any

import msgspec

from kproxy import __version__
from kproxy.analyses.report.verdicts import Answer, Report
from kproxy.output.times import render_instant


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
        "analyses": {one.analysis.id: _answer(one) for one in report.answers},
        "damages": report.damages,
        **({"compared": report.compared} if report.compared else {}),
        **({"part": report.part} if report.part else {}),
    }
    return msgspec.json.format(msgspec.json.encode(page, enc_hook=_hook), indent=1) + b"\n"


def _answer(answer: Answer) -> dict[str, Any]:
    header = answer.analysis.header
    return {
        "title": header.title,
        "severity": answer.severity,
        "verdict": answer.verdict,
        "meaning": header.meaning,
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


def _hook(value: Any) -> str:
    return str(value)
