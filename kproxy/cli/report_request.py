"""The common options of ``kproxy report`` and ``kproxy-spark report``, and the plan that they make.

@click.command()
@click.argument("sources", ...)
@report_options
def report(sources, **options): request = request_of(options)

plan = make_plan(request, sources)    -> what to run, with which values; UsageError before anything is read
is_gated(request, made)               -> whether the exit status is 4
"""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from msgspec import Struct

from kproxy.cli.formats import format_of
from kproxy.cli.options import KEYLOG, SCHEMA_OPTIONS, complete_analyses, pop_schemas, together
from kproxy.errors import UsageError, did_you_mean
from kproxy.output.escaping import printable
from kproxy.schemas.settings import SchemaSources

if TYPE_CHECKING:
    from kproxy.analyses.analysis import Analysis, Value
    from kproxy.analyses.report.verdicts import Report

SEVERITIES = ("notice", "warning", "critical")
Spans: TypeAlias = tuple[tuple[int, int], tuple[int, int]]  # of a diff: microseconds since the epoch, from and until


class Format(StrEnum):
    """The forms of a report."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"
    MARKDOWN = "markdown"


SUFFIXES = {
    ".txt": Format.TEXT,
    ".json": Format.JSON,
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".md": Format.MARKDOWN,
}


class ReportRequest(Struct, frozen=True):
    """The values of the common options; their help, below, explains each."""

    only: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    target: str | None = None
    format_name: str | None = None
    output: Path | None = None
    folders: tuple[Path, ...] = ()
    listed: bool = False
    everything: bool = False
    rows: int | None = None
    long: bool = False
    records: bool = False
    before: str | None = None
    after: str | None = None
    keylog: Path | None = None
    fail_on: str | None = None
    quiet: bool = False
    schemas: SchemaSources = SchemaSources()

    @property
    def form(self) -> Format:
        return format_of(self.output, self.format_name, SUFFIXES, Format.TEXT)

    @property
    def compares(self) -> bool:
        return "diff" in self.only


OPTIONS = (
    click.option(
        "--only",
        metavar="ID",
        multiple=True,
        shell_complete=complete_analyses,
        help="Run this analysis and show its rows; may be repeated.",
    ),
    click.option(
        "--param", "parameters", metavar="NAME=VALUE", multiple=True, help="Set a parameter, such as a threshold."
    ),
    click.option("--target", metavar="RELEASE", help="The Kafka release that readiness asks for: 4.0."),
    click.option(
        "--format",
        "format_name",
        type=click.Choice([known.value for known in Format]),
        help="text for a terminal, json for programs, html and markdown for a ticket. By default what the suffix of -o says "
        "(.txt, .json, .html, .md); without a suffix text.",
    ),
    click.option("-o", "--output", metavar="FILE", type=Path, help="Write to this file."),
    click.option(
        "--analyses", "folders", metavar="DIR", multiple=True, type=Path, help="Add the analyses of this folder."
    ),
    click.option("--list", "listed", is_flag=True, help="List the analyses and their parameters."),
    click.option("--all", "everything", is_flag=True, help="Show all verdicts."),
    click.option("--rows", metavar="N", type=click.IntRange(min=1), help="Show at most N rows of each analysis."),
    click.option("--long", is_flag=True, help="With --only: show each row field by field, with all columns."),
    click.option("--records", is_flag=True, help="Also run analyses of the contents of records."),
    *SCHEMA_OPTIONS,
    click.option(
        "--before",
        metavar="FROM/TO",
        help="With --only diff: the first range of time, 2026-11-21T09:00Z/2026-11-21T09:10Z; each end may be left out.",
    ),
    click.option(
        "--after", metavar="FROM/TO", help="With --only diff: the second one; T/ alone: from T on, against all before."
    ),
    KEYLOG,
    click.option("--fail-on", type=click.Choice(SEVERITIES), help="Exit with 4 for a verdict that is as bad or worse."),
    click.option("-q", "--quiet", is_flag=True, help="Show no progress bar and no first answer."),
)


report_options = together(*OPTIONS)  # keyword arguments that request_of takes


def request_of(options: dict[str, Any]) -> ReportRequest:
    """Return the values of the common options. Raises UsageError for schemas without an analysis that may need them."""
    schemas = pop_schemas(options, records=options["records"] or bool(options["only"]))
    return ReportRequest(**options, schemas=schemas)


class Plan(Struct, frozen=True):
    """The analyses to run. ``spans``: the two ranges of time that a diff compares; None: its sources, or their halves."""

    analyses: "list[Any]"  # Analysis
    values: dict[str, Any]  # of parameters
    tables: set[str]
    spans: Spans | None
    compared: str


def load_analyses(request: ReportRequest) -> "dict[str, Analysis]":
    """All analyses. Raises as library.load does."""
    from kproxy.analyses import library  # noqa: PLC0415 - needs DuckDB

    return library.load(request.folders)


def make_plan(request: ReportRequest, sources: Sequence[str], command: str) -> Plan:
    """Check the options before anything is read. *command*: the program, for hints. Raises UsageError."""
    from kproxy.analyses import library  # noqa: PLC0415
    from kproxy.output.tables.contracts import TABLES  # noqa: PLC0415

    analyses = load_analyses(request)
    values = _values(request)
    chosen = _chosen(analyses, request)
    _check_values(chosen, values, command)
    views = library.load_views(request.folders)
    if request.only or request.target is not None:
        tables = {table for analysis in chosen for table in library.tables_needed(analysis, views)}
    else:
        tables = {name for name, table in TABLES.items() if request.records or not table.optional}
    if request.form is Format.HTML:
        from kproxy.analyses.duck import check_available  # noqa: PLC0415
        from kproxy.analyses.report.charts.gallery import tables_of_charts  # noqa: PLC0415 - only for pages

        check_available(more=("jinja2", "vl_convert"))
        tables |= tables_of_charts(request.only or None)
    return Plan(chosen, values, tables, _spans(request, sources), _compared(request, sources))


def is_gated(request: ReportRequest, made: "Report") -> bool:
    """Whether the exit status is 4: a verdict is as bad as --fail-on, or as the gate of an analysis that was chosen by name."""
    order = ("info", *SEVERITIES)
    for answer in made.answers:
        gate = answer.analysis.header.gate
        was_asked = answer.analysis.id in request.only or (
            request.target is not None and "target" in answer.analysis.parameters
        )
        limits = [
            each for each in (request.fail_on, gate if was_asked and gate != "never" else None) if each is not None
        ]
        if answer.fires and any(order.index(answer.severity) >= order.index(limit) for limit in limits):
            return True
    return False


def list_analyses(request: ReportRequest) -> str:
    """Return the lines of --list. Raises as load_analyses does."""
    lines = []
    for one in load_analyses(request).values():
        lines.append(f"{one.id:<28}  {one.severity:<8}  {printable(one.title, 100)}\n")
        for name, parameter in one.header.parameters.items():
            lines.append(f"    {name}={parameter.default}  {printable(parameter.meaning, 200)}\n")
    return "".join(lines)


def _values(request: ReportRequest) -> "dict[str, Value]":
    target = request.target
    if target is None and "readiness" in request.only:  # asked by name: severities of a release that was asked for
        from kproxy.analyses.facts import FACTS_TABLES  # noqa: PLC0415

        target = str(FACTS_TABLES["releases"].rows()[-1][0])
    values: dict[str, Value] = {} if target is None else {"target": target}
    for text in request.parameters:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--param wants NAME=VALUE, not {text[:80]!r}")
        values[name] = value
    return values


def _chosen(analyses: "dict[str, Analysis]", request: ReportRequest) -> "list[Analysis]":
    """The analyses that --only names or that have a target; by default all, those of records only with --records."""
    from kproxy.analyses import library  # noqa: PLC0415

    if request.only:
        return [library.find(analyses, wanted) for wanted in dict.fromkeys(request.only)]
    if request.target is not None:
        return [one for one in analyses.values() if "target" in one.parameters]
    views = library.load_views(request.folders)
    return [
        one
        for one in analyses.values()
        if one.header.default and (request.records or not library.reads_records(one, views))
    ]


def _check_values(chosen: "list[Analysis]", values: "dict[str, Value]", command: str) -> None:
    """Raise UsageError for a parameter that no analysis has, or a value of the wrong type."""
    from kproxy.analyses.analysis import bind, known_to  # noqa: PLC0415
    from kproxy.analyses.facts import FACTS_TABLES  # noqa: PLC0415

    known = {name for analysis in chosen for name in analysis.parameters}
    for name in values:
        if name not in known:
            where = chosen[0].id if len(chosen) == 1 else "the analyses that are run"
            hint = did_you_mean(name, known, f"{command} --list shows them")
            raise UsageError(f"no parameter of {where} is called {name[:80]!r}; {hint}")
    for analysis in chosen:
        bind(analysis, known_to(analysis, values))
    releases = [str(row[0]) for row in FACTS_TABLES["releases"].rows()]
    if "target" in values and not any(_is_release(str(values["target"]), release) for release in releases):
        raise UsageError(
            f"--target {str(values['target'])[:40]} is no release that is known; there are {', '.join(releases)}"
        )


def _is_release(wanted: str, release: str) -> bool:
    """Whether *wanted* means the release: 3.9.1 and 3.9 mean 3.9; 4 and 4.x mean each release 4.n."""
    return f"{wanted}.".startswith(f"{release}.") or release.startswith(f"{wanted.removesuffix('.x')}.")


def _spans(request: ReportRequest, sources: Sequence[str]) -> Spans | None:
    from kproxy.analyses.loading import parse_span  # noqa: PLC0415

    if request.compares and len(sources) > 2:
        raise UsageError("diff compares two sources, BEFORE and AFTER, or two ranges of time: --before and --after")
    ranges = _ranges(request)
    if ranges is None:
        return None
    if not request.compares:
        raise UsageError("--before and --after are for --only diff")
    if len(sources) != 1:
        raise UsageError("--before and --after are ranges of one source; of two sources each is a side")
    return parse_span("--before", ranges[0]), parse_span("--after", ranges[1])


def _ranges(request: ReportRequest) -> tuple[str, str] | None:
    """Return --before and --after. If one is missing, it is the rest of the time: before FROM/, or after /TO."""
    given = request.after if request.before is None else request.before
    if given is None:
        return None
    begins, _, ends = given.partition("/")
    if None in (request.before, request.after) and bool(begins) == bool(ends):
        raise UsageError("--before and --after go together, unless one has only one end: --after 2026-11-21T09:00Z/")
    rest = f"{ends}/{begins}"
    return request.before or rest, request.after or rest


def _compared(request: ReportRequest, sources: Sequence[str]) -> str:
    if not request.compares:
        return ""
    names = [printable(source, 200) for source in sources]
    if len(names) == 2:
        return f"Compared: before is {names[0]}, after is {names[1]}."
    if ranges := _ranges(request):
        return f"Compared: before is {ranges[0]}, after is {ranges[1]} of {names[0]}."
    return (
        f"Compared: the first half of the time of {names[0]} with the second half. For another comparison give two sources, "
        "or the time of a change: --after 2026-11-21T09:00Z/."
    )
