"""``kproxy report``: what matters in captures, decoded logs and tables, as verdicts; the rows of analyses that --only names."""

import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli import report_request
from kproxy.cli.endings import DAMAGED, DONE, INTERRUPTED
from kproxy.cli.options import SEPARATE, source_path
from kproxy.cli.reading import FirstAnswer, SourceReader
from kproxy.cli.report_request import Format, Plan, ReportRequest, report_options
from kproxy.errors import UsageError
from kproxy.output.escaping import printable
from kproxy.output.text.styles import PLAIN, Style, style_for
from kproxy.pipeline.run import Options
from kproxy.pipeline.sink import Sink, check_output

if TYPE_CHECKING:
    from kproxy.analyses.duck import Database
    from kproxy.analyses.report.verdicts import Report, Tables

MOST_REPEATED = 8  # sources in the commands that a report ends with
WIDEST = 120
NARROWEST = 40
WIDTH = re.compile(r"[1-9][0-9]{0,4}")  # what COLUMNS must be to count
STILL_GROWING = "the file ends within this line"  # in a decoded log that is still being written; no damage
BEFORE_METER_S = 0.5  # of running analyses, until the current one is shown
COMMAND = "kproxy report"
GATE = 4  # exit status, see endings.py
FIRST_ANALYSES_S = 0.2  # CPU time for the analyses of the first answer


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, type=source_path)
@SEPARATE
@report_options
def report(sources: tuple[Path, ...], *, separate: bool, **options: Any) -> int:
    """Report what matters in captures, decoded logs and tables.

    SOURCE is a capture (pcap or pcapng, plain, gzip or zstd; - is standard input), a decoded log, which kproxy run may still
    be writing, or a directory of tables (kproxy decode --format parquet). Several sources make one report. Several captures,
    also folders and patterns of them, are read as one capture, unless --separate is given.

    \b
    kproxy report trace.pcapng
    kproxy report --list
    kproxy report --only rebalances trace.pcapng
    kproxy report --only tiny_batches --param max_records=10 trace.pcapng
    kproxy report --target 4.0 trace.pcapng
    kproxy report -o report.html trace.pcapng
    kproxy report --only diff before.pcapng after.pcapng
    kproxy report --only diff --after 2026-11-21T02:13Z/ trace.pcapng
    kproxy report --analyses ./ours trace.pcapng

    A large capture gives a first answer after about a second, from its beginning;
    the report follows when everything is read. If the report does not go to a
    terminal, the first answer goes to standard error; -q turns it off. Ctrl-C ends
    the reading, and the report covers what was read until then.

    --only diff shows what changed from the first source to the second; with one
    source from its first half to its second, or from --before to --after. A page
    (html) is one file without scripts that loads nothing. Analyses are files of
    SQL, see kproxy/analyses/analysis.py; your folder of them may have views/.

    For CI: with --target or --only readiness, the exit status is 4 if a client
    breaks.

    \b
    Exit status:
      0  done
      1  the output cannot be written
      2  wrong usage, or a source that cannot be read
      3  a source is damaged: everything before the damage is in the report
      4  an analysis that was asked for found what it looks for: a client that
         breaks (readiness); or --fail-on was given, and there is such a verdict
    130  interrupted: while a source was read, the report is of what was read
         until then, and says so
    """
    from kproxy.analyses.duck import Database, check_available  # noqa: PLC0415 - only this command and sql

    check_available()
    from kproxy.analyses.report.verdicts import make_report  # noqa: PLC0415 - needs what was just looked for

    request, names = report_request.request_of(options), tuple(map(str, sources))
    if request.listed:
        write(None, report_request.list_analyses(request))
        return DONE
    _check_sources(sources, request.output)
    plan = report_request.make_plan(request, names, COMMAND)
    shown = Shown(request)
    reader = SourceReader(
        sources,
        bar=not request.quiet,
        separate=separate,
        first=FirstAnswer(wanted=_wants_first_answer(sources, request)),
        show=shown.show_first,
    )
    with (
        reader.first.contained(),
        Database(
            sources,
            folders=request.folders,
            wanted=plan.tables,
            options=Options(keylog=request.keylog, records="records" in plan.tables, schemas=request.schemas),
            watch=reader.read,
            compare=request.compares and len(sources) == 2,
            spans=plan.spans,
            reading=reader.state,
        ) as database,
    ):
        if reader.first.is_here:
            reader.first.send(_first_answer(database, plan, reader.part, shown))
        growing = [damage for damage in database.damages if damage.endswith(STILL_GROWING)]
        database.damages = [damage for damage in database.damages if damage not in growing]
        tell(database.notes)
        with Meter(wanted=not request.quiet, poll=reader.poll) as meter:
            database.look_ahead(plan.analyses, plan.values)
            made = make_report(
                database,
                plan.analyses,
                plan.values,
                sources=names,
                compared=plan.compared,
                part=reader.part if reader.interrupted else "",
                watch=meter.analyse,
            )
            page = page_of(request, made, names, database, COMMAND)
    write(request.output, page)
    tell(made.damages)
    if reader.interrupted:
        return INTERRUPTED
    if report_request.is_gated(request, made):
        return GATE
    return DAMAGED if made.damages else DONE


def _check_sources(sources: tuple[Path, ...], output: Path | None) -> None:
    if not sources:
        raise UsageError("name a capture, a decoded log or a directory of tables: kproxy report trace.pcapng")
    if sources.count(Path("-")) > 1:
        raise UsageError("standard input can be read only once: use one -")
    check_output(output, list(sources))


