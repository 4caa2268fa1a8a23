"""``kproxy report``: what matters in captures, decoded logs and tables: verdicts with numbers, then what was asked for."""

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli.first_answer import FirstAnswer
from kproxy.cli.reading import SourceReader
from kproxy.errors import UsageError
from kproxy.output.escaping import printable
from kproxy.output.text.styles import PLAIN, Style, style_for
from kproxy.pipeline.run import Options
from kproxy.pipeline.sink import Sink, check_output

if TYPE_CHECKING:
    from kproxy.analyses.analysis import Analysis, Value
    from kproxy.analyses.duck import Database
    from kproxy.analyses.report.verdicts import Report

DONE, DAMAGED, GATE, INTERRUPTED = 0, 3, 4, 130  # exit status, see app.py
SEVERITIES = ("notice", "warning", "critical")
WIDEST = 120
FIRST_ANALYSES_S = 0.25  # CPU time for the analyses of the first answer
BEFORE_METER_S = 0.5  # of analyses, until it is shown which one is run
STILL_GROWING = "the file ends within this line"


class Format(StrEnum):
    """The forms of a report."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"
    MARKDOWN = "markdown"


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, type=Path)
@click.option("--only", metavar="ID", multiple=True, help="Run this analysis and show its rows; may be repeated.")
@click.option(
    "--param", "parameters", metavar="NAME=VALUE", multiple=True, help="Set a parameter, such as a threshold."
)
@click.option("--target", metavar="RELEASE", help="The Kafka release that readiness asks for: 4.0.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice([known.value for known in Format]),
    default=Format.TEXT.value,
    show_default=True,
    help="text for a terminal, json for programs, html and markdown for a ticket.",
)
@click.option("-o", "--output", metavar="FILE", type=Path, help="Write to this file.")
@click.option("--analyses", "folders", metavar="DIR", multiple=True, type=Path, help="Add the analyses of this folder.")
@click.option("--list", "listed", is_flag=True, help="List the analyses and their parameters.")
@click.option("--all", "everything", is_flag=True, help="Show all verdicts.")
@click.option("--rows", metavar="N", type=click.IntRange(min=1), help="Show at most N rows of each analysis.")
@click.option("--long", is_flag=True, help="With --only: show each row field by field, with all columns.")
@click.option("--records", is_flag=True, help="Also run analyses of the contents of records.")
@click.option(
    "--before",
    metavar="FROM/TO",
    help="With --only diff: the first range of time, 2026-11-21T09:00Z/2026-11-21T09:10Z; each end may be left out.",
)
@click.option("--after", metavar="FROM/TO", help="With --only diff: the second one.")
@click.option(
    "--keylog", metavar="FILE", type=Path, help="Session keys of TLS (NSS key log); see kproxy decode --help."
)
@click.option("--fail-on", type=click.Choice(SEVERITIES), help="Exit with 4 for a verdict that is as bad or worse.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress bar and no first answer.")
def report(
    sources: tuple[Path, ...],
    only: tuple[str, ...],
    parameters: tuple[str, ...],
    target: str | None,
    format_name: str,
    output: Path | None,
    folders: tuple[Path, ...],
    listed: bool,
    everything: bool,
    rows: int | None,
    long: bool,
    records: bool,
    before: str | None,
    after: str | None,
    keylog: Path | None,
    fail_on: str | None,
    quiet: bool,
) -> int:
    """Report what matters in captures, decoded logs and tables.

    SOURCE is a capture (pcap or pcapng, plain, gzip or zstd; - is standard input), a decoded log, also one that kproxy run
    is writing, or a directory of tables (kproxy decode --format parquet). Several are put together.

    \b
    kproxy report trace.pcapng
    kproxy report --list
    kproxy report --only rebalances trace.pcapng
    kproxy report --only tiny_batches --param max_records=10 trace.pcapng
    kproxy report --target 4.0 trace.pcapng
    kproxy report --format html -o report.html trace.pcapng
    kproxy report --only diff before.pcapng after.pcapng
    kproxy report --analyses ./ours trace.pcapng

    Of a large capture there is a first answer after about a second, from its
    beginning, which says how much of it that is; the report follows when all is
    read. It goes to standard error, unless the report goes to a terminal, so that
    the report is alone on standard output; -q is without it. Ctrl-C ends the
    reading, and the report is of what was read until then.

    With --only diff, what changed from the first source to the second; of one
    source between its halves, or between --before and --after. A page (html) is one
    file without scripts, which loads nothing. Analyses are files of SQL, see
    kproxy/analyses/analysis.py; a folder of yours may have views/ beside them.

    Readiness, for CI: with --target, or --only readiness, the exit status is 4
    where a client breaks.

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
    from kproxy.analyses import library  # noqa: PLC0415 - needs what was just looked for
    from kproxy.analyses.report.verdicts import make_report  # noqa: PLC0415

    analyses = library.load(folders)
    if listed:
        _write(None, "".join(f"{line}\n" for line in _list_lines(analyses.values())))
        return DONE
    _check_sources(sources, output)
    values = _parameters(parameters, target)
    chosen = _chosen(analyses, only, folders, target=target, records=records)
    _check_parameters(chosen, values)
    spans = _spans(sources, only, before, after)
    views = library.load_views(folders)
    wanted = {table for analysis in chosen for table in library.tables_needed(analysis, views)}
    form = Format(format_name)
    if form is Format.HTML:
        from kproxy.analyses.report.charts.gallery import tables_of_charts  # noqa: PLC0415 - only for pages

        check_available(more=("jinja2", "vl_convert"))
        wanted |= tables_of_charts(only or None)
    shown = _Shown(form, output, quiet=quiet)
    reader = SourceReader(
        sources,
        bar=not quiet,
        first=FirstAnswer() if _wants_first_answer(sources, only, keylog, quiet=quiet) else None,
        show=shown.show_first,
    )
    with (
        reader.contained(),
        Database(
            sources,
            folders=folders,
            wanted=wanted,
            options=Options(keylog=keylog, records=records),
            watch=reader.read,
            compare="diff" in only and len(sources) == 2,
            spans=spans,
            reading=reader.state,
        ) as database,
    ):
        if reader.is_first_answer:
            reader.send(_first_answer(database, chosen, values, reader.part, shown))
        growing = [damage for damage in database.damages if damage.endswith(STILL_GROWING)]
        database.damages = [damage for damage in database.damages if damage not in growing]
        with _Meter(reader, wanted=not quiet) as meter:
            made = make_report(
                database,
                chosen,
                values,
                sources=map(str, sources),
                compared=_compared(sources, only, before, after),
                part=reader.part if reader.interrupted else "",
                watch=meter.analyse,
            )
            page = _html(database, made, only, rows) if form is Format.HTML else ""
    if form is not Format.HTML:
        page = _rendered(made, form, sources, only, everything=everything, rows=rows, long=long, output=output)
    _write(output, page)
    for damage in made.damages:
        print(f"kproxy: {printable(damage, 400)}", file=sys.stderr)
    if reader.interrupted:
        return INTERRUPTED
    if _is_gated(made, only, target, fail_on):
        return GATE
    return DAMAGED if made.damages else DONE


