"""``kproxy-spark``: ingest and report as Spark jobs; on this machine, or by spark-submit on a cluster.

Its report is that of ``kproxy report`` (report.py), with Spark in place of DuckDB.
"""

import shutil
import sys
import tempfile
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy import __version__
from kproxy.analyses.loading import Kind, identify_source
from kproxy.cli import end_start_up, main_of_spark, report_request
from kproxy.cli.endings import DAMAGED, DONE
from kproxy.cli.options import condition_of, pop_schemas, schema_options, selection_options
from kproxy.cli.report import STILL_GROWING, Meter, page_of, tell, write
from kproxy.errors import UsageError
from kproxy.output.escaping import printable
from kproxy.output.times import counted
from kproxy.pipeline.inputs import find_inputs
from kproxy.pipeline.sink import check_output

if TYPE_CHECKING:
    from kproxy.spark.catalog import Report as IngestReport
    from kproxy.spark.local import Context

COMMAND = "kproxy-spark report"
GATE = 4  # exit status, see endings.py
MOST_SHOWN = 20
STAGING = click.Path(exists=True, file_okay=False, writable=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kproxy-spark", message="%(prog)s %(version)s")
def kproxy_spark() -> None:
    """Kafka traffic on Spark: captures to tables, tables to answers.

    \b
    kproxy-spark ingest -o tables 'captures/*.pcapng'
    kproxy-spark ingest -o tables --follow --checkpoint check /var/log/kproxy
    kproxy-spark report tables

    Inputs may be in object stores: s3://, gs:// and abfss:// through pyarrow, all other schemes (s3a://, hdfs://) through
    Spark's Hadoop. The output is a directory that the driver and all executors see, or a URI of Spark's Hadoop, with
    --staging DIR where the executors share a disk.

    On a cluster the executors need kproxy with its compiled extension: an environment made on the same system and with the
    same Python as theirs, sent along or at the same path on all machines:

    \b
    python3 -m venv environment
    environment/bin/pip install '.[spark]' venv-pack
    environment/bin/venv-pack -p environment -o kproxy.tar.gz
    PYSPARK_DRIVER_PYTHON=environment/bin/python \\
      PYSPARK_PYTHON=./environment/bin/python spark-submit \\
      --master spark://HOST:7077 --archives kproxy.tar.gz#environment \\
      deploy/spark/job.py ingest -o /shared/tables '/shared/captures/*.pcapng'
    """


@kproxy_spark.command()
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    required=True,
    help="The tables; on a disk that all executors see, a URI, or a namespace of a catalog.",
)
@click.option(
    "--output-format",
    type=click.Choice(["parquet", "delta", "iceberg"]),
    help="By default iceberg where -o names a namespace of a catalog of the session (lake.kafka), else parquet. delta and "
    "iceberg need spark-submit with their jars, of the same release of Spark; tried with 4.1.",
)
@click.option(
    "--state", metavar="DIR", help="For delta and iceberg: where to note which files were read; required by iceberg."
)
@click.option("--staging", metavar="DIR", type=STAGING, help="A disk that all executors see, if the output is on none.")
@click.option("--cluster", metavar="NAME", help="Name of the cluster; by default the cluster id in the traffic.")
@click.option("--records", is_flag=True, help="Also fill the table records.")
@click.option("--bodies", is_flag=True, help="Add both bodies of each exchange, as JSON.")
@schema_options
@selection_options
@click.option("--keylog", metavar="FILE", help="Session keys of TLS; a path that all executors see.")
@click.option(
    "--split-from",
    metavar="MIB",
    type=click.IntRange(min=0),
    default=256,
    show_default=True,
    help="Divide captures of this size and more among all cores, at packet boundaries.",
)
@click.option("--parts", metavar="N", type=click.IntRange(min=1), help="Divide each large capture into N parts.")
@click.option("--again", is_flag=True, help="Also read files that are in the tables already.")
@click.option(
    "--separate",
    is_flag=True,
    help="Files of different folders are different captures, even if their connections have the same addresses.",
)
@click.option("--follow", is_flag=True, help="Keep running, and read files as they appear.")
@click.option("--once", is_flag=True, help="With --follow: end when all present files were read.")
@click.option("--checkpoint", metavar="DIR", help="With --follow: a folder where Spark keeps which files were read.")
@click.option(
    "--master", metavar="URL", help="Spark's master; spark-submit's by default, else this machine, without Spark."
)
def ingest(
    inputs: tuple[str, ...],
    output: str,
    output_format: str | None,
    state: str | None,
    staging: str | None,
    cluster: str | None,
    records: bool,
    bodies: bool,
    keylog: str | None,
    split_from: int,
    parts: int | None,
    again: bool,
    separate: bool,
    follow: bool,
    once: bool,
    checkpoint: str | None,
    master: str | None,
    **others: Any,
) -> int:
    """Read captures and decoded logs into Parquet tables, by cluster and day.

    INPUT is a file, a folder, or a pattern in quotes. Files with packets of the same connections are one capture, for
    instance rotated files. Run again, it reads only new and changed files. Files that cannot be read to their end are
    listed in DIR/_kproxy/quarantine, with the reason.

    \b
    Exit status:
      0  everything was read
      3  something could not be read, now or earlier; the rest was
    """
    if follow and checkpoint is None:
        raise UsageError("--follow needs --checkpoint DIR")
    if Path(output).is_file():
        raise UsageError(f"{output} is a file; -o wants a folder")
    if once and not follow:
        raise UsageError("--once is for --follow")
    sources = pop_schemas(others, records=records)
    where = condition_of(**others)
    from kproxy.spark.files import is_hadoop, may_be_namespace  # noqa: PLC0415 - needs the tables

    output_format = output_format or ("" if may_be_namespace(output) else "parquet")
    _check_state(output_format, state)
    from kproxy.spark.session import is_wanted, open_context, open_session  # noqa: PLC0415 - an extra

    if follow or output_format != "parquet" or "://" in output:
        spark = open_session("kproxy ingest", master)
        context: Context = spark.sparkContext
        from kproxy.spark.sources import format_of_output  # noqa: PLC0415 - needs pyspark

        if not output_format:
            output_format = format_of_output(spark, output)
            if output_format == "parquet" and state is not None:
                raise UsageError(f"Spark has no catalog {output.partition('.')[0]}; --state is for delta and iceberg")
            _check_state(output_format, state)
    elif is_wanted(master) or any(map(is_hadoop, inputs)):
        context = open_context("kproxy ingest", master)
    else:
        from kproxy.spark.local import LocalContext  # noqa: PLC0415 - the other ways have no use for it

        context = LocalContext()
    from kproxy.spark import ingest as job  # noqa: PLC0415 - needs pyarrow
    from kproxy.spark.rows import Options  # noqa: PLC0415

    schemas = sources.absolute()
    target = job.Output(output, output_format, state, staging)
    options: dict[str, Any] = {
        "options": Options(bodies, records, where, keylog and str(Path(keylog).absolute()), schemas),
        "cluster": cluster,
        "split_from": split_from << 20,
        "parts": parts,
        "again": again,
        "separate": separate,
        "note": _note,
    }
    if checkpoint is not None and follow:
        from kproxy.spark import source  # noqa: PLC0415

        source.run(lambda: source.follow(spark, inputs, target, checkpoint, once=once, on_batch=_tell, **options))
        return DAMAGED if job.standing_problems(context, target) else DONE
    end_start_up()
    report = job.ingest(context, inputs, target, **options)
    report.problems += [each for each in job.standing_problems(context, target) if each not in report.problems]
    _tell(report)
    return DAMAGED if report.problems else DONE