def _wants_first_answer(sources: tuple[Path, ...], request: ReportRequest) -> bool:
    """Return whether to answer from a part of the sources first, while the rest is decoded.

    Directories of tables need no decoding, a comparison needs all of its sources, and two processes cannot share a key log.
    """
    needs_all = request.keylog is not None or request.compares or any(source.is_dir() for source in sources)
    return not request.quiet and not needs_all


def _first_answer(database: "Database", plan: Plan, part: str, shown: "Shown") -> str:
    from kproxy.analyses.report.text import first_lines  # noqa: PLC0415 - needs pyarrow
    from kproxy.analyses.report.verdicts import make_first_report  # noqa: PLC0415

    until = time.process_time() + FIRST_ANALYSES_S
    made = make_first_report(
        database, plan.analyses, plan.values, enough=lambda: time.process_time() > until, part=part
    )
    style, width = shown.look()
    return "".join(f"{line}\n" for line in first_lines(made, len(plan.analyses), style=style, width=width))


def page_of(request: ReportRequest, made: "Report", sources: Sequence[str], tables: "Tables", command: str) -> str:
    """Return the report in its form.

    Args:
        request: the options of the command.
        made: the report.
        sources: as on the command line.
        tables: the tables that the charts of a page read.
        command: the program, for commands that show more.
    """
    if request.form is Format.HTML:
        return _html(request, made, tables)
    if request.form is Format.JSON:
        from kproxy.analyses.report.pages import json_page  # noqa: PLC0415

        return json_page(made).decode()
    if request.form is Format.MARKDOWN:
        from kproxy.analyses.report.pages import markdown_page  # noqa: PLC0415

        return markdown_page(made, most=request.rows)
    return _text(request, made, sources, command)


def _html(request: ReportRequest, made: "Report", tables: "Tables") -> str:
    from kproxy.analyses.report.charts.gallery import draw_all  # noqa: PLC0415 - only for pages
    from kproxy.analyses.report.html_page import html_page  # noqa: PLC0415

    drawings = []
    if made.summary.requests:
        micros = made.summary.first_micros or 0, made.summary.last_micros or 0
        drawings = draw_all(tables, request.only or None, (micros[0] // 1000, micros[1] // 1000 + 1))
    return html_page(made, drawings, most=request.rows)


def _text(request: ReportRequest, made: "Report", sources: Sequence[str], command: str) -> str:
    from kproxy.analyses.report.text import answer_lines, part_lines, summary_lines  # noqa: PLC0415

    style, width = Shown(request).look()
    if not request.only:
        # Many paths would fill the screen; with this word, as in the usage, the command cannot run on a part of them by mistake
        many = len(sources) > MOST_REPEATED
        ask = "SOURCE..." if many else " ".join(shlex.quote(printable(source, 5000)) for source in sources)
        lines = summary_lines(made, ask, style=style, width=width, everything=request.everything, command=command)
        return "".join(f"{line}\n" for line in lines)
    blocks = [
        "\n".join(
            answer_lines(one, style=style, width=width, most=request.rows, long=request.long, compared=made.compared)
        )
        for one in made.answers
    ]
    part = "".join(f"{line}\n" for line in part_lines(made, style, width))
    return part + "\n\n".join(blocks) + "\n"


def write(output: Path | None, page: str) -> None:
    """Write a page to a file, or to standard output."""
    with Sink(output, live=False) as sink:
        sink.write(page.encode("utf-8", "backslashreplace"))


def tell(damages: Sequence[str], program: str = "kproxy") -> None:
    """Print on standard error what could not be read."""
    for damage in damages:
        print(f"{program}: {printable(damage, 400)}", file=sys.stderr)


class Shown:
    """The look of text output: on a terminal, or elsewhere."""

    def __init__(self, request: ReportRequest) -> None:
        is_text = request.form is Format.TEXT and request.output is None
        self._on_terminal = is_text and sys.stdout is not None and sys.stdout.isatty()

    def look(self) -> tuple[Style, int]:
        """Return the colors, and the width in columns."""
        if not self._on_terminal:
            columns = os.environ.get("COLUMNS", "")
            return PLAIN, max(int(columns), NARROWEST) if WIDTH.fullmatch(columns) else 100
        return style_for(sys.stdout, dict(os.environ)), min(shutil.get_terminal_size((100, 24)).columns, WIDEST)

    def show_first(self, text: str) -> None:
        """Show the first answer: above the report on a terminal, else on standard error, so that the report is alone."""
        if self._on_terminal:
            write(None, text)
        elif sys.stderr is not None:
            print(text, end="", file=sys.stderr, flush=True)


class Meter:
    """Shows on standard error which analysis is running, after BEFORE_METER_S.

    Args:
        wanted: show it where standard error is a terminal.
        poll: called before each analysis, when nothing is shown.
    """

    def __init__(self, *, wanted: bool, poll: Callable[[], None] = lambda: None) -> None:
        self._poll = poll
        self._wanted = wanted and sys.stderr is not None and sys.stderr.isatty()
        self._began = time.monotonic()
        self._is_shown = False

    def analyse(self, done: int, total: int, name: str) -> None:
        """Show which analysis is next."""
        self._clear()
        self._poll()
        if self._wanted and time.monotonic() - self._began > BEFORE_METER_S:
            self.show(f"analysis {done + 1} of {total}: {printable(name, 40)}")

    def show(self, line: str) -> None:
        if self._wanted:
            self._is_shown = True
            print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._is_shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> "Meter":
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()
