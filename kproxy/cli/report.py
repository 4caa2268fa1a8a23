"""``kproxy report``: what matters in captures, decoded logs and tables, as verdicts; the rows of analyses that --only names."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.first_answer import FirstAnswer
from kproxy.cli.reading import SourceReader
from kproxy.cli.report_pages import STILL_GROWING, Meter, Shown, page_of, tell, write
from kproxy.cli.report_request import Asked, Plan, is_gated, list_lines, load_analyses, make_plan, report_options
from kproxy.errors import UsageError
from kproxy.pipeline.run import Options
from kproxy.pipeline.sink import check_output

if TYPE_CHECKING:
    from kproxy.analyses.duck import Database

COMMAND = "kproxy report"
DONE, DAMAGED, GATE, INTERRUPTED = 0, 3, 4, 130  # exit status, see app.py
FIRST_ANALYSES_S = 0.2  # CPU time for the analyses of the first answer


@click.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, type=Path)
@report_options
def report(sources: tuple[Path, ...], **options: Any) -> int:
    """Report what matters in captures, decoded logs and tables.

    SOURCE is a capture (pcap or pcapng, plain, gzip or zstd; - is standard input), a decoded log, which kproxy run may still
    be writing, or a directory of tables (kproxy decode --format parquet). Several sources make one report.

    \b
    kproxy report trace.pcapng
    kproxy report --list
    kproxy report --only rebalances trace.pcapng
    kproxy report --only tiny_batches --param max_records=10 trace.pcapng
    kproxy report --target 4.0 trace.pcapng
    kproxy report -o report.html trace.pcapng
    kproxy report --only diff before.pcapng after.pcapng
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

    asked, names = Asked(**options), tuple(map(str, sources))
    if asked.listed:
        write(None, "".join(f"{line}\n" for line in list_lines(load_analyses(asked).values())))
        return DONE
    _check_sources(sources, asked.output)
    plan = make_plan(asked, names, COMMAND)
    shown = Shown(asked)
    reader = SourceReader(
        sources,
        bar=not asked.quiet,
        first=FirstAnswer() if _wants_first_answer(sources, asked) else None,
        show=shown.show_first,
    )
    with (
        reader.contained(),
        Database(
            sources,
            folders=asked.folders,
            wanted=plan.tables,
            options=Options(keylog=asked.keylog, records=asked.records),
            watch=reader.read,
            compare=asked.compares and len(sources) == 2,
            spans=plan.spans,
            reading=reader.state,
        ) as database,
    ):
        if reader.is_first_answer:
            reader.send(_first_answer(database, plan, reader.part, shown))
        growing = [damage for damage in database.damages if damage.endswith(STILL_GROWING)]
        database.damages = [damage for damage in database.damages if damage not in growing]
        with Meter(wanted=not asked.quiet, poll=reader.poll) as meter:
            made = make_report(
                database,
                plan.analyses,
                plan.values,
                sources=names,
                compared=plan.compared,
                part=reader.part if reader.interrupted else "",
                watch=meter.analyse,
            )
            page = page_of(asked, made, names, database, COMMAND)
    write(asked.output, page)
    tell(made.damages)
    if reader.interrupted:
        return INTERRUPTED
    if is_gated(asked, made):
        return GATE
    return DAMAGED if made.damages else DONE


def _check_sources(sources: tuple[Path, ...], output: Path | None) -> None:
    if not sources:
        raise UsageError("name a capture, a decoded log or a directory of tables: kproxy report trace.pcapng")
    if sources.count(Path("-")) > 1:
        raise UsageError("standard input can be read only once: use one -")
    check_output(output, list(sources))


def _wants_first_answer(sources: tuple[Path, ...], asked: Asked) -> bool:
    """Whether to give a first answer.

    Directories of tables need no decoding, a comparison needs all of its sources, and two processes cannot share a key log.
    """
    is_whole = asked.keylog is not None or asked.compares or any(source.is_dir() for source in sources)
    return not asked.quiet and not is_whole


def _first_answer(database: "Database", plan: Plan, part: str, shown: Shown) -> str:
    from kproxy.analyses.report.text import first_lines  # noqa: PLC0415 - needs pyarrow
    from kproxy.analyses.report.verdicts import make_first_report  # noqa: PLC0415

    until = time.process_time() + FIRST_ANALYSES_S
    made = make_first_report(
        database, plan.analyses, plan.values, enough=lambda: time.process_time() > until, part=part
    )
    style, width = shown.look()
    return "".join(f"{line}\n" for line in first_lines(made, len(plan.analyses), style=style, width=width))