@kproxy_spark.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1)
@report_request.report_options
@click.option("--cluster", metavar="NAME", help="Only this cluster, of tables that ingest wrote.")
@click.option("--from", "first", metavar="DAY", help="Only from this day (UTC) on: 2026-11-21.")
@click.option("--to", "last", metavar="DAY", help="Only up to this day.")
@click.option(
    "--staging",
    metavar="DIR",
    type=STAGING,
    help="A disk that all executors see; a cluster needs it for captures, logs, lakes, and --cluster, --from, --to.",
)
@click.option(
    "--master",
    metavar="URL",
    help="Spark's master, for sources of 16 MiB and more; spark-submit's by default, else this machine, without Spark where "
    "the sources do not need it.",
)
def report(
    sources: tuple[str, ...],
    cluster: str | None,
    first: str | None,
    last: str | None,
    staging: str | None,
    master: str | None,
    **options: Any,
) -> int:
    """Run the analyses of kproxy report on Spark, over tables, captures and decoded logs.

    SOURCE is a directory of tables, of ingest or of kproxy decode, on a disk or in any file system of Spark's Hadoop (s3a://,
    hdfs://), Parquet, Delta or Iceberg; a namespace of an Iceberg catalog (lake.kafka); a capture, a decoded log, or a pattern.
    Options and exit status are those of kproxy report; see its help.

    \b
    kproxy-spark report tables
    kproxy-spark report --cluster prod --from 2026-11-01 --to 2026-11-07 tables
    kproxy-spark report --target 4.0 s3a://bucket/tables
    kproxy-spark report -o report.html tables

    --from and --to limit exchanges to these days; numbers of connections still cover their whole life.
    """
    request = report_request.request_of(options)
    if request.listed:
        write(None, report_request.list_analyses(request))
        return DONE
    if not sources:
        raise UsageError("name tables, captures or decoded logs: kproxy-spark report tables")
    check_output(request.output, [Path(source) for source in sources])
    plan = report_request.make_plan(request, sources, COMMAND)
    first_day, last_day = parse_day("--from", first), parse_day("--to", last)
    if first_day is not None and last_day is not None and first_day > last_day:
        raise UsageError("--from is a later day than --to")
    from kproxy.spark.local import LocalContext  # noqa: PLC0415 - after the mistakes of the command line
    from kproxy.spark.report import Narrowed, SparkTables, are_small, needs_spark  # noqa: PLC0415 - needs DuckDB and pyarrow
    from kproxy.spark.session import is_wanted, open_context  # noqa: PLC0415

    here = [identify_source(Path(source)) for source in sources if not needs_spark(source)]
    if files := [source.path for source in here if source.kind is Kind.EVENTS]:
        find_inputs(files)  # raises UsageError before Spark starts
    only = Narrowed(cluster, first_day, last_day)

    with ExitStack() as stack:
        meter = stack.enter_context(Meter(wanted=not request.quiet))
        if is_wanted(None if are_small(sources) else master) or only.narrows or any(map(needs_spark, sources)):
            meter.show("Spark is started")
            context: Context = open_context("kproxy report", master)
        else:
            context = LocalContext()
        from kproxy.analyses.report.verdicts import make_report  # noqa: PLC0415
        from kproxy.spark.rows import Options  # noqa: PLC0415

        scratch = None
        if staging is not None or (context.master or "").startswith("local"):
            scratch = tempfile.mkdtemp(prefix="kproxy-report-", dir=staging)
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        meter.show("the tables are opened")
        keylog = None if request.keylog is None else str(request.keylog.absolute())
        schemas = request.schemas.absolute()
        tables = SparkTables(
            context,
            sources,
            folders=request.folders,
            only=only,
            options=Options(records="records" in plan.tables, keylog=keylog, schemas=schemas),
            compare=request.compares and len(sources) == 2,
            spans=plan.spans,
            scratch=scratch,
        )
        stack.callback(tables.close)
        tell(tables.notes, "kproxy-spark")
        tables.damages = [damage for damage in tables.damages if not damage.endswith(STILL_GROWING)]
        meter.show("the analyses are run")
        tables.prepare(plan.analyses, plan.values)
        made = make_report(
            tables,
            plan.analyses,
            plan.values,
            sources=sources,
            compared=plan.compared,
            by_exchanges=tables.only.has_days,
            watch=meter.analyse,
        )
        page = page_of(request, made, sources, tables, COMMAND)
    write(request.output, page)
    tell(made.damages, "kproxy-spark")
    if report_request.is_gated(request, made):
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


def _check_state(output_format: str, state: str | None) -> None:
    if output_format == "iceberg" and state is None:
        raise UsageError("iceberg needs --state DIR, since -o names tables of a catalog")
    if output_format == "parquet" and state is not None:
        raise UsageError("--state is for delta and iceberg: parquet keeps its state in the folder of tables")


def _note(sentence: str) -> None:
    print(f"kproxy-spark: {printable(sentence, 400)}", file=sys.stderr)


def _tell(done: "IngestReport") -> None:
    for problem in done.problems[:MOST_SHOWN]:
        _note(problem)
    if len(done.problems) > MOST_SHOWN:
        _note(f"and {len(done.problems) - MOST_SHOWN} more; all are in _kproxy/quarantine")
    rows = ", ".join(f"{count:,} {table}" for table, count in done.rows.items())
    read = counted(done.read, "file")
    unread = f"{done.unread:,} could not be read, " if done.unread else ""
    print(f"{read} read, {unread}{done.skipped:,} were there already: {rows or 'no rows'}", file=sys.stderr, flush=True)


main = main_of_spark  # the program begins there, before these imports