def _wants_first_answer(sources: tuple[Path, ...], only: tuple[str, ...], keylog: Path | None, *, quiet: bool) -> bool:
    """Whether there is a first answer: not of directories, where nothing is decoded; not of a comparison, which needs all.

    A key log is read as far as it is needed, by one process.
    """
    return not quiet and keylog is None and "diff" not in only and not any(source.is_dir() for source in sources)


# What to run


def _check_sources(sources: tuple[Path, ...], output: Path | None) -> None:
    if not sources:
        raise UsageError("name a capture, a decoded log or a directory of tables: kproxy report trace.pcapng")
    if sources.count(Path("-")) > 1:
        raise UsageError("standard input can be read only once: use one -")
    check_output(output, list(sources))


def _parameters(texts: Iterable[str], target: str | None) -> "dict[str, Value]":
    values: dict[str, Value] = {} if target is None else {"target": target}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--param wants NAME=VALUE, not {text[:80]!r}")
        values[name] = value
    return values


def _chosen(
    analyses: "dict[str, Analysis]",
    only: tuple[str, ...],
    folders: tuple[Path, ...],
    *,
    target: str | None,
    records: bool,
) -> "list[Analysis]":
    """The analyses that --only names, or that have a target; else the default ones (with --records also those of records)."""
    from kproxy.analyses import library  # noqa: PLC0415

    if only:
        return [library.find(analyses, wanted) for wanted in dict.fromkeys(only)]
    if target is not None:
        return [one for one in analyses.values() if "target" in one.parameters]
    views = library.load_views(folders)
    return [
        one
        for one in analyses.values()
        if one.header.default and (records or "records" not in library.tables_needed(one, views))
    ]


