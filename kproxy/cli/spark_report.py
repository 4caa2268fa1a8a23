"""``kproxy-spark report``: as ``kproxy report`` (report.py), with Spark in place of DuckDB."""

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import date
from pathlib import Path

from msgspec import Struct

from kproxy.cli.report_pages import STILL_GROWING, Meter, page_of, tell, write
from kproxy.cli.report_request import Asked, is_gated, list_lines, load_analyses, make_plan
from kproxy.errors import UsageError
from kproxy.pipeline.sink import check_output

COMMAND = "kproxy-spark report"
DONE, DAMAGED, GATE = 0, 3, 4  # exit status, see app.py


class Where(Struct, frozen=True):
    """Options that kproxy report lacks: which rows to read, and on which Spark."""

    cluster: str | None
    first: str | None
    last: str | None
    staging: str | None
    master: str | None


def run_report(sources: Sequence[str], asked: Asked, where: Where) -> int:
    """Make the report and return the exit status. Most mistakes raise UsageError before Spark starts."""
    if asked.listed:
        write(None, "".join(f"{line}\n" for line in list_lines(load_analyses(asked).values())))
        return DONE
    if not sources:
        raise UsageError("name tables, captures or decoded logs: kproxy-spark report tables")
    check_output(asked.output, [Path(source) for source in sources])
    plan = make_plan(asked, sources, COMMAND)
    first, last = parse_day("--from", where.first), parse_day("--to", where.last)
    if first is not None and last is not None and first > last:
        raise UsageError("--from is a later day than --to")
    from kproxy.spark.session import open_session  # noqa: PLC0415 - an extra

    with ExitStack() as stack:
        meter = stack.enter_context(Meter(wanted=not asked.quiet))
        meter.show("Spark is started")
        spark = open_session("kproxy report", where.master)
        from kproxy.spark.file_rows import Options  # noqa: PLC0415
        from kproxy.spark.narrowing import Narrowed  # noqa: PLC0415 - needs pyspark
        from kproxy.spark.report import SparkTables, make_report  # noqa: PLC0415

        scratch = None
        if where.staging is not None or (spark.sparkContext.master or "").startswith("local"):
            scratch = tempfile.mkdtemp(prefix="kproxy-report-", dir=where.staging)
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        meter.show("the tables are opened")
        keylog = None if asked.keylog is None else str(asked.keylog)
        tables = SparkTables(
            spark,
            sources,
            folders=asked.folders,
            only=Narrowed(where.cluster, first, last),
            options=Options(records="records" in plan.tables, keylog=keylog),
            compare=asked.compares and len(sources) == 2,
            spans=plan.spans,
            scratch=scratch,
        )
        stack.callback(tables.close)
        tables.damages = [damage for damage in tables.damages if not damage.endswith(STILL_GROWING)]
        made = make_report(tables, plan.analyses, plan.values, compared=plan.compared, watch=meter.analyse)
        page = page_of(asked, made, sources, tables, COMMAND)
    write(asked.output, page)
    tell(made.damages, "kproxy-spark")
    if is_gated(asked, made):
        return GATE
    return DAMAGED if made.damages else DONE


def parse_day(name: str, text: str | None) -> date | None:
    """Parse a day such as 2026-11-21. Raises UsageError that begins with *name*."""
    if text is None:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise UsageError(f"{name}: {text[:40]!r} is no day; write 2026-11-21")
    return day
