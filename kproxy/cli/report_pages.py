"""Show a report in its form, and before that which analysis is running."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.cli.report_request import Asked, Format
from kproxy.output.escaping import printable
from kproxy.output.text.styles import PLAIN, Style, style_for
from kproxy.pipeline.sink import Sink

if TYPE_CHECKING:
    from kproxy.analyses.report.charts.gallery import Selects
    from kproxy.analyses.report.verdicts import Report

WIDEST = 120
STILL_GROWING = "the file ends within this line"  # in a decoded log that is still being written; no damage
BEFORE_METER_S = 0.5  # of running analyses, until the current one is shown


def page_of(asked: Asked, made: "Report", sources: Sequence[str], tables: "Selects", command: str) -> str:
    """Return the report in its form.

    Args:
        asked: the options of the command.
        made: the report.
        sources: as on the command line.
        tables: the tables that the charts of a page read.
        command: the program, for commands that show more.
    """
    if asked.form is Format.HTML:
        return _html(asked, made, tables)
    if asked.form is Format.JSON:
        from kproxy.analyses.report.json_page import json_page  # noqa: PLC0415

        return json_page(made).decode()
    if asked.form is Format.MARKDOWN:
        from kproxy.analyses.report.markdown import markdown_page  # noqa: PLC0415

        return markdown_page(made, most=asked.rows)
    return _text(asked, made, sources, command)


def _html(asked: Asked, made: "Report", tables: "Selects") -> str:
    from kproxy.analyses.report.charts.gallery import draw_all  # noqa: PLC0415 - only for pages
    from kproxy.analyses.report.html.page import html_page  # noqa: PLC0415

    drawings = []
    if made.summary.requests:
        micros = made.summary.first_micros or 0, made.summary.last_micros or 0
        drawings = draw_all(tables, asked.only or None, (micros[0] // 1000, micros[1] // 1000 + 1))
    return html_page(made, drawings, most=asked.rows)


def _text(asked: Asked, made: "Report", sources: Sequence[str], command: str) -> str:
    from kproxy.analyses.report.text import answer_lines, part_lines, summary_lines  # noqa: PLC0415

    style, width = Shown(asked).look()
    if not asked.only:
        ask = " ".join(shlex.quote(printable(source, 5000)) for source in sources)
        lines = summary_lines(made, ask, style=style, width=width, everything=asked.everything, command=command)
        return "".join(f"{line}\n" for line in lines)
    blocks = [
        "\n".join(answer_lines(one, style=style, width=width, most=asked.rows, long=asked.long, compared=made.compared))
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

    def __init__(self, asked: Asked) -> None:
        is_text = asked.form is Format.TEXT and asked.output is None
        self._on_terminal = is_text and sys.stdout is not None and sys.stdout.isatty()

    def look(self) -> tuple[Style, int]:
        """Return the colors, and the width in columns."""
        if not self._on_terminal:
            return PLAIN, 100
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
        """Show a line, instead of the one that is there."""
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