def _check_parameters(chosen: "list[Analysis]", values: "dict[str, Value]") -> None:
    """Raise UsageError for a parameter that no analysis has, or that has a value of the wrong kind, before anything is read."""
    from kproxy.analyses.facts import FACTS_TABLES  # noqa: PLC0415
    from kproxy.analyses.parameters import bind, known_to  # noqa: PLC0415

    known = {name for analysis in chosen for name in analysis.parameters}
    for name in values:
        if name not in known:
            where = chosen[0].id if len(chosen) == 1 else "the analyses that are run"
            raise UsageError(f"no parameter of {where} is called {name[:80]!r}; kproxy report --list shows them")
    for analysis in chosen:
        bind(analysis, known_to(analysis, values))
    releases = [str(row[0]) for row in FACTS_TABLES["releases"].rows()]
    if "target" in values and not any(_is_release(str(values["target"]), release) for release in releases):
        raise UsageError(
            f"--target {str(values['target'])[:40]} is no release that is known; there are {', '.join(releases)}"
        )


def _is_release(wanted: str, release: str) -> bool:
    """Whether what was asked for means the release: 3.9.1 and 3.9 mean 3.9; 4 and 4.x mean each release that begins so."""
    return f"{wanted}.".startswith(f"{release}.") or release.startswith(f"{wanted.removesuffix('.x')}.")


def _spans(
    sources: tuple[Path, ...], only: tuple[str, ...], before: str | None, after: str | None
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    from kproxy.analyses.spans import parse_span  # noqa: PLC0415

    if "diff" in only and len(sources) > 2:
        raise UsageError("diff compares two sources, BEFORE and AFTER, or two ranges of time: --before and --after")
    if before is None and after is None:
        return None
    if before is None or after is None:
        raise UsageError("--before and --after go together")
    if "diff" not in only:
        raise UsageError("--before and --after are for --only diff")
    if len(sources) != 1:
        raise UsageError("--before and --after are ranges of one source; of two sources each is a side")
    return parse_span("--before", before), parse_span("--after", after)


def _compared(sources: tuple[Path, ...], only: tuple[str, ...], before: str | None, after: str | None) -> str:
    """Say which two sides a diff compares."""
    if "diff" not in only:
        return ""
    names = [printable(str(source), 200) for source in sources]
    if len(names) == 2:
        return f"Compared: before is {names[0]}, after is {names[1]}."
    if before is not None:
        return f"Compared: before is {before}, after is {after} of {names[0]}."
    return (
        f"Compared: the first half of the time of {names[0]} with the second half. For another comparison give two sources, "
        "or --before FROM/TO --after FROM/TO."
    )


def _is_gated(made: "Report", only: tuple[str, ...], target: str | None, fail_on: str | None) -> bool:
    order = ("info", *SEVERITIES)
    for answer in made.answers:
        gate = answer.analysis.header.gate
        asked = answer.analysis.id in only or (target is not None and "target" in answer.analysis.parameters)
        limits = [limit for limit in (fail_on, gate if asked and gate != "never" else None) if limit is not None]
        if answer.fires and any(order.index(answer.severity) >= order.index(limit) for limit in limits):
            return True
    return False


# What is shown


def _html(database: "Database", made: "Report", only: tuple[str, ...], rows: int | None) -> str:
    from kproxy.analyses.report.charts.gallery import draw_all  # noqa: PLC0415 - only for pages
    from kproxy.analyses.report.html.page import html_page  # noqa: PLC0415

    drawings = []
    if made.summary.requests:
        micros = made.summary.first_micros or 0, made.summary.last_micros or 0
        drawings = draw_all(database, only or None, (micros[0] // 1000, micros[1] // 1000 + 1))
    return html_page(made, drawings, most=rows)


def _rendered(
    made: "Report",
    form: Format,
    sources: tuple[Path, ...],
    only: tuple[str, ...],
    *,
    everything: bool,
    rows: int | None,
    long: bool,
    output: Path | None,
) -> str:
    if form is Format.JSON:
        from kproxy.analyses.report.json_page import json_page  # noqa: PLC0415

        return json_page(made).decode()
    if form is Format.MARKDOWN:
        from kproxy.analyses.report.markdown import markdown_page  # noqa: PLC0415

        return markdown_page(made, most=rows)
    from kproxy.analyses.report.text import answer_lines, part_lines, summary_lines  # noqa: PLC0415

    style, width = _Shown(form, output, quiet=False).look()
    if not only:
        ask = " ".join(_shell_word(str(source)) for source in sources)
        lines = summary_lines(made, ask, style=style, width=width, everything=everything)
        return "".join(f"{line}\n" for line in lines)
    blocks = [
        "\n".join(answer_lines(one, style=style, width=width, most=rows, long=long, compared=made.compared))
        for one in made.answers
    ]
    part = "".join(f"{line}\n" for line in part_lines(made, style, width))
    return part + "\n\n".join(blocks) + "\n"


def _shell_word(text: str) -> str:
    import shlex  # noqa: PLC0415 - only for the last lines

    return shlex.quote(printable(text, 5000))


def _list_lines(analyses: "Iterable[Analysis]") -> Iterator[str]:
    for one in analyses:
        yield f"{one.id:<28}  {one.severity:<8}  {printable(one.title, 100)}"
        for name, parameter in one.header.parameters.items():
            yield f"    {name}={parameter.default}  {printable(parameter.meaning, 200)}"


def _write(output: Path | None, page: str) -> None:
    with Sink(output, live=False) as sink:
        sink.write(page.encode("utf-8", "backslashreplace"))


def _first_answer(
    database: "Database", analyses: "list[Analysis]", values: "dict[str, Value]", part: str, shown: "_Shown"
) -> str:
    from kproxy.analyses.report.text import first_lines  # noqa: PLC0415
    from kproxy.analyses.report.verdicts import make_first_report  # noqa: PLC0415

    until = time.process_time() + FIRST_ANALYSES_S
    made = make_first_report(database, analyses, values, enough=lambda: time.process_time() > until, part=part)
    style, width = shown.look()
    return "".join(f"{line}\n" for line in first_lines(made, len(analyses), style=style, width=width))


class _Shown:
    """Where the report goes, and how it looks there."""

    def __init__(self, form: Format, output: Path | None, *, quiet: bool) -> None:
        self._on_terminal = form is Format.TEXT and output is None and sys.stdout is not None and sys.stdout.isatty()

    def look(self) -> tuple[Style, int]:
        """Colors, and columns."""
        if not self._on_terminal:
            return PLAIN, 100
        return style_for(sys.stdout, dict(os.environ)), min(shutil.get_terminal_size((100, 24)).columns, WIDEST)

    def show_first(self, text: str) -> None:
        """Show the first answer: above the report on a terminal, else on standard error, so that the report is alone."""
        if self._on_terminal:
            _write(None, text)
        elif sys.stderr is not None:
            print(text, end="", file=sys.stderr, flush=True)


class _Meter:
    """On standard error, which analysis is run, once reading and analyses together take a second."""

    def __init__(self, reader: SourceReader, *, wanted: bool) -> None:
        self._reader = reader
        self._wanted = wanted and sys.stderr is not None and sys.stderr.isatty()
        self._began = time.monotonic()
        self._is_shown = False

    def analyse(self, done: int, total: int, name: str) -> None:
        """Say which analysis is next."""
        self._clear()
        self._reader.poll()
        if self._wanted and time.monotonic() - self._began > BEFORE_METER_S:
            self._is_shown = True
            line = f"analysis {done + 1} of {total}: {printable(name, 40)}"
            print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._is_shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> "_Meter":
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()
